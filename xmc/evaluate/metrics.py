"""Ranking metrics at k: P, nDCG, R, RP, PSP and PSnDCG, each a ratio of two sums over documents.

Conventions shared by all of them. A document without a prediction, and a slot that a list shorter
than k leaves empty, is a miss. Documents without gold labels are left out (there is nothing to
find); their suggestions count in micro-F1 only. Values are fractions, from 0 to 1; a metric over no
document is NaN. By label bin (``Matches.within``): gold labels of other bins are no gold, and a
suggestion of another bin's label keeps its rank and is no hit. So the bin's labels compete with all
labels, as in use, and the mean is over the documents that have a gold label in the bin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xmc.evaluate.ranked import Matches


@dataclass(frozen=True)
class Ratio:
    """A metric as sum(top) / sum(bottom), both (n_docs,): what a bootstrap over documents needs."""

    top: np.ndarray
    bottom: np.ndarray

    @property
    def value(self) -> float:
        """The metric over all documents; NaN where nothing is counted."""
        bottom = float(self.bottom.sum())
        return float(self.top.sum()) / bottom if bottom else float("nan")


def precision(m: Matches, k: int) -> Ratio:
    """P@k: hits over k, mean over documents with gold; k stays k where fewer are suggested.

    A bin's P@k is low by nature: only its own hits fill the k slots that all labels compete for.
    """
    return Ratio(m.by_document(m.hits(k)) / k, m.has_gold)


def recall(m: Matches, k: int) -> Ratio:
    """R@k: hits over the document's gold labels, mean over documents with gold. Grows with k."""
    return Ratio(m.by_document(m.hits(k)) / np.maximum(m.gold_counts, 1), m.has_gold)


def miss_rate(m: Matches) -> Ratio:
    """Share of a document's gold labels that are not suggested at all, mean over documents with gold."""
    missed = m.gold_counts - m.by_document(m.hit)
    return Ratio(missed / np.maximum(m.gold_counts, 1), m.has_gold)


def r_precision(m: Matches, k: int) -> Ratio:
    """RP@k: hits over min(k, gold labels), mean over documents with gold (Chalkidis et al. 2019)."""
    return Ratio(m.by_document(m.hits(k)) / np.clip(m.gold_counts, 1, k), m.has_gold)


def ndcg(m: Matches, k: int) -> Ratio:
    """nDCG@k: sum of 1 / log2(1 + position) over hits, over that of min(k, gold) hits in front.

    Mean over documents with gold (Järvelin and Kekäläinen 2002, binary gains). In a bin the ideal
    ranking has the bin's gold labels in front.
    """
    ideal = np.cumsum(discounts(np.arange(k)))[np.clip(m.gold_counts, 1, k) - 1]
    at = m.hits(k)
    return Ratio(m.by_document(at, discounts(m.ranks[at])) / ideal, m.has_gold)


def discounts(ranks: np.ndarray) -> np.ndarray:
    """1 / log2(2 + rank), the weight of a hit at ``ranks``, the first being 0."""
    return 1.0 / np.log2(ranks + 2.0)


def psp(m: Matches, k: int, weights: np.ndarray) -> Ratio:
    """PSP@k: hits weighted by inverse propensity, over the best attainable (Jain et al. 2016).

    ``weights`` (n_labels,) inverse propensities. Both sums run over documents before they are
    divided, as in the XMC repository's scripts. In a bin the best attainable is of the bin's gold.
    """
    at = m.hits(k)
    return Ratio(m.by_document(at, weights[m.labels[at]]), _best(m, k, weights, np.ones(k)))


def psndcg(m: Matches, k: int, weights: np.ndarray) -> Ratio:
    """PSnDCG@k: as PSP@k with each hit discounted by 1 / log2(1 + position) (Jain et al. 2016).

    The published denominator, the sum of the first k discounts, is the same for every document and
    cancels in the ratio to the best attainable. Code that divides each document by its own ideal
    DCG first gives other numbers.
    """
    at = m.hits(k)
    gains = weights[m.labels[at]] * discounts(m.ranks[at])
    return Ratio(m.by_document(at, gains), _best(m, k, weights, discounts(np.arange(k))))


def _best(m: Matches, k: int, weights: np.ndarray, discount: np.ndarray) -> np.ndarray:
    """(n_docs,) what a ranking of each document's gold labels, heaviest first, would collect in k slots."""
    gains = weights[m.gold_labels]
    gains = gains[np.lexsort((-gains, m.gold_docs))]
    starts = np.cumsum(m.gold_counts) - m.gold_counts
    position = np.arange(len(gains)) - starts[m.gold_docs]
    first = position < k
    collected = gains[first] * discount[position[first]]
    return np.bincount(m.gold_docs[first], weights=collected, minlength=m.n_docs)


RANKING: dict[str, Callable[[Matches, int], Ratio]] = {
    "P": precision,
    "nDCG": ndcg,
    "R": recall,
    "RP": r_precision,
}
PROPENSITY: dict[str, Callable[[Matches, int, np.ndarray], Ratio]] = {"PSP": psp, "PSnDCG": psndcg}
