"""Calibrator: scores of (document, label) pairs into probabilities, by how many documents a label has.

Scores of labels without documents mean something else than scores of labels with many, so each bin of
label frequency has a curve of its own: isotonic regression (Zadrozny and Elkan, KDD 2002) on groups of
pairs, each drawn a little towards a curve that is known better. That is a logistic curve (Platt 1999) for
all pairs together, and for those of one bin the curve of all, moved to the bin's level. So a bin with few
right pairs keeps the common shape, with many its own pairs decide, and there is no number at which it jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from xmc.errors import ArtifactError
from xmc.mix import are_weights, fit_probability

BOUNDS = (1, 10, 50)  # bins of labels with 0, 1 to 9, 10 to 49, and 50 or more training documents
BINS = ("no document", "1 to 9 documents", "10 to 49 documents", "50 documents or more")
N_BINS = len(BINS)
LOWEST = 1e-6  # probabilities stay this far from 0 and from 1: no held-out sample shows that a pair cannot be
# The pull of the better known curve: on a group as much as so many of its pairs that could go either way, on
# the level of a bin as much as so many right pairs. Chosen on simulated pairs whose probability is known,
# with 30 to 2500 right ones, of labels that all share a curve and of labels that do not.
PULL = 10.0
MAX_MOVE = 40.0  # of log odds; those of a curve lie within 14
LOGISTIC_KNOTS = 100  # a logistic curve is met to within 0.001
MAX_GROUPS = 50
# Of how many pairs of a document, the best, and over how many bins of equal mass the calibration error is
# told. With more of them nearly all are wrong, and known to be.
RELIABILITY_K, EQUAL_BINS = 5, 15
MAX_KNOTS = LOGISTIC_KNOTS + 2 * MAX_GROUPS  # all of the logistic curve's, of the pooled one's and of a bin's


def frequency_bin(frequency: np.ndarray) -> np.ndarray:
    """(n,) int the bin, 0 to ``N_BINS - 1``, of labels with so many training documents (n,)."""
    return np.searchsorted(BOUNDS, frequency, side="right")


@dataclass(frozen=True)
class Curve:
    """A rising curve from score to probability: linear between knots, level beyond the outermost.

    ``scores`` (n_knots,) float64, each above the last; ``probabilities`` (n_knots,) float64 within
    ``LOWEST`` .. 1 - ``LOWEST``, none below the last.
    """

    scores: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, probabilities: np.ndarray) -> Curve:
        """A curve through these knots, kept off 0 and 1.

        The probabilities are made ones that float32 holds, so that rounding to float32 lets no value
        between two knots pass either of them.
        """
        inside = np.clip(np.maximum.accumulate(probabilities), LOWEST, 1 - LOWEST)
        return cls(np.asarray(scores, np.float64), inside.astype(np.float32).astype(np.float64))

    @classmethod
    def logistic(cls, slope: float, offset: float) -> Curve:
        """Knots of 1 / (1 + exp(-(slope * score + offset))). Raises ValueError for a slope not above 0."""
        if not slope > 0:
            raise ValueError(f"slope {slope}: wanted a number above 0")
        end = np.log(1 / LOWEST - 1)
        log_odds = np.linspace(-end, end, LOGISTIC_KNOTS)
        return cls.of((log_odds - offset) / slope, 1 / (1 + np.exp(-log_odds)))

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        """(n,) float64 probabilities of scores (n,)."""
        return np.interp(scores, self.scores, self.probabilities)

    def score_of(self, probabilities: np.ndarray) -> np.ndarray:
        """(n,) float64 scores with these probabilities (n,)."""
        return np.interp(probabilities, self.probabilities, self.scores)


@dataclass(frozen=True)
class Calibrator:
    """One curve for each bin of label frequency, ``N_BINS`` in all."""

    curves: tuple[Curve, ...]

    @classmethod
    def logistic(cls, slope: float, offset: float) -> Calibrator:
        """The same logistic curve for every label. Raises ValueError for a slope that is not above 0."""
        return cls((Curve.logistic(slope, offset),) * N_BINS)

    @classmethod
    def fit(
        cls, scores: np.ndarray, right: np.ndarray, frequency: np.ndarray, default: Calibrator
    ) -> Calibrator:
        """Fit on pairs of held-out documents and their candidates.

        Args:
            scores: (n_pairs,) finite scores.
            right: (n_pairs,) bool, whether the label is one of the document's gold labels.
            frequency: (n_pairs,) training documents of the pair's label, without the held-out ones.
            default: what to return where there is no right or no wrong pair to fit on.
        """
        if not right.any() or right.all():
            return default
        pooled = _isotonic(scores, right, Curve.logistic(*fit_probability(scores, right)))
        bins = frequency_bin(frequency)
        return cls(tuple(_isotonic(scores[bins == b], right[bins == b], pooled) for b in range(N_BINS)))

    def __call__(self, scores: np.ndarray, frequency: np.ndarray) -> np.ndarray:
        """(n_pairs,) float32 probabilities of scores (n_pairs,) of labels with ``frequency`` (n_pairs,)."""
        out, bins = np.empty(len(scores), np.float32), frequency_bin(frequency)
        for b, curve in enumerate(self.curves):
            out[bins == b] = curve(scores[bins == b])
        return out

    def to_json(self) -> list[dict[str, list[float]]]:
        """A plain form to save: the knots of each bin's curve."""
        return [{"scores": c.scores.tolist(), "probabilities": c.probabilities.tolist()} for c in self.curves]

    @classmethod
    def from_json(cls, saved: Any, where: object) -> Calibrator:
        """Read ``to_json`` again. Raises ArtifactError where that is not what was saved."""
        if not isinstance(saved, list) or len(saved) != N_BINS or not all(map(_is_curve, saved)):
            raise ArtifactError(f"{where}: the calibration is not one of this version; rebuild the model")
        return cls(tuple(Curve.of(np.array(c["scores"]), np.array(c["probabilities"])) for c in saved))


