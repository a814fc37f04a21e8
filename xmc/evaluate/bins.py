"""What training frequency says about a label: its bin and its propensity."""

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


def inverse_propensity(train_frequency: np.ndarray, n_train: int, a: float, b: float) -> np.ndarray:
    """(n_labels,) 1 / p = 1 + C (N_l + B)^-A with C = (ln N - 1)(B + 1)^A (Jain et al. 2016).

    N is ``n_train``, the number of training documents, N_l ``train_frequency``. A = 0.55, B = 1.5
    by default there; 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon data. Below 3 documents C
    would be negative, and N counts as 3.
    """
    c = (np.log(max(n_train, 3)) - 1) * (b + 1) ** a
    return 1 + c * (train_frequency + b) ** -a
