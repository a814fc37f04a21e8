"""Whether scores that are probabilities mean what they say: of suggestions with 0.7, about 70 % are right."""

from __future__ import annotations

from dataclasses import dataclass

from xmc.calibrate import RELIABILITY_K, Reliability, expected_calibration_error, reliability_curve
from xmc.evaluate.f1 import first
from xmc.evaluate.ranked import Matches


@dataclass(frozen=True)
class Calibrated:
    """Expected calibration error and its bins, of the best ``RELIABILITY_K`` suggestions of each document."""

    error: float
    curve: Reliability


def calibrated(m: Matches) -> Calibrated | None:
    """Over ``EQUAL_BINS`` bins of equal mass; None without suggestions, or where a score is no probability.

    Suggestions for documents without gold labels count as wrong, as in F1.
    """
    if not len(m.scores) or m.scores.min() < 0 or m.scores.max() > 1:
        return None
    best = first(m, RELIABILITY_K)
    scores, hit = m.scores[best], m.hit[best]
    error = expected_calibration_error(scores, hit)
    return Calibrated(error, reliability_curve(scores, hit))
