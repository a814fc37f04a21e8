"""Micro and macro F1 at k, at a threshold, and the best micro F1 over all thresholds.

These count pairs of document and label, so suggestions for documents without gold labels count as
wrong. By label bin (``Matches.within``) both the gold labels and the suggestions are those of the
bin; the first k are counted in the full ranking.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from xmc.evaluate.metrics import Ratio
from xmc.evaluate.ranked import Matches


@dataclass(frozen=True)
class LabelMean:
    """Macro F1: the mean over n occurring labels of 2 TP / (suggested + gold).

    ``agreed`` holds 2 for each hit, ``total`` the suggested plus gold pairs, ``gold`` the gold
    pairs; each sparse (n, n_docs), so that documents can be weighted.
    """

    agreed: sp.csr_matrix
    total: sp.csr_matrix
    gold: sp.csr_matrix

    @property
    def value(self) -> float:
        """The metric over all documents; NaN when no label occurs."""
        once = np.ones((self.gold.shape[1], 1), dtype=np.float32)
        return float(self.weighted(once, self.gold @ once > 0)[0])

    def weighted(self, weights: np.ndarray, occurs: np.ndarray) -> np.ndarray:
        """(b,) the metric with documents weighted by each column of ``weights`` (n_docs, b).

        As the documents are drawn, so are the labels: the mean is over those that ``occurs`` (n, b),
        ``gold @ weights > 0``, says have gold in a draw.
        """
        agreed, total = self.agreed @ weights, self.total @ weights
        f1 = np.divide(agreed, total, out=np.zeros_like(agreed), where=occurs)
        n = occurs.sum(axis=0)
        return np.divide(f1.sum(axis=0, dtype=np.float64), n, out=np.full(len(n), np.nan), where=n > 0)


def first(m: Matches, k: int) -> np.ndarray:
    """(n_suggestions,) bool, the first k suggestions of each document."""
    return m.ranks < k


def from_score(m: Matches, threshold: float) -> np.ndarray:
    """(n_suggestions,) bool, the suggestions that score ``threshold`` or more."""
    return m.scores >= threshold


def micro_f1(m: Matches, selected: np.ndarray) -> Ratio:
    """2 TP / (selected + gold), summed over all documents; ``selected`` (n_suggestions,) bool."""
    agreed, chosen = m.by_document(selected & m.hit), m.by_document(selected)
    return Ratio(2.0 * agreed, 1.0 * (chosen + m.gold_counts))


def best_threshold(m: Matches) -> float | None:
    """The score from which suggestions are kept for the best micro F1; the highest of equally good ones.

    None without suggestions. It is found on the gold labels it is then judged by: an upper bound.
    """
    if not len(m.scores):
        return None
    order = np.argsort(-m.scores, kind="stable")
    scores, agreed = m.scores[order], np.cumsum(m.hit[order])
    f1 = 2 * agreed / (np.arange(1, len(scores) + 1) + len(m.gold_docs))
    last = np.append(np.diff(scores) != 0, True)  # equal scores are kept or dropped together
    return float(scores[last][f1[last].argmax()])


def macro_f1(m: Matches, selected: np.ndarray) -> LabelMean:
    """F1 of each label, mean over the labels that occur in the gold of these documents.

    Labels that are only suggested do not enter the mean, so the value does not depend on how many
    labels the vocabulary has. ``selected`` (n_suggestions,) bool.
    """
    gold = m.occurrences
    kept = np.flatnonzero(selected & (m.occurring_at >= 0))
    suggested = _by_label(m, kept, 1)
    agreed = _by_label(m, kept[m.hit[kept]], 2)
    return LabelMean(agreed, suggested + gold, gold)


def _by_label(m: Matches, at: np.ndarray, value: int) -> sp.csr_matrix:
    """(n_occurring, n_docs) with ``value`` for each of the suggestions ``at``."""
    data = np.full(len(at), value, dtype=np.float32)
    return sp.csr_matrix((data, (m.occurring_at[at], m.docs[at])), shape=m.occurrences.shape)


@dataclass(frozen=True)
class LabelCounts:
    """Per label, (n_labels,) each: gold pairs, suggestions among the first k, and hits among those."""

    k: int
    gold: np.ndarray
    suggested: np.ndarray
    hits: np.ndarray


def label_counts(m: Matches, k: int) -> LabelCounts:
    """Count gold, suggestions and hits of every label at k."""
    at = first(m, k)
    count = lambda labels: np.bincount(labels, minlength=m.n_labels)  # noqa: E731
    return LabelCounts(k, count(m.gold_labels), count(m.labels[at]), count(m.labels[at & m.hit]))
