"""The bins of labels by training frequency."""

from __future__ import annotations

import numpy as np

FREQUENT = 50
MEANING = {
    "frequent": f"{FREQUENT} and more training documents",
    "few": f"1 to {FREQUENT - 1} training documents",
    "zero": "no training document",
}


def label_bins(train_frequency: np.ndarray) -> dict[str, np.ndarray]:
    """Masks (n_labels,) of the labels with 50 and more, 1 to 49, and no training documents.

    The bounds are those of Chalkidis et al. (2019). How a bin restricts each metric stands in
    ``metrics`` and ``f1``.
    """
    return {
        "frequent": train_frequency >= FREQUENT,
        "few": (train_frequency > 0) & (train_frequency < FREQUENT),
        "zero": train_frequency == 0,
    }


def bin_of(frequency: int) -> str:
    """The name of the bin of a label with ``frequency`` training documents."""
    return "frequent" if frequency >= FREQUENT else "few" if frequency else "zero"
