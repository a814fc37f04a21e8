"""Ranked suggestions for a batch of documents, and where they hit the gold labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from xmc.errors import InputError


def owners(indptr: np.ndarray) -> np.ndarray:
    """(n_entries,) the row to which each entry of a ragged array with this ``indptr`` belongs."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def repeated(docs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """(n_repeats,) positions of (document, label) pairs that stand a second time; empty when none does."""
    order = np.lexsort((labels, docs))
    same = (np.diff(docs[order]) == 0) & (np.diff(labels[order]) == 0)
    return order[1:][same]


@dataclass(frozen=True)
class Ranked:
    """Suggestions of n_docs documents: ``indptr`` (n_docs + 1,), ``rows`` and ``scores`` (n_suggestions,).

    ``rows`` are label rows. Within a document the best stands first; equal scores keep the given
    order. ``Ranked.build`` sorts; the constructor refuses what is not sorted.
    """

    indptr: np.ndarray
    rows: np.ndarray
    scores: np.ndarray

    def __post_init__(self) -> None:
        _check_sizes(self.indptr, self.rows, self.scores)
        docs = self.docs
        self._refuse(docs, np.flatnonzero(~np.isfinite(self.scores)), "has a score that is not finite")
        self._refuse(docs, repeated(docs, self.rows), "is suggested twice")
        worse = (np.diff(self.scores) > 0) & (np.diff(docs) == 0)
        self._refuse(docs, np.flatnonzero(worse) + 1, "has a better score than the one before it")

    def _refuse(self, docs: np.ndarray, faults: np.ndarray, what: str) -> None:
        if len(faults):
            at = faults[0]
            raise InputError(f"suggestions: document row {docs[at]}: label row {self.rows[at]} {what}")

    @classmethod
    def build(cls, indptr: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> Ranked:
        """Sort ``rows`` and ``scores`` (n_suggestions,) within each document, best first, ties in order."""
        scores = np.asarray(scores, dtype=np.float64)
        indptr, rows = np.asarray(indptr, dtype=np.int64), np.asarray(rows, dtype=np.int64)
        _check_sizes(indptr, rows, scores)
        order = np.lexsort((-scores, owners(indptr)))
        return cls(indptr, rows[order], scores[order])

    @classmethod
    def from_matrix(cls, scores: sp.csr_matrix) -> Ranked:
        """From a score matrix (n_docs, n_labels); every stored entry, also a stored zero, is a suggestion."""
        return cls.build(scores.indptr, scores.indices, scores.data)

    @property
    def n_docs(self) -> int:
        """Number of documents, those with an empty list included."""
        return len(self.indptr) - 1

    @cached_property
    def docs(self) -> np.ndarray:
        """(n_suggestions,) the document row of each suggestion."""
        return owners(self.indptr)

    def keep(self, mask: np.ndarray) -> Ranked:
        """Only the suggestions where ``mask`` (n_suggestions,) is true; those after a gap move up."""
        indptr = np.concatenate([[0], np.cumsum(np.bincount(self.docs[mask], minlength=self.n_docs))])
        return Ranked(indptr.astype(np.int64), self.rows[mask], self.scores[mask])


def _check_sizes(indptr: np.ndarray, rows: np.ndarray, scores: np.ndarray) -> None:
    if indptr[0] != 0 or np.any(np.diff(indptr) < 0) or indptr[-1] != len(rows):
        raise InputError(f"suggestions: indptr does not divide {len(rows)} entries into documents")
    if len(scores) != len(rows):
        raise InputError(f"suggestions: {len(rows)} labels but {len(scores)} scores")


def in_pairs(
    docs: np.ndarray, labels: np.ndarray, pair_docs: np.ndarray, pair_labels: np.ndarray, n_labels: int
) -> np.ndarray:
    """(n,) whether each (document, label) is among the pairs; one binary search each, nothing dense."""
    if not len(pair_docs):
        return np.zeros(len(docs), dtype=bool)
    wanted = np.sort(pair_docs.astype(np.int64) * n_labels + pair_labels)
    keys = docs.astype(np.int64) * n_labels + labels
    at = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
    return wanted[at] == keys


@dataclass(frozen=True)
class Matches:
    """The suggestions of n_docs documents set against their gold labels; all metrics start from here.

    ``docs``, ``labels``, ``ranks`` (0 is the best), ``scores``, ``hit``: (n_suggestions,).
    ``gold_docs`` (ascending), ``gold_labels``: (n_gold,), each pair once.
    """

    n_docs: int
    n_labels: int
    docs: np.ndarray
    labels: np.ndarray
    ranks: np.ndarray
    scores: np.ndarray
    hit: np.ndarray
    gold_docs: np.ndarray
    gold_labels: np.ndarray

    @classmethod
    def build(cls, gold: sp.csr_matrix, ranked: Ranked) -> Matches:
        """From ``gold`` (n_docs, n_labels), any non-zero entry being a gold label, and its suggestions."""
        n_docs, n_labels = gold.shape
        if ranked.n_docs != n_docs:
            raise InputError(f"suggestions for {ranked.n_docs} documents, gold labels for {n_docs}")
        if len(ranked.rows) and not 0 <= ranked.rows.min() <= ranked.rows.max() < n_labels:
            raise InputError(f"a suggestion has a label row outside 0 to {n_labels - 1}")
        clean = sp.csr_matrix(gold, copy=True)
        clean.sum_duplicates()
        clean.eliminate_zeros()
        gold_docs, gold_labels = owners(clean.indptr), clean.indices.astype(np.int64)
        docs = ranked.docs
        ranks = np.arange(len(docs)) - ranked.indptr[docs]
        hit = in_pairs(docs, ranked.rows, gold_docs, gold_labels, n_labels)
        return cls(n_docs, n_labels, docs, ranked.rows, ranks, ranked.scores, hit, gold_docs, gold_labels)

    def within(self, members: np.ndarray) -> Matches:
        """Only gold and suggestions of labels in ``members`` (n_labels,) bool; ranks stay as they were."""
        s, g = members[self.labels], members[self.gold_labels]
        return Matches(
            self.n_docs,
            self.n_labels,
            self.docs[s],
            self.labels[s],
            self.ranks[s],
            self.scores[s],
            self.hit[s],
            self.gold_docs[g],
            self.gold_labels[g],
        )

    @cached_property
    def gold_counts(self) -> np.ndarray:
        """(n_docs,) gold labels of each document."""
        return np.bincount(self.gold_docs, minlength=self.n_docs)

    @cached_property
    def has_gold(self) -> np.ndarray:
        """(n_docs,) float, 1 where the document has a gold label: the denominator of document averages."""
        return (self.gold_counts > 0).astype(np.float64)

    @cached_property
    def occurring(self) -> np.ndarray:
        """(n,) ascending, the label rows that are gold for some document."""
        return np.unique(self.gold_labels)

    @cached_property
    def occurring_at(self) -> np.ndarray:
        """(n_suggestions,) where in ``occurring`` the suggested label stands; -1 where it does not."""
        if not len(self.occurring):
            return np.full(len(self.labels), -1)
        at = np.minimum(np.searchsorted(self.occurring, self.labels), len(self.occurring) - 1)
        return np.where(self.occurring[at] == self.labels, at, -1)

    @cached_property
    def occurrences(self) -> sp.csr_matrix:
        """(n, n_docs) float32, 1 where the document has the occurring label as gold."""
        at = np.searchsorted(self.occurring, self.gold_labels)
        ones = np.ones(len(at), dtype=np.float32)
        return sp.csr_matrix((ones, (at, self.gold_docs)), shape=(len(self.occurring), self.n_docs))

    def hits(self, k: int) -> np.ndarray:
        """(n,) positions of the suggestions that are hits among their document's first k."""
        return self._hits[: np.searchsorted(self._hit_ranks, k)]

    def by_document(self, at: np.ndarray, values: np.ndarray | None = None) -> np.ndarray:
        """(n_docs,) sum over the suggestions ``at`` (n,) of ``values`` (n,), or how many there are."""
        return np.bincount(self.docs[at], weights=values, minlength=self.n_docs)

    @cached_property
    def _hits(self) -> np.ndarray:
        """Positions of the hits in the order of their rank: the first k are then a slice."""
        at = np.flatnonzero(self.hit)
        return at[np.argsort(self.ranks[at], kind="stable")]

    @cached_property
    def _hit_ranks(self) -> np.ndarray:
        return self.ranks[self._hits]
