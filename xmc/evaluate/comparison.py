"""Two runs on the same documents set against each other: metrics, and the documents that changed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xmc.evaluate.evaluation import EvalSettings, Evaluation, compare
from xmc.evaluate.intervals import Difference
from xmc.evaluate.worst import quality

VERDICTS = {1: "better", 0: "not told apart", -1: "worse"}
LOWER_IS_BETTER = ("miss_rate",)


@dataclass(frozen=True)
class Comparison:
    """A run against ``other``, by metric, and the ``change`` (n_docs,) of nDCG@5, NaN without gold labels."""

    other: Evaluation
    differences: Mapping[str, Difference]
    change: np.ndarray

    def fell(self, n: int) -> list[int]:
        """Rows of at most ``n`` documents that this run does worse, the largest loss first."""
        return [int(row) for row in np.argsort(self.change, kind="stable")[:n] if self.change[row] < 0]

    @property
    def moved(self) -> tuple[int, int, int]:
        """How many documents this run does better, alike and worse."""
        return tuple(
            int(n) for n in ((self.change > 0).sum(), (self.change == 0).sum(), (self.change < 0).sum())
        )  # type: ignore[return-value]


def compared(run: Evaluation, other: Evaluation) -> Comparison:
    """Paired bootstrap over the documents; InputError where the gold labels are not the same."""
    return Comparison(other, compare(run, other), quality(run.matches) - quality(other.matches))


def p_value(d: Difference, resamples: int) -> float:
    """Two-sided: how often the resamples say the opposite, twice; at least what so many of them can tell.

    NaN without resamples.
    """
    return min(1.0, max(2 * min(d.wins, 1 - d.wins), 1 / resamples)) if resamples else math.nan


def verdict(name: str, d: Difference, settings: EvalSettings) -> str:
    """Better or worse where the interval leaves out zero, else that the runs are not told apart.

    Nor are they by fewer resamples than the confidence needs. Nothing is said without any.
    """
    if not settings.resamples:
        return ""
    sure = p_value(d, settings.resamples) <= 1 - settings.confidence
    sign = sure * (int(d.low > 0) - int(d.high < 0))
    return VERDICTS[-sign if name.startswith(LOWER_IS_BETTER) else sign]