def _is_curve(saved: Any) -> bool:
    """Whether something read from JSON holds the knots of a curve."""
    if not isinstance(saved, dict) or set(saved) != {"scores", "probabilities"}:
        return False
    scores, probabilities = saved["scores"], saved["probabilities"]
    if not isinstance(scores, list) or not isinstance(probabilities, list):
        return False
    if len(scores) != len(probabilities) or not 1 <= len(scores) <= MAX_KNOTS:
        return False
    if not are_weights(scores + probabilities):
        return False
    rising = bool((np.diff(scores) > 0).all() and (np.diff(probabilities) >= 0).all())
    return rising and probabilities[0] > 0 and probabilities[-1] < 1


class _Groups(NamedTuple):
    """Pairs in groups, ascending in their probability by the prior curve; (n_groups,) float64 each.

    ``pairs`` and ``right`` count; ``expected``: that probability p summed; ``information``: p (1 - p)
    summed, that is, how many pairs could go either way.
    """

    pairs: np.ndarray
    right: np.ndarray
    expected: np.ndarray
    information: np.ndarray

    @classmethod
    def cut(cls, p: np.ndarray, right: np.ndarray) -> _Groups:
        """Groups of equal information, about as many as each of them has: few pairs make few groups.

        Information and not pairs is shared out, for nearly all candidates lie far below any right one.
        Pairs of equal ``p`` (n_pairs,) share a group.
        """
        order = np.argsort(p, kind="stable")
        p, right = p[order], right[order]
        information = p * (1 - p)
        total = np.cumsum(information)
        # Where the prior is far off, the pairs themselves say how much there is to learn.
        much = max(total[-1], min(right.sum(), (~right).sum()))
        n_groups = np.clip(np.sqrt(much), 1, MAX_GROUPS)
        number = ((total - information) / total[-1] * n_groups).astype(np.int64)[np.searchsorted(p, p)]
        starts = np.flatnonzero(np.append(True, np.diff(np.minimum(number, MAX_GROUPS - 1)) != 0))
        columns = (np.ones(len(p)), right.astype(np.float64), p, information)
        return cls(*(np.add.reduceat(x, starts) for x in columns))


