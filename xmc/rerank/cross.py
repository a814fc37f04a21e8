"""CrossEncoder: a transformer reads the texts of a document and of a candidate together, for the few best.

A pair of texts in one sequence, after monoBERT (Nogueira and Cho 2019): every token of the label sees every
token of the document, which vectors that are made apart cannot do. It sees texts alone, so a label that was
added later is read like any other. What it says is weighed beside the log odds that the candidate had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xmc.artifacts import load_array, load_json, save_array, save_json
from xmc.data.labels import LabelSet
from xmc.encoders.dense import DenseTower
from xmc.encoders.windows import tokenise
from xmc.errors import ArtifactError, SettingError
from xmc.label_text import label_texts
from xmc.mix import Mix
from xmc.rerank.inputs import best_candidates
from xmc.settings import RerankSettings, RunSettings
from xmc.shortlist import Candidates

NAMES = ("score", "text", "constant")  # what is weighed: the log odds so far, the text's, one
UNFITTED = Mix.of(NAMES, score=1.0, text=1.0)
LABEL_SHARE = 0.5  # of a sequence's tokens that a label may take; the document has the others
CHARACTERS = 16  # of a document that are tokenised for each token of a sequence
TOWER, HEAD, DESCRIPTION = "encoder", "head.npy", "cross.json"
LARGEST = 1e6  # a saved weight beyond it was not fitted here


@dataclass(frozen=True)
class TextPairs:
    """Sequences of a document's and a label's tokens, special ones included.

    ``ids`` (n_tokens,) int64, all sequences end to end; ``lengths`` (n_pairs,) int64.
    """

    ids: np.ndarray
    lengths: np.ndarray

    def take(self, pairs: np.ndarray) -> TextPairs:
        """Some of the pairs, in the order of their numbers."""
        lengths = self.lengths[pairs]
        starts = (np.cumsum(self.lengths) - self.lengths)[pairs]
        return TextPairs(_joined([(self.ids, starts, lengths)]), lengths)


def text_pairs(
    tower: DenseTower, texts: Sequence[str], labels: LabelSet, of_doc: np.ndarray, rows: np.ndarray
) -> tuple[TextPairs, np.ndarray]:
    """Pairs of ``texts[of_doc]`` (n,) and labels ``rows`` (n,), and (n,) bool which of them there are.

    There is none where a text has no token. The document comes first, its beginning where it is long.
    """
    used, doc = np.unique(of_doc, return_inverse=True)
    begun = [texts[i][: CHARACTERS * tower.max_length] for i in used.tolist()]
    needed, label = np.unique(rows, return_inverse=True)
    doc_ids, doc_counts = tokenise(tower.tokenizer, begun)
    label_ids, label_counts = tokenise(tower.tokenizer, label_texts(labels.take(needed)))
    there = (doc_counts[doc] > 0) & (label_counts[label] > 0)
    doc, label, (prefix, suffix) = doc[there], label[there], tower.around
    room = tower.max_length - len(prefix) - 2 * len(suffix)
    n_label = np.minimum(label_counts[label], int(room * LABEL_SHARE))
    n_doc = np.minimum(doc_counts[doc], room - n_label)
    zeros, ones = np.zeros(len(doc), np.int64), np.ones(len(doc), np.int64)
    parts = [
        (prefix, zeros, len(prefix) * ones),
        (doc_ids, (np.cumsum(doc_counts) - doc_counts)[doc], n_doc),
        (suffix, zeros, len(suffix) * ones),
        (label_ids, (np.cumsum(label_counts) - label_counts)[label], n_label),
        (suffix, zeros, len(suffix) * ones),
    ]
    lengths = n_doc + n_label + len(prefix) + 2 * len(suffix)
    return TextPairs(_joined(parts), lengths), there


def _joined(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    """(n_tokens,) int64 row by row, of each part ``ids[start:start + length]``.

    ``parts``: ids (any,), starts (n,) and lengths (n,) of each.
    """
    ids = np.concatenate([part[0] for part in parts]).astype(np.int64)
    begins = np.cumsum([0, *(len(part[0]) for part in parts[:-1])])
    starts = np.stack([part[1] + begin for part, begin in zip(parts, begins, strict=True)], axis=1).ravel()
    lengths = np.stack([part[2] for part in parts], axis=1).ravel()
    places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths)
    return ids[places + np.arange(len(places))]


def load_base(settings: RerankSettings, run: RunSettings) -> DenseTower:
    """The encoder that ``settings`` name, for sequences of so many tokens as they say.

    Raises: InputError, ResourceError as `DenseTower.load`; SettingError for more tokens than it takes.
    """
    try:
        return DenseTower.load(settings.cross, settings.tokens, run.device, run.dtype)
    except SettingError as error:
        raise SettingError(
            f"rerank.cross={settings.cross}, rerank.tokens={settings.tokens}: {error}"
        ) from None


@dataclass(frozen=True)
class CrossEncoder:
    """``tower`` and ``head`` (dim + 1,) give a pair of texts its log odds, ``mix`` weighs these.

    ``top``: how many candidates of a document are read.
    """

    tower: DenseTower
    head: np.ndarray
    mix: Mix
    top: int

    def score(
        self, log_odds: np.ndarray, found: Candidates, texts: Sequence[str], labels: LabelSet
    ) -> np.ndarray:
        """(n_candidates,) float32 log odds, changed for the best ``top`` of each document.

        ``log_odds`` (n_candidates,) so far; ``texts`` of the documents. The others stay as they are: all are
        log odds, so one that was read may come to stand below one that was not.
        """
        best = best_candidates(found, log_odds, self.top)
        pairs, there = text_pairs(self.tower, texts, labels, found.of_doc[best], found.rows[best])
        best = best[there]
        out = log_odds.astype(np.float32)
        out[best] = self.mix(mix_features(out[best], self.read(pairs)))
        return out

    def read(self, pairs: TextPairs) -> np.ndarray:
        """(n_pairs,) float32 log odds that the texts belong together, as far as they add to the others."""
        vectors = self.tower.sequences(pairs.ids, pairs.lengths)
        return logits(torch.from_numpy(vectors), torch.from_numpy(self.head)).numpy()

    def save(self, directory: Path) -> None:
        """Write everything into a new directory; it needs no other file to be loaded."""
        directory.mkdir()
        self.tower.save(directory / TOWER)
        save_array(directory / HEAD, self.head)
        save_json(directory / DESCRIPTION, {"top": self.top, "mix": self.mix.to_json()})

    @classmethod
    def load(cls, directory: Path, device: str = "auto", dtype: str = "auto") -> CrossEncoder:
        """Read what ``save`` wrote. Raises ArtifactError where the parts do not fit."""
        where = directory / DESCRIPTION
        saved: Any = load_json(where)
        saved = saved if isinstance(saved, dict) else {}
        top = saved.get("top")
        if type(top) is not int or top < 1:
            raise ArtifactError(f"{where}: top is {top!r}, wanted a whole number from 1; rebuild the model")
        tower = DenseTower.load(str(directory / TOWER), None, device, dtype)
        head = load_array(directory / HEAD, mmap=False)
        fits = head.dtype == np.float32 and head.shape == (tower.dim + 1,)
        if not fits or not (np.abs(head) <= LARGEST).all():
            raise ArtifactError(
                f"{directory / HEAD}: holds no weights for vectors of {tower.dim}; rebuild the model"
            )
        return cls(tower, head, Mix.from_json(NAMES, saved.get("mix"), where), top)


def mix_features(log_odds: np.ndarray, read: np.ndarray) -> np.ndarray:
    """(n_pairs, len(NAMES)) float32 of log odds so far (n_pairs,) and the texts' (n_pairs,)."""
    return np.stack([log_odds, read, np.ones(len(read))], axis=1).astype(np.float32)


def logits(vectors: torch.Tensor, head: torch.Tensor) -> torch.Tensor:
    """(n,) log odds of unit ``vectors`` (n, dim), stretched so that their numbers are about 1.

    ``head`` (dim + 1,): a weight for each, and what is added.
    """
    return (vectors * head[:-1]).sum(dim=1) * vectors.shape[1] ** 0.5 + head[-1]
