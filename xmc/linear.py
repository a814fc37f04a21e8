"""LinearLabels: a linear classifier for each label with some documents, over the exact sparse words.

The towers put words into some hundred dimensions, where labels with many documents lose detail that a weight
for each word keeps. So each candidate is scored by its label's own classifier too: one-vs-rest with squared
hinge loss and small weights cut off, as in DiSMEC (Babbar and Schölkopf, WSDM 2017). `xmc.train.linear` makes
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xmc.artifacts import load_array, load_csr, save_array, save_csr
from xmc.encoders.lexical import unit_rows
from xmc.errors import ArtifactError

STRONGEST = 256  # words of a document that are read; the rest of long ones adds time and nothing else
FARTHEST = 4.0  # from the margin of a sure wrong label, beyond which nothing changes
LARGEST = 1e6  # a saved weight beyond it was not learned here
BLOCK = 4_000_000  # scores held at a time


@dataclass(frozen=True)
class LinearLabels:
    """``weights`` (n_labels, n_features), ``bias`` (n_labels,) and, bool, which labels are ``learned``."""

    weights: sp.csr_matrix
    bias: np.ndarray
    learned: np.ndarray

    def scores(self, words: sp.csr_matrix, of_doc: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(n_pairs,) float32: 0 for a label as wrong as most, 1 on its border, 2 for one as right as most.

        0 too for a label without a classifier. ``words`` (n_docs, n_features) as `strongest` gives them;
        pairs of a document ``of_doc`` (n_pairs,), ascending, and a label row. Independent of the batch.
        """
        out = np.zeros(len(rows), np.float32)
        step = max(1, BLOCK // max(1, len(self.bias)))
        for start in range(0, words.shape[0], step):
            pairs = slice(*np.searchsorted(of_doc, [start, start + step]))
            margins = (words[start : start + step] @ self._by_feature).toarray()
            out[pairs] = margins[of_doc[pairs] - start, rows[pairs]] + self.bias[rows[pairs]]
        return np.clip(out + 1, -FARTHEST, FARTHEST) * self.learned[rows]

    @cached_property
    def _by_feature(self) -> sp.csr_matrix:
        """(n_features, n_labels)."""
        return self.weights.T.tocsr()

    def widened(self, n_labels: int) -> LinearLabels:
        """The same for a label set that has grown to ``n_labels``, or has not."""
        more = n_labels - len(self.bias)
        if not more:
            return self
        weights = sp.csr_matrix(
            (
                self.weights.data,
                self.weights.indices,
                np.pad(self.weights.indptr, (0, more), mode="edge"),
            ),
            (n_labels, self.weights.shape[1]),
        )
        return LinearLabels(weights, np.pad(self.bias, (0, more)), np.pad(self.learned, (0, more)))

    def without(self, rows: np.ndarray) -> LinearLabels:
        """The same, holding nothing of the labels in (n,) rows."""
        if not self.learned[rows].any():
            return self
        kept = np.ones(len(self.bias), bool)
        kept[rows] = False
        weights = sp.diags(kept.astype(np.float32)) @ self.weights
        weights.eliminate_zeros()
        bias = np.where(kept, self.bias, np.float32(0))  # times zero, the sign would stay
        return LinearLabels(weights.tocsr(), bias, self.learned & kept)

    def joined(self, other: LinearLabels) -> LinearLabels:
        """These and those of ``other``, which has other labels' classifiers."""
        weights = (self.weights + other.weights).tocsr()
        return LinearLabels(weights, self.bias + other.bias, self.learned | other.learned)

    def save(self, directory: Path) -> None:
        """Write into a new directory."""
        directory.mkdir()
        save_csr(directory / "weights.npz", self.weights)
        save_array(directory / "bias.npy", self.bias)
        save_array(directory / "learned.npy", self.learned)

    @classmethod
    def load(cls, directory: Path) -> LinearLabels:
        """Read what ``save`` wrote. Raises ArtifactError where the parts do not fit, or cannot be learned."""
        weights = load_csr(directory / "weights.npz")
        bias, learned = (load_array(directory / f"{name}.npy", mmap=False) for name in ("bias", "learned"))
        kinds = weights.dtype == bias.dtype == np.float32 and learned.dtype == np.bool_
        fits = bias.shape == learned.shape == weights.shape[:1]
        if not kinds or not fits:
            raise ArtifactError(
                f"{directory}: classifiers whose parts do not fit each other; rebuild the model"
            )
        # Written so that NaN is refused too.
        if not all((np.abs(values) <= LARGEST).all() for values in (weights.data, bias)):
            raise ArtifactError(
                f"{directory}: holds numbers that are not finite or too large; rebuild the model"
            )
        return cls(weights, bias, learned)


def strongest(features: sp.csr_matrix, n_words: int) -> sp.csr_matrix:
    """(n, n_features) unit rows: of each row the ``STRONGEST`` of the first ``n_words`` features.

    Equal ones in the order in which they stand. What stands behind ``n_words`` are parts of words, which make
    classifiers worse, and words that share a place.
    """
    word = features.indices < n_words
    ends = np.concatenate([[0], np.cumsum(word)])[features.indptr]
    data, indices = features.data[word], features.indices[word]
    kept = _strongest(np.abs(data), ends)  # features that were given may be below zero
    indptr = np.concatenate([[0], np.cumsum(kept)])[ends]
    return unit_rows(sp.csr_matrix((data[kept], indices[kept], indptr), features.shape))


def _strongest(data: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """(n_entries,) bool: the ``STRONGEST`` of each row; sorting all entries would take most of the time."""
    counts = np.diff(indptr)
    kept = np.ones(len(data), bool)
    rows = np.flatnonzero(counts > STRONGEST)
    rows = rows[np.argsort(-counts[rows], kind="stable")]
    start = 0
    while start < len(rows):
        width = int(counts[rows[start]])
        some = rows[start : start + max(1, BLOCK // width)]
        at = indptr[some, None] + np.arange(width)
        inside = np.arange(width) < counts[some, None]
        values = np.where(inside, data[np.minimum(at, len(data) - 1)], -np.inf)
        least = -np.partition(-values, STRONGEST - 1, axis=1)[:, STRONGEST - 1 : STRONGEST]
        tied = values == least
        n_above = (values > least).sum(axis=1, keepdims=True)
        best = (values > least) | (tied & (np.cumsum(tied, axis=1) <= STRONGEST - n_above))
        kept[at[inside]] = best[inside]
        start += len(some)
    return kept
