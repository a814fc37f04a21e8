"""From which probability on a label is suggested: thresholds for a metric, or for a promised error rate.

All work on pairs of held-out documents and their candidates, in any order: ``probabilities`` (n_pairs,)
above 0 and below 1, ``right`` (n_pairs,) bool, ``of_doc`` (n_pairs,) the documents' rows. Gold labels
that are no candidates enter by ``n_gold``, so that they count as missed. A pair passes a threshold that its
probability reaches. Probabilities are compared as float32, as they are when documents are tagged, and equal
ones pass together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmc.calibrate import N_BINS, frequency_bin
from xmc.errors import SettingError
from xmc.settings import require

SAME = 1e-9  # values closer than this differ by rounding only


@dataclass(frozen=True)
class _Sweep:
    """Pairs from the most probable down; a cut lets all pairs from one probability up pass.

    ``order`` (n_pairs,): pairs, equal ones as given; ``values`` (n_cuts,) float32: the distinct
    probabilities, descending; ``passing`` (n_cuts,): how many pairs pass each.
    """

    order: np.ndarray
    values: np.ndarray
    passing: np.ndarray

    @classmethod
    def of(cls, probabilities: np.ndarray) -> _Sweep:
        probabilities = np.asarray(probabilities, np.float32)
        order = np.argsort(-probabilities, kind="stable")
        ranked = probabilities[order]
        last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)[: len(ranked)])
        return cls(order, ranked[last], last + 1)

    def sums(self, of_pairs: np.ndarray) -> np.ndarray:
        """(n_cuts,) float64 sum over the pairs that pass each cut."""
        return np.cumsum(of_pairs[self.order], dtype=np.float64)[self.passing - 1]

    def threshold(self, n: int) -> float:
        """What the ``n`` highest values pass and the next does not: midway, with 1 above all and 0 below."""
        around = np.concatenate([[1.0], self.values.astype(np.float64), [0.0]])
        upper, lower = around[n], around[n + 1]
        middle = np.float32((upper + lower) / 2)
        return float(middle if middle > lower else upper)  # neighbours in float32 have nothing between them

    def best(self, quality: np.ndarray) -> float:
        """The threshold of the cut with the best ``quality`` (n_cuts,) above 0, which passing nothing has.

        Of equally good ones the highest.
        """
        every = np.append(0.0, quality)
        return self.threshold(int(np.argmax(every >= every.max() - SAME)))


def best_threshold_micro_f1(probabilities: np.ndarray, right: np.ndarray, n_gold: np.ndarray) -> float:
    """The threshold with the best micro F1; ``n_gold`` (n_docs,) all gold labels of each document."""
    sweep = _Sweep.of(probabilities)
    return sweep.best(2 * sweep.sums(right) / (sweep.passing + n_gold.sum()))


def best_threshold_f1_at_k(
    probabilities: np.ndarray, right: np.ndarray, of_doc: np.ndarray, n_gold: np.ndarray, k: int
) -> float:
    """The threshold with the best mean F1 of a document's at most ``k`` most probable that pass.

    ``n_gold`` (n_docs,) all gold labels of each document; documents without any count not at all. Of
    equally probable pairs the ones given first are among the ``k``. Raises: SettingError for k below 1.
    """
    require(k >= 1, "k", k, "a whole number from 1 up")
    sweep = _Sweep.of(probabilities)
    return sweep.best(sweep.sums(_gains(sweep.order, right, of_doc, n_gold, k)))


def thresholds_macro_f1(
    probabilities: np.ndarray,
    right: np.ndarray,
    rows: np.ndarray,
    frequency: np.ndarray,
    n_gold_of_label: np.ndarray,
) -> np.ndarray:
    """(N_BINS,) the threshold for labels of each frequency bin with the best macro F1.

    That is the mean F1 of the labels that occur in the sample, as in `xmc.evaluate.f1`, so each bin can be
    searched alone. A bin without a right pair has nothing to choose by and gets the best for all labels.

    Args:
        probabilities: (n_pairs,).
        right: (n_pairs,) bool.
        rows: (n_pairs,) label rows.
        frequency: (n_labels,) training documents of each label.
        n_gold_of_label: (n_labels,) how many of the documents have each label as a gold label.
    """
    bins = frequency_bin(frequency)[rows]

    def best(chosen: np.ndarray) -> float:
        sweep = _Sweep.of(probabilities[chosen])
        return sweep.best(sweep.sums(_gains(sweep.order, right[chosen], rows[chosen], n_gold_of_label)))

    common = best(np.ones(len(rows), bool))
    return np.array([best(bins == b) if right[bins == b].any() else common for b in range(N_BINS)])


def _gains(
    order: np.ndarray, right: np.ndarray, group: np.ndarray, n_gold: np.ndarray, k: int | None = None
) -> np.ndarray:
    """(n_pairs,) by how much the F1 of a pair's group grows when it joins those before it in ``order``.

    Groups are documents or labels, ``n_gold`` (n_groups,); pairs after a group's first ``k``, and those of
    groups without gold, add nothing. Summed from the top they give the sum of F1 at any threshold.
    """
    order = order[np.argsort(group[order], kind="stable")]
    group, wanted = group[order], n_gold[group[order]]
    start = np.searchsorted(group, group)
    place = np.arange(len(group)) - start
    so_far = np.append(0, np.cumsum(right[order]))
    f1 = np.where(wanted > 0, 2 * (so_far[1:] - so_far[start]) / (place + 1 + wanted), 0.0)
    gain = f1 - np.where(place > 0, np.append(0.0, f1[:-1])[: len(f1)], 0.0)
    out = np.empty(len(order))
    out[order] = gain if k is None else np.where(place < k, gain, 0.0)
    return out


def threshold_for_precision(probabilities: np.ndarray, right: np.ndarray, precision: float) -> float:
    """The lowest threshold at which at least the share ``precision`` of the passing pairs is right.

    Raises: SettingError for no share above 0, or for more than any threshold attains; it names the most.
    """
    require(0 < precision <= 1, "precision", precision, "a number above 0, at most 1")
    sweep = _Sweep.of(probabilities)
    found = sweep.sums(right) / sweep.passing
    enough = np.flatnonzero(found >= precision)
    if not len(enough):
        most = np.floor(found.max(initial=0) * 1e4) / 1e4  # rounded so that it can be asked for
        raise SettingError(
            f"precision={precision}: the held-out documents allow {most:g} at most; ask for that or less"
        )
    return sweep.threshold(int(enough[-1]) + 1)


def conformal_threshold(
    probabilities: np.ndarray, right: np.ndarray, of_doc: np.ndarray, n_gold: np.ndarray, rate: float
) -> float:
    """The highest threshold with an expected miss rate of at most ``rate``, by conformal risk control.

    The miss rate of a document is the share of its gold labels (``n_gold`` (n_docs,) in all) that do not
    pass. The promise is for a new document with gold labels, on average over held-out samples and such
    documents: it needs documents of the same kind, that nothing was fitted on, and holds only where all
    labels that pass are given; where only a document's first few are, the pairs have to be its first few
    too. Documents without gold labels count not at all.
    (Angelopoulos, Bates, Fisch, Lei and Schuster, ICLR 2024)

    Raises: SettingError for no share between 0 and 1, or below `lowest_rate`, which it names.
    """
    require(0 < rate < 1, "miss_rate", rate, "a number between 0 and 1")
    sweep, n = _Sweep.of(probabilities), (n_gold > 0).sum()
    bound = (1 + n - sweep.sums(_shares(right, of_doc, n_gold))) / (n + 1)
    enough = np.flatnonzero(bound <= rate + SAME)
    if not len(enough):
        least = np.ceil(lowest_rate(right, of_doc, n_gold) * 1e4) / 1e4  # rounded so that it can be asked for
        raise SettingError(
            f"miss_rate={rate}: the candidates of {n} held-out documents allow {least:g} at least; "
            "ask for that or more"
        )
    return float(sweep.values[enough[0]])


def lowest_rate(right: np.ndarray, of_doc: np.ndarray, n_gold: np.ndarray) -> float:
    """The lowest ``rate`` for `conformal_threshold`: with all candidates given; 1 without gold labels.

    The n documents with gold labels count as n + 1, of which one misses all: a larger sample promises more.
    """
    n = (n_gold > 0).sum()
    return float((1 + n - _shares(right, of_doc, n_gold).sum()) / (n + 1))


def _shares(right: np.ndarray, of_doc: np.ndarray, n_gold: np.ndarray) -> np.ndarray:
    """(n_pairs,) the share of its document's gold labels that a pair finds: 1 / n_gold if right, or 0."""
    return right / np.maximum(n_gold[of_doc], 1)
