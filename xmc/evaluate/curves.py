"""The curves of a run as numbers: precision and recall, recall against k, metrics against label frequency."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xmc.evaluate.bins import label_bins
from xmc.evaluate.evaluation import Evaluation
from xmc.evaluate.metrics import recall
from xmc.evaluate.ranked import Matches

POINTS = 150  # of the precision-recall curve: more cannot be seen
STEPS = (1, 2, 3, 5, 7)  # times powers of ten: the k at which recall is taken


class PrecisionRecall(NamedTuple):
    """(n,) each, from the highest threshold to the lowest, over all pairs of document and label."""

    recall: np.ndarray
    precision: np.ndarray


def precision_recall(m: Matches) -> PrecisionRecall:
    """What is kept at each threshold; equal scores are kept or dropped together. Empty without a hit."""
    order = np.argsort(-m.scores, kind="stable")
    scores, agreed = m.scores[order], np.cumsum(m.hit[order])
    if not m.hit.any():
        return PrecisionRecall(np.zeros(0), np.zeros(0))
    last = np.flatnonzero(np.append(np.diff(scores) != 0, True))
    found = agreed[last] / len(m.gold_docs)
    exact = agreed[last] / (last + 1)
    # Evenly spaced in recall: the lower thresholds have nearly all of the suggestions.
    at = np.unique(np.searchsorted(found, np.linspace(0, found[-1], POINTS)))
    return PrecisionRecall(found[at], exact[at])


class RecallAt(NamedTuple):
    """Recall, mean over documents with gold, of the first ``k`` suggestions; (n,) each."""

    k: np.ndarray
    recall: np.ndarray


def recall_at(m: Matches, longest: int) -> RecallAt:
    """Up to k = ``longest``; empty without suggestions or without gold."""
    if not longest or not len(m.gold_docs):
        return RecallAt(np.zeros(0, dtype=int), np.zeros(0))
    steps = [s * 10**n for n in range(len(str(longest))) for s in STEPS]
    ks = [k for k in steps if k < longest] + [longest]
    return RecallAt(np.array(ks), np.array([recall(m, k).value for k in ks]))


def recall_by_bin(e: Evaluation) -> dict[str, RecallAt]:
    """`recall_at` of all labels, under "", and of each bin that has gold labels."""
    longest = int(e.matches.ranks.max()) + 1 if len(e.matches.ranks) else 0
    found = {"": recall_at(e.matches, longest)}
    bins = {} if e.train_frequency is None else label_bins(e.train_frequency)
    for name, members in bins.items():
        curve = recall_at(e.matches.within(members), longest)
        if len(curve.k):
            found[name] = curve
    return found


class ByFrequency(NamedTuple):
    """Labels grouped by training documents, from ``low`` up to below the next; (n,) each.

    ``recall`` and ``precision`` count the pairs of a group's labels among the first k suggestions (NaN
    where there are none), ``share`` is the group's part of the gold pairs.
    """

    low: np.ndarray
    recall: np.ndarray
    precision: np.ndarray
    share: np.ndarray


def by_frequency(e: Evaluation) -> ByFrequency | None:
    """Groups 0, 1, 2-3, 4-7 and so on, those with gold labels; None without training documents."""
    if e.train_frequency is None:
        return None
    group = np.ceil(np.log2(e.train_frequency + 1.0)).astype(int)
    gold, suggested, hits = (
        np.bincount(group, weights=n).astype(float)
        for n in (e.labels.gold, e.labels.suggested, e.labels.hits)
    )
    at = np.flatnonzero(gold)
    low = np.where(at > 0, 2 ** np.maximum(at - 1, 0), 0)
    exact = np.divide(hits[at], suggested[at], out=np.full(len(at), np.nan), where=suggested[at] > 0)
    return ByFrequency(low, hits[at] / gold[at], exact, gold[at] / gold.sum())
