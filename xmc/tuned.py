"""What the dense tower is tuned on: documents that the fit may know, and labels that look right for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xmc.data.records import DocumentBatch
from xmc.encoders.dense import DenseTower
from xmc.encoders.leads import lead, longer_than_leads
from xmc.encoders.lexical import LexicalTower
from xmc.encoders.windows import Windows, tokenise
from xmc.encoders.writer import NpyAppender
from xmc.fit import with_duplicates, without_held_out
from xmc.index.matcher import LabelMatcher, best_columns
from xmc.label_text import same_text
from xmc.settings import TrainSettings
from xmc.source import Source
from xmc.train.tuning import Bar, TuningData, TuningTexts, tune

N_LOOK_RIGHT = 30  # labels by whose names a document's hard ones are drawn
LONGEST = 128  # tokens of a window in a step


@dataclass(frozen=True)
class Tunable:
    """A source with what a tower is tuned with: ``texts`` of its labels, the ``matcher`` over their names.

    ``held`` (n_docs,) bool: documents that judge.
    """

    source: Source
    texts: list[str]
    tower: DenseTower
    words: LexicalTower
    matcher: LabelMatcher
    held: np.ndarray
    settings: TrainSettings
    seed: int

    def tuned(self, work: Path, report: Callable[[str], object], bar: Bar) -> Path | None:
        """The folder of the tuned tower, None where none shall be or there is nothing to learn."""
        work.mkdir(exist_ok=True)
        if self.settings.dense == "frozen":
            return None
        rest = self._known_gold(work)
        docs = np.flatnonzero(np.diff(rest.indptr) > 0)
        if not len(docs):
            return None
        return tune(self.tower, self.data(docs, rest[docs]), self.settings, self.seed, work, report, bar)

    def _known_gold(self, work: Path) -> sp.csr_matrix:
        """(n_docs, n_labels) the gold labels that the fit will know, and so the tower may."""
        path = work / "words.npy"
        out = NpyAppender(path, "float32", (self.words.dim,))
        for batch in self.source.batches():
            out.append(self.words.project(self.words.features_of(batch)[0]))
        out.close()
        own = np.arange(len(self.source.ids)) < self.source.n_own
        apart = with_duplicates(self.held | ~own, np.load(path, mmap_mode="r", allow_pickle=False))
        path.unlink()
        named = np.diff(self.matcher.starts) > 0
        return without_held_out(self.source.gold, apart, named, self.seed)

    def data(self, docs: np.ndarray, gold: sp.csr_matrix) -> TuningData:
        """What the tower learns from: the documents in the rows ``docs`` with ``gold`` (n, n_labels)."""
        batches = [(*self._tokens(batch), self._look_right(batch)) for batch in self._batches(docs)]
        ids, counts, lead_ids, lead_counts, hard = (
            np.concatenate(parts) for parts in zip(*batches, strict=True)
        )
        label_ids, label_counts = tokenise(self.tower.tokenizer, self.texts)
        texts = TuningTexts(
            self._windows(ids, counts),
            self._windows(lead_ids, lead_counts),
            self._windows(label_ids, label_counts),
        )
        return TuningData(texts, gold, hard, same_text(self.source.labels))

    def _batches(self, docs: np.ndarray) -> Iterator[DocumentBatch]:
        """The documents in the rows ``docs``, ascending."""
        start = 0
        for batch in self.source.batches():
            first, last = np.searchsorted(docs, [start, start + len(batch)])
            if last > first:
                yield batch.take(docs[first:last] - start)
            start += len(batch)

    def _tokens(self, batch: DocumentBatch) -> Iterable[np.ndarray]:
        """Token ids and counts of the documents, and of those leads that are not all of their document."""
        texts = batch.texts or []
        longer = set(longer_than_leads(texts).tolist())
        leads = [lead(text) if i in longer else "" for i, text in enumerate(texts)]
        return *tokenise(self.tower.tokenizer, texts), *tokenise(self.tower.tokenizer, leads)

    def _look_right(self, batch: DocumentBatch) -> np.ndarray:
        """(n_docs, N_LOOK_RIGHT) rows of the labels whose names match the documents best, in random order."""
        out, active = np.full((len(batch), N_LOOK_RIGHT), -1), ~self.source.labels.retired
        for block, cosine, _, by_lead in self.matcher.blocks(*self.words.features_of(batch)):
            of_doc, rows = best_columns(cosine + by_lead, N_LOOK_RIGHT, active)
            first = np.searchsorted(of_doc, np.arange(len(cosine)))
            out[block.start + of_doc, np.arange(len(of_doc)) - first[of_doc]] = rows
        return out

    def _windows(self, ids: np.ndarray, counts: np.ndarray) -> Windows:
        return self.tower.windows(ids, counts, LONGEST)