def _levelled(prior: Curve, scores: np.ndarray, right: np.ndarray) -> Curve:
    """``prior`` with its log odds moved to expect as many right pairs as there are; less far for few.

    Apart from the shape, because a bin's level needs fewer pairs to be known.
    """
    from scipy.optimize import brentq

    expected, n_right = prior(scores), right.sum()
    log_odds = np.log(expected) - np.log1p(-expected)

    def surplus(move: float) -> float:
        return float((1 / (1 + np.exp(-log_odds - move))).sum() - n_right + PULL * move)

    moved = np.exp(brentq(surplus, -MAX_MOVE, MAX_MOVE, xtol=1e-6))
    odds = moved * prior.probabilities / (1 - prior.probabilities)
    return Curve.of(prior.scores, odds / (1 + odds))


def _isotonic(scores: np.ndarray, right: np.ndarray, prior: Curve) -> Curve:
    """The curve of these pairs; of none, ``prior``.

    It is a rising function of what ``prior`` says: linear between points, one for each pool of groups (as
    in centred isotonic regression, Oron and Flournoy 2017), and from 0 to 1. So it has no level parts, which
    would tie different scores; it keeps the mean over a group; and between points and beyond them it
    bends as ``prior`` does, where a straight line from score to score would lie too high in the long tail.
    """
    from scipy.optimize import isotonic_regression

    if not len(scores):
        return prior
    prior = _levelled(prior, scores, right)
    groups = _Groups.cut(prior(scores), right)
    pull = PULL / np.maximum(groups.information, np.minimum(groups.right, groups.pairs - groups.right))
    weights = groups.pairs * (1 + pull)
    rates = (groups.right + pull * groups.expected) / weights
    starts = isotonic_regression(rates, weights=weights).blocks[:-1]
    rates = np.add.reduceat(rates * weights, starts) / np.add.reduceat(weights, starts)
    means = np.add.reduceat(groups.expected, starts) / np.add.reduceat(groups.pairs, starts)
    knots = np.union1d(prior.scores, prior.score_of(means))
    return Curve.of(knots, np.interp(prior(knots), [0.0, *means, 1.0], [0.0, *rates, 1.0]))


class Reliability(NamedTuple):
    """How often pairs of about equal probability are right; (n_bins,) each, ascending in probability."""

    mean_probability: np.ndarray
    share_right: np.ndarray
    n_pairs: np.ndarray


def reliability_curve(probabilities: np.ndarray, right: np.ndarray, n_bins: int = EQUAL_BINS) -> Reliability:
    """At most ``n_bins`` bins with about as many pairs each, from ``probabilities`` and ``right`` (n_pairs,).

    Equal probabilities share a bin, so the order of the pairs does not matter; bins may come out larger
    for it, and fewer.
    """
    ranked = np.sort(probabilities)
    cuts = np.unique(ranked[np.arange(1, n_bins) * len(ranked) // n_bins]) if len(ranked) else ranked
    number = np.searchsorted(cuts, probabilities, side="right")
    count = np.bincount(number)
    filled = count > 0
    total, n_right = np.bincount(number, probabilities), np.bincount(number, right)
    count = count[filled]
    return Reliability(total[filled] / count, n_right[filled] / count, count)


def expected_calibration_error(
    probabilities: np.ndarray, right: np.ndarray, n_bins: int = EQUAL_BINS
) -> float:
    """Mean distance of probability and share right over bins of equal mass (Nixon et al. 2019); NaN of none.

    ``probabilities`` and ``right`` (n_pairs,). Over all candidates it is small whatever the curve, as most
    are wrong and known to be; to learn about suggestions, give it the pairs that are suggested.
    """
    if not len(probabilities):
        return float("nan")
    mean, share, count = reliability_curve(probabilities, right, n_bins)
    return float(np.average(np.abs(mean - share), weights=count))
