"""What the reranker looks at: a document's best candidates against its neighbours and its own windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xmc.encoders.dual import Encoded
from xmc.encoders.lexical import unit
from xmc.encoders.windows import WindowVectors
from xmc.memory import DocumentMemory
from xmc.shortlist import Candidates, Shortlister

N_BEST = 100  # candidates of a document that are scored again
N_NEAR = 32  # neighbours that they attend over
N_WINDOWS = 16  # parts of the document that they attend over; windows of longer ones are merged
BLOCK = 64  # documents at a time


class RerankInputs(NamedTuple):
    """n documents with c places for candidates, k neighbours and w windows; t towers.

    Similarities are cosines. ``place`` (n, c) int64: which candidate, -1 for none; ``own`` (n, c, n_own): the
    first stage's features and the prototype's similarity to the document in each tower; ``log_odds`` (n, c)
    of the first stage; ``carried`` (n, c, k): 1 where the neighbour has the label, less where that counts for
    less; ``pairs`` (n, c, k, 1 + t): the prototype and the mean prototype of the neighbour's labels, and the
    prototype and the neighbour in each tower; ``near`` (n, k, 1 + t): the document and the neighbour, joined
    and in each tower; ``windows`` (n, c, w): the prototype and each window; ``is_window`` (n, w).
    """

    place: Tensor
    own: Tensor
    log_odds: Tensor
    carried: Tensor
    pairs: Tensor
    near: Tensor
    windows: Tensor
    is_window: Tensor

    def take(self, rows: Tensor) -> RerankInputs:
        """Some of the documents."""
        return RerankInputs(*(part[rows] for part in self))

    @staticmethod
    def concat(parts: list[RerankInputs]) -> RerankInputs:
        """The documents of all parts (one at least), one after another."""
        return RerankInputs(*(torch.cat(each) for each in zip(*parts, strict=True)))


def rerank_inputs(
    found: Candidates, own: np.ndarray, log_odds: np.ndarray, encoded: Encoded, shortlister: Shortlister
) -> Iterator[RerankInputs]:
    """Blocks of at most ``BLOCK`` documents, in order; each document's best ``N_BEST`` candidates.

    ``own`` (n_candidates, n) and ``log_odds`` (n_candidates,): what the first stage saw and said;
    ``shortlister``: what ``found`` came from, for the documents ``encoded``.
    """
    n_docs, towers = len(found.indptr) - 1, encoded.towers
    places = _places(found, log_odds)
    for start in range(0, n_docs, BLOCK):
        docs = slice(start, min(start + BLOCK, n_docs))
        yield _Block(found, shortlister, places[docs], docs).inputs(own, log_odds, encoded, towers[docs])


def best_candidates(found: Candidates, log_odds: np.ndarray, n: int) -> np.ndarray:
    """(n_best,) int64, ascending: which candidates are the best ``n`` of their document, or all it has."""
    of_doc = found.of_doc
    order = np.lexsort((-log_odds, of_doc))
    return np.sort(order[np.arange(len(order)) - found.indptr[of_doc] < n])


def _places(found: Candidates, log_odds: np.ndarray) -> np.ndarray:
    """(n_docs, N_BEST) int64 each document's best candidates in row order, then -1."""
    of_doc, best = found.of_doc, best_candidates(found, log_odds, N_BEST)
    out = np.full((len(found.indptr) - 1, N_BEST), -1, np.int64)
    out[of_doc[best], np.arange(len(best)) - np.searchsorted(of_doc[best], of_doc[best])] = best
    return out


