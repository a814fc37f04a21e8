"""LabelMatcher: labels found by the words they share with a document, exactly, over sparse features.

The lexical part of a label's vector is a projection and blurs rare words among many labels; this is the
exact counterpart. It finds candidates and gives two lexical features of each: the cosine, and how much of
the label's own weight stands in the document (containment), which does not fall with the document's length.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

BLOCK = 16_000_000  # scores held at a time


class LabelMatcher:
    """Exact lexical search over (n_labels, n_features) sparse unit rows; an empty row is never found."""

    def __init__(self, features: sp.csr_matrix) -> None:
        self.features = features
        self._by_feature = features.T.tocsr()
        squared = self._by_feature.copy()
        squared.data **= 2
        self._squared = squared

    def blocks(self, documents: sp.csr_matrix) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """For blocks of documents: which, and (n_block, n_labels) float32 cosine and containment."""
        step = max(1, BLOCK // max(1, 2 * self.features.shape[0]))
        for start in range(0, documents.shape[0], step):
            block = documents[start : start + step]
            present = sp.csr_matrix((np.ones_like(block.data), block.indices, block.indptr), block.shape)
            cosine = (block @ self._by_feature).toarray()
            yield slice(start, start + block.shape[0]), cosine, (present @ self._squared).toarray()


def best_columns(scores: np.ndarray, k: int, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the ``k`` best positive scores of each row among ``allowed`` columns.

    Ties at the cut are all left out or taken in column order, so that it never depends on the block.
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
