"""LabelMatcher: labels found by the words they share with a document, exactly, over sparse features.

The lexical part of a label's vector is a projection and blurs rare words among many labels; this is the
exact counterpart. It finds candidates and gives two lexical features of each: the cosine, and how much of
the label's own weight stands in the document (containment), which does not fall with the document's length.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from xmc.artifacts import load_array, load_csr, save_array, save_csr
from xmc.errors import ArtifactError

BLOCK = 16_000_000  # scores held at a time


class Matches(NamedTuple):
    """Lexical scores of a block of documents: which, and three (n_block, n_labels) float32 arrays.

    ``cosine`` of document and name, ``containment`` of the name in the document, ``lead``: cosine of the
    document's first line and the name.
    """

    block: slice
    cosine: np.ndarray
    containment: np.ndarray
    lead: np.ndarray


class LabelMatcher:
    """Exact lexical search over the names of labels, each a sparse unit row; a label counts by its best name.

    ``features`` (n_names, n_features); ``starts`` (n_labels + 1,) where each label's names begin. A label
    without names, or whose names have no feature, is never found.
    """

    def __init__(self, features: sp.csr_matrix, starts: np.ndarray) -> None:
        self.features, self.starts = features, starts
        self._named = np.flatnonzero(np.diff(starts) > 0)

    @cached_property
    def _by_feature(self) -> sp.csr_matrix:
        """(n_features, n_names); made at the first search, for it takes as much memory as the features."""
        return self.features.T.tocsr()

    @cached_property
    def _squared(self) -> sp.csr_matrix:
        """(n_features, n_names) of the squared features."""
        by_feature = self._by_feature
        return sp.csr_matrix((by_feature.data**2, by_feature.indices, by_feature.indptr), by_feature.shape)

    def blocks(self, documents: sp.csr_matrix, leads: sp.csr_matrix) -> Iterator[Matches]:
        """Matches of (n_docs, n_features) documents and of their first lines, block by block."""
        step = max(1, BLOCK // max(1, 3 * self.features.shape[0]))
        for start in range(0, documents.shape[0], step):
            block = documents[start : start + step]
            present = sp.csr_matrix((np.ones_like(block.data), block.indices, block.indptr), block.shape)
            yield Matches(
                slice(start, start + block.shape[0]),
                self._best(block @ self._by_feature),
                self._best(present @ self._squared),
                self._best(leads[start : start + step] @ self._by_feature),
            )

    def replaced(
        self, rows: np.ndarray, features: sp.csr_matrix, starts: np.ndarray, n_labels: int
    ) -> LabelMatcher:
        """A matcher of ``n_labels`` labels, of which those of the (n,) rows, old or new, have other names.

        ``features`` (n_names, n_features) and ``starts`` (n + 1,): the names of these labels.
        """
        first, count = np.zeros(n_labels, np.int64), np.zeros(n_labels, np.int64)
        first[: self.n_labels], count[: self.n_labels] = self.starts[:-1], np.diff(self.starts)
        first[rows], count[rows] = self.features.shape[0] + starts[:-1], np.diff(starts)
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(count)])
        order = np.repeat(first - bounds[:-1], count) + np.arange(bounds[-1])
        return LabelMatcher(sp.vstack([self.features, features], format="csr")[order], bounds)

    def save(self, directory: Path) -> None:
        """Write the names' features and bounds into a directory, made if missing."""
        directory.mkdir(exist_ok=True)
        save_csr(directory / "names.npz", self.features)
        save_array(directory / "starts.npy", self.starts)

    @classmethod
    def load(cls, directory: Path) -> LabelMatcher:
        """Read what ``save`` wrote. Raises ArtifactError where the two do not fit."""
        features, starts = load_csr(directory / "names.npz"), load_array(directory / "starts.npy")
        # Written so that NaN is refused too; what is a little longer than one was rounded.
        if features.dtype != np.float32 or not (np.abs(features.data) <= 1.01).all():
            raise ArtifactError(f"{directory / 'names.npz'}: holds no unit rows; rebuild the model")
        whole = starts.dtype == np.int64 and starts.ndim == 1 and len(starts) > 0
        if not whole or starts[0] != 0 or starts[-1] != features.shape[0] or (np.diff(starts) < 0).any():
            raise ArtifactError(f"{directory / 'starts.npy'}: bounds do not fit the names; rebuild the model")
        return cls(features, starts)

    def names_of(self, label: int) -> sp.csr_matrix:
        """(n_names, n_features) of one label."""
        return self.features[self.starts[label] : self.starts[label + 1]]

    @property
    def n_labels(self) -> int:
        """How many labels there are, named or not."""
        return len(self.starts) - 1

    def _best(self, of_names: sp.csr_matrix) -> np.ndarray:
        """(n_block, n_labels) the best of each label's names."""
        scores = of_names.toarray()
        if len(self._named) == self.n_labels == scores.shape[1]:
            return scores
        out = np.zeros((len(scores), self.n_labels), np.float32)
        if len(self._named):
            out[:, self._named] = np.maximum.reduceat(scores, self.starts[self._named], axis=1)
        return out


def best_columns(scores: np.ndarray, k: int, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the ``k`` best positive scores of each row among ``allowed`` columns.

    Best first, and ties, at the cut too, in column order, so that nothing depends on the block.
    """
    scores = np.where(allowed[None, :], scores, 0)
    k = min(k, scores.shape[1])
    if k == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    cut = np.partition(scores, scores.shape[1] - k, axis=1)[:, -k]
    rows, columns = np.nonzero((scores >= cut[:, None]) & (scores > 0))
    order = np.lexsort((columns, -scores[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    first = np.searchsorted(rows, np.arange(scores.shape[0]))
    rank = np.arange(len(rows)) - first[rows]
    return rows[rank < k], columns[rank < k]
