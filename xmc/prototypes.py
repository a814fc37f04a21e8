"""Folded prototypes: a label's text vector and centroid, mixed by fitted weights into one vector.

The score of a document and a label is linear in up to five similarities: dense and lexical, to the label's
text and to the centroid of its documents, and to its trained prototype if there is one. The weight of each
depends on the label alone: on whether documents have it and on how many. So all folds into one vector and an
offset for each label, and one index answers, while prototypes made of different parts keep scales of their
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from xmc.encoders.labels import PIECE
from xmc.encoders.lexical import unit
from xmc.mix import Mix

SIMILARITIES = ("dense_text", "dense_centroid", "lexical_text", "lexical_centroid", "trained")
KINDS = ("", "*seen", "*frequency")
NAMES = (*(f"{name}{kind}" for name in SIMILARITIES for kind in KINDS), "seen", "frequency")
TRAINED = slice(NAMES.index("trained"), NAMES.index("trained") + len(KINDS))
SMALLEST = 1e-3  # weight of a trained prototype from which it can be told from the rounding of others
BLOCK = 1 << 24  # numbers of document vectors read at a time
# Rounded by hand from fits on training records of the sample in benchmarks/data, between variants compared on
# its dev. A model without enough tagged documents scores with these, and every fit starts from them.
DEFAULT = Mix.of(NAMES, dense_text=12, dense_centroid=4, lexical_text=3, lexical_centroid=3)
DEFAULT_TRAINED = Mix.of(NAMES, dense_text=4, lexical_text=2, lexical_centroid=2, trained=0.7)


@dataclass(frozen=True)
class LabelParts:
    """What is known of each of n labels.

    ``texts``, ``centroids``: (n, dim) tower vectors side by side (unit in each tower, or zero where the part
    is missing); ``dense_dim``: where the lexical tower begins; ``frequency``: (n,) documents of each label;
    ``trained``: (n, trained_dim + 1) prototypes and biases in the trained tower; zero rows: none.
    """

    texts: np.ndarray
    centroids: np.ndarray
    dense_dim: int
    frequency: np.ndarray
    trained: np.ndarray | None = None

    @property
    def slices(self) -> tuple[tuple[np.ndarray, slice], ...]:
        """The vectors and the columns behind each of ``SIMILARITIES``."""
        dense, lexical = slice(0, self.dense_dim), slice(self.dense_dim, self.texts.shape[1])
        return (
            (self.texts, dense),
            (self.centroids, dense),
            (self.texts, lexical),
            (self.centroids, lexical),
        )

    def pair_features(self, towers: np.ndarray, of_doc: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(n_pairs, len(NAMES)) features of pairs of a document (n_docs, dim) and a label row."""
        out = np.zeros((len(rows), len(NAMES)), np.float32)
        kinds = label_kinds(self.frequency)[rows]
        for i, (vectors, columns) in enumerate(self.slices):
            similarity = _pairwise(towers[:, columns], vectors[:, columns], of_doc, rows)
            out[:, 3 * i : 3 * i + 3] = similarity[:, None] * kinds
        if self.trained is not None:
            known = towers[:, self.texts.shape[1] :]
            score = _pairwise(known, self.trained[:, :-1], of_doc, rows) + self.trained[rows, -1]
            out[:, TRAINED] = score[:, None] * kinds
        out[:, -2:] = kinds[:, 1:]
        return out

    def __len__(self) -> int:
        return len(self.frequency)

    def fold(self, mix: Mix, scale: np.ndarray, rows: slice = slice(None)) -> np.ndarray:
        """(n, dim + 1) float32 prototypes for documents ``[towers * scale, 1]``; zero rows: not scoreable.

        ``rows``: of these labels only.
        """
        kinds = label_kinds(self.frequency[rows])
        out = np.zeros((len(kinds), len(scale) + 1), np.float32)
        for i, (vectors, columns) in enumerate(self.slices):
            weight = (kinds @ mix.weights[3 * i : 3 * i + 3]).astype(np.float32)
            out[:, columns] += weight[:, None] * vectors[rows, columns]
        if self.trained is not None:
            weight = (kinds @ mix.weights[TRAINED]).astype(np.float32)
            out[:, self.texts.shape[1] :] = weight[:, None] * self.trained[rows]
        out[:, :-1] /= np.where(scale > 0, scale, 1)
        scoreable = out.any(axis=1)
        out[scoreable, -1] += (kinds[scoreable, 1:] @ mix.weights[-2:]).astype(np.float32)
        return out

    def folded(
        self, mix: Mix, scale: np.ndarray, allowed: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Pieces of all scoreable labels: their (n,) rows and (n, dim + 1) prototypes as :meth:`fold` gives.

        ``allowed`` (n_labels,) bool: of these labels only.
        """
        for start in range(0, len(self), PIECE):
            block = self.fold(mix, scale, slice(start, start + PIECE))
            kept = block.any(axis=1)
            if allowed is not None:
                kept &= allowed[start : start + PIECE]
            yield start + np.flatnonzero(kept), block[kept]


def label_kinds(frequency: np.ndarray) -> np.ndarray:
    """(n, 3) float32: one, whether documents have the label, log(1 + how many)."""
    return np.stack([np.ones(len(frequency)), frequency > 0, np.log1p(frequency)], axis=1).astype(np.float32)


class Rows(Protocol):
    """(n, dim) vectors that are read a block of rows at a time: an array, or what acts as one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, dim)."""

    def __getitem__(self, block: slice, /) -> np.ndarray:
        """The rows of a block."""


def centroids(labels_of_docs: sp.csr_matrix, towers: Rows, dense_dim: int) -> np.ndarray:
    """(n_labels, dim) mean of the documents' (n_docs, dim) vectors for each label, unit in each tower.

    A label without documents has a zero row.
    """
    n_labels, dim = labels_of_docs.shape[1], towers.shape[1]
    seen, columns = np.unique(labels_of_docs.indices, return_inverse=True)
    carried = (labels_of_docs.data, columns.astype(np.int32), labels_of_docs.indptr)
    labels_of_docs = sp.csr_matrix(carried, (labels_of_docs.shape[0], len(seen)))
    sums = np.zeros((len(seen), dim), np.float32)
    step = max(1, BLOCK // max(1, dim))
    for start in range(0, towers.shape[0], step):
        sums += labels_of_docs[start : start + step].T @ np.asarray(towers[start : start + step])
    out = np.zeros((n_labels, dim), np.float32)  # rows that are never written to take no memory
    out[seen, :dense_dim] = unit(sums[:, :dense_dim])
    out[seen, dense_dim:] = unit(sums[:, dense_dim:])
    return out


def unfolded(vectors: np.ndarray, frequency: np.ndarray, mix: Mix, scale: np.ndarray, dim: int) -> np.ndarray:
    """(n, trained_dim + 1) trained prototypes and biases, out of folded (n, len(scale) + 1) vectors.

    The inverse of ``LabelParts.fold``, for the labels' ``frequency`` then; ``dim``: of the untrained towers.
    A zero row where there was none, or where its weight was so small that rounding has taken it.
    """
    kinds = label_kinds(frequency)
    weight = kinds @ mix.weights[TRAINED]
    out = vectors[:, dim:].astype(np.float64)
    known = out[:, :-1].any(axis=1) & (np.abs(weight) > SMALLEST)
    out[:, :-1] *= scale[dim:]
    out[:, -1] -= kinds[:, 1:] @ mix.weights[-2:]
    out = np.divide(out, weight[:, None], out=np.zeros_like(out), where=known[:, None])
    return out.astype(np.float32)


def _pairwise(left: np.ndarray, right: np.ndarray, of_left: np.ndarray, of_right: np.ndarray) -> np.ndarray:
    """(n_pairs,) inner products of rows, in blocks."""
    out = np.zeros(len(of_left), np.float32)
    if left.shape[1] == 0:
        return out
    step = max(1, (1 << 22) // left.shape[1])
    for start in range(0, len(out), step):
        block = slice(start, start + step)
        out[block] = np.einsum("pd,pd->p", left[of_left[block]], right[of_right[block]])
    return out