class _Block:
    """The documents ``docs`` of ``found``; ``place`` (n, N_BEST) their candidates."""

    def __init__(self, found: Candidates, shortlister: Shortlister, place: np.ndarray, docs: slice) -> None:
        self.place, self.docs, self.shortlister = place, docs, shortlister
        self.towers = shortlister.encoder.towers
        none = np.zeros((len(place), 0), np.int64)
        near = none if found.neighbours is None else found.neighbours.rows[docs, :N_NEAR]
        scores = none if found.neighbours is None else found.neighbours.scores[docs, :N_NEAR]
        self.near, self.near_scores = near, scores.astype(np.float32)
        self.is_candidate = place >= 0
        self.rows = np.full(place.shape, -1, np.int64)
        self.rows[self.is_candidate] = found.rows[place[self.is_candidate]]

    def inputs(
        self, own: np.ndarray, log_odds: np.ndarray, encoded: Encoded, towers: np.ndarray
    ) -> RerankInputs:
        neighbours = self._neighbours()
        joined, *by_tower = self._prototypes()
        near_by_tower = [_unit(neighbours[..., tower]) for tower in self.towers]
        asked = [_unit(torch.from_numpy(towers[:, tower])) for tower in self.towers]
        to_document = torch.stack([_dots(p, q) for p, q in zip(by_tower, asked, strict=True)], dim=2)
        to_near = [p @ d.transpose(1, 2) for p, d in zip(by_tower, near_by_tower, strict=True)]
        between = [_dots(d, q) for d, q in zip(near_by_tower, asked, strict=True)]
        label_means = _unit(self._label_means())
        windows, is_window = self._windows(encoded.dense, by_tower[0])
        return RerankInputs(
            torch.from_numpy(self.place),
            torch.cat([self._of_candidates(own), to_document], dim=2),
            self._of_candidates(log_odds),
            self._carried(),
            torch.stack([joined @ label_means.transpose(1, 2), *to_near], dim=3),
            torch.stack([torch.from_numpy(self.near_scores), *between], dim=2),
            windows,
            is_window,
        )

    def _of_candidates(self, values: np.ndarray) -> Tensor:
        """(n, c, ...) float32 ``values`` (n_candidates, ...) at their places, zero elsewhere."""
        out = np.zeros((*self.place.shape, *values.shape[1:]), np.float32)
        out[self.is_candidate] = values[self.place[self.is_candidate]]
        return torch.from_numpy(out)

    def _prototypes(self) -> list[Tensor]:
        """The candidates' prototypes without their offsets at unit length, zero where there is none.

        (n, c, dim) joined, and (n, c, tower) of each tower. A block's documents share most of their labels.
        """
        rows, at = np.unique(self.rows, return_inverse=True)
        known = rows >= 0
        vectors = np.zeros((len(rows), self.shortlister.encoder.dim), np.float32)
        vectors[known] = self.shortlister.index.vectors(rows[known])[:, :-1]
        distinct, place = torch.from_numpy(vectors), torch.from_numpy(at.reshape(self.rows.shape))
        joined = _unit(distinct)[place]
        if len(self.towers) == 1:  # which is all of a vector
            return [joined, joined]
        return [joined, *(_unit(distinct[:, tower])[place] for tower in self.towers)]

    def _neighbours(self) -> Tensor:
        """(n, k, dim) the neighbours' vectors."""
        dim, memory = self.shortlister.encoder.dim, self.shortlister.memory
        if memory is None or not self.near.size:
            return torch.zeros(*self.near.shape, dim)
        return torch.from_numpy(memory.index.vectors(self.near.ravel()).reshape(*self.near.shape, dim))

    def _label_means(self) -> Tensor:
        """(n, k, dim) the mean of the neighbours' labels' prototypes at unit length."""
        out = np.zeros((*self.near.shape, self.shortlister.encoder.dim), np.float32)
        memory = self.shortlister.memory
        if memory is not None and self.near.size:
            documents, at = np.unique(self.near, return_inverse=True)
            out = self._means(memory, documents)[at.reshape(self.near.shape)]
        return torch.from_numpy(out)

    def _means(self, memory: DocumentMemory, documents: np.ndarray) -> np.ndarray:
        """(n, dim) the mean prototypes of the labels of ``documents`` (n,)."""
        labels = memory.labels[documents]
        rows, column = np.unique(labels.indices, return_inverse=True)
        known = self.shortlister.scoreable[rows]
        vectors = np.zeros((len(rows), self.shortlister.encoder.dim), np.float32)
        vectors[known] = unit(self.shortlister.index.vectors(rows[known])[:, :-1])
        compact = sp.csr_matrix((labels.data, column, labels.indptr), (len(documents), len(rows)))
        return np.asarray(compact @ vectors, np.float32)

    def _carried(self) -> Tensor:
        """(n, c, k) 1 where a neighbour carries the candidate, less where its vote counts for less."""
        out = np.zeros((*self.rows.shape, self.near.shape[1]), np.float32)
        memory = self.shortlister.memory
        if memory is None or not out.size:
            return torch.from_numpy(out)
        n, k = self.near.shape
        labels, n_labels = memory.labels[self.near.ravel()], memory.labels.shape[1]
        pair = np.repeat(np.arange(n * k), np.diff(labels.indptr))
        wanted = (pair // k) * n_labels + labels.indices
        doc, place = np.nonzero(self.is_candidate)
        keys = doc * n_labels + self.rows[doc, place]  # ascending: candidates stand in row order
        if len(keys):
            at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            hit = keys[at] == wanted
            out[doc[at[hit]], place[at[hit]], pair[hit] % k] = labels.data[hit]
        return torch.from_numpy(out)

    def _windows(self, dense: WindowVectors | None, prototypes: Tensor) -> tuple[Tensor, Tensor]:
        """``windows`` and ``is_window``; ``prototypes`` (n, c, dense_dim) if there is a dense tower."""
        if dense is None:
            n, c = self.place.shape
            return torch.zeros(n, c, 0), torch.zeros(n, 0, dtype=torch.bool)
        merged, is_window = merged_windows(dense.take(np.arange(self.docs.start, self.docs.stop)))
        return prototypes @ _unit(torch.from_numpy(merged)).transpose(1, 2), torch.from_numpy(is_window)


def merged_windows(dense: WindowVectors) -> tuple[np.ndarray, np.ndarray]:
    """(n, N_WINDOWS, dim) float32 window sums, neighbouring ones merged evenly, and which are there."""
    counts = np.diff(dense.indptr)
    of_text = np.repeat(np.arange(len(counts)), counts)
    nth = np.arange(len(of_text)) - dense.indptr[of_text]
    slot = np.where(counts[of_text] > N_WINDOWS, nth * N_WINDOWS // np.maximum(counts[of_text], 1), nth)
    shape = (len(counts) * N_WINDOWS, len(of_text))
    ones = np.ones(len(of_text), np.float32)
    merge = sp.csr_matrix((ones, (of_text * N_WINDOWS + slot, np.arange(len(of_text)))), shape)
    merged = np.asarray(merge @ np.asarray(dense.windows, np.float32), np.float32)
    is_window = np.arange(N_WINDOWS) < np.minimum(counts, N_WINDOWS)[:, None]
    return merged.reshape(len(counts), N_WINDOWS, merged.shape[1]), is_window


def _dots(vectors: Tensor, asked: Tensor) -> Tensor:
    """(n, c) inner products of (n, c, dim) and (n, dim), the same whatever n.

    The product of a matrix and a vector takes another path where there are few of them.
    """
    return (vectors * asked[:, None]).sum(dim=2)


def _unit(vectors: Tensor) -> Tensor:
    """Vectors along the last axis at unit length, or zero."""
    return torch.nn.functional.normalize(vectors, dim=-1)
