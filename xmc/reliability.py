"""How far the probabilities of a model can be trusted: measured on the documents held out when it was made.

Each document has the probabilities of curves that were fitted without it, so these figures are not those of
the pairs that bent the curves. `xmc eval` measures the same on other documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xmc.artifacts import load_array, open_artifact
from xmc.calibrate import RELIABILITY_K, Reliability, expected_calibration_error, reliability_curve
from xmc.calibration import CURVES, FREQUENCY, HeldOutSample
from xmc.model import KIND
from xmc.notices import counted

FOLDER = "calibration"
WIDTH = 50  # characters of the plot


@dataclass(frozen=True)
class HeldOutReliability:
    """Expected calibration ``error`` of each document's best suggestions, and the bins it is the mean of."""

    n_docs: int
    error: float
    curve: Reliability

    @classmethod
    def of(cls, sample: HeldOutSample) -> HeldOutReliability:
        """Over bins of equal mass, of the best ``RELIABILITY_K`` suggestions of each document."""
        probabilities, right = sample.suggested(RELIABILITY_K)
        error = expected_calibration_error(probabilities, right)
        return cls(sample.gold.shape[0], error, reliability_curve(probabilities, right))

    def line(self) -> str:
        """The error in a sentence."""
        return (
            f"calibration error {100 * self.error:.1f} %, of the best {RELIABILITY_K} suggestions of "
            f"{counted(self.n_docs, 'document')} that the curves were not fitted on"
        )

    def lines(self) -> Iterator[str]:
        """The same with a plot: a row for each bin, ``|`` at its mean score, ``#`` up to the share right."""
        yield f"  {self.line()}"
        yield f"    {'score':>7} {'right':>7}  {'0 %':{WIDTH - 5}}100 %  suggestions"
        for score, share, n in zip(*(part.tolist() for part in self.curve), strict=True):
            yield f"    {100 * score:7.1f} {100 * share:7.1f}  {_bar(score, share)}  {n:,}"

    def record(self) -> dict[str, Any]:
        """As JSON."""
        names = ("mean_score", "share_right", "suggestions")
        bins = zip(*(part.tolist() for part in self.curve), strict=True)
        return {
            "documents": self.n_docs,
            "error": self.error,
            "bins": [dict(zip(names, each, strict=True)) for each in bins],
        }


def held_out_reliability(path: Path) -> HeldOutReliability | None:
    """That of the model at ``path``; None where too little was held out to calibrate it.

    Raises: ArtifactError where it is no model, or damaged.
    """
    artifact = open_artifact(path, KIND)
    if f"{FOLDER}/{CURVES}" not in artifact.names:
        return None
    folder = artifact.directory(FOLDER)
    n_labels = len(load_array(folder / FREQUENCY))
    return HeldOutReliability.of(HeldOutSample.load(folder, n_labels))


def _bar(score: float, share: float) -> str:
    cells = ["#" if i < round(share * WIDTH) else " " for i in range(WIDTH)]
    cells[min(WIDTH - 1, int(score * WIDTH))] = "|"
    return "".join(cells)
