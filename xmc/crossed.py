"""What a cross-encoder is made of: the encoder it begins as, and the candidates of documents held out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from xmc.data.labels import LabelSet
from xmc.data.records import DocumentBatch
from xmc.encoders.dense import DenseTower
from xmc.fit import FitCross
from xmc.rerank.cross import CHARACTERS, CrossEncoder, load_base, text_pairs
from xmc.rerank.inputs import best_candidates
from xmc.settings import RerankSettings, RunSettings
from xmc.shortlist import Candidates
from xmc.stages import stage
from xmc.train.cross import CrossData, fit_cross


@dataclass(frozen=True)
class Crossed:
    """Fits a cross-encoder that begins as ``base`` and reads ``top`` candidates of a document.

    ``work``: a directory for what is kept until the model is whole; ``tell`` gets lines; ``texts``: the
    beginnings of the documents that it saw.
    """

    base: DenseTower
    top: int
    labels: LabelSet
    seed: int
    work: Path
    tell: Callable[[list[str]], object]
    bar: Callable[[str, str, int], AbstractContextManager[Callable[[int], object]]]
    texts: list[str] = field(default_factory=list)

    @classmethod
    def wanted(
        cls,
        settings: RerankSettings,
        run: RunSettings,
        labels: LabelSet,
        work: Path,
        tell: Callable[[list[str]], object],
        bar: Callable[[str, str, int], AbstractContextManager[Callable[[int], object]]],
    ) -> Crossed | None:
        """As the settings ask for it, None where they ask for none. Raises as `load_base`."""
        if settings.cross == "none":
            return None
        return cls(load_base(settings, run), settings.top, labels, run.seed, work, tell, bar)

    def see(self, batch: DocumentBatch, held: np.ndarray) -> None:
        """Keep what may be read of the documents ``held`` (n,) of a batch of texts."""
        for row in held.tolist():
            self.texts.append((batch.texts or [])[row][: CHARACTERS * self.base.max_length])

    def fitter(self, docs: np.ndarray) -> FitCross:
        """What fits it on ``docs`` (n,) of those that it saw, in this order."""
        return partial(self._fitted, [self.texts[doc] for doc in docs.tolist()])

    @stage("fit: cross-encoder")
    def _fitted(
        self, texts: list[str], found: Candidates, log_odds: np.ndarray, right: np.ndarray
    ) -> tuple[CrossEncoder | None, np.ndarray]:
        best = best_candidates(found, log_odds, self.top)
        pairs, there = text_pairs(self.base, texts, self.labels, found.of_doc[best], found.rows[best])
        best = best[there]
        data = CrossData(pairs, found.of_doc[best], log_odds[best].astype(np.float32), right[best])
        self.work.mkdir(exist_ok=True)
        fitted = fit_cross(
            self.base,
            data,
            self.top,
            self.seed,
            self.work,
            lambda line: self.tell([line]),
            lambda what, total: self.bar(what, "steps", total),
        )
        if fitted is None:
            return None, log_odds
        out = log_odds.astype(np.float32)
        out[best] = fitted.unseen
        return fitted.cross, out
