"""How likely a right label is to be among a document's gold labels, by how many documents have it."""

from __future__ import annotations

import numpy as np


def inverse_propensity(train_frequency: np.ndarray, n_train: int, a: float, b: float) -> np.ndarray:
    """(n_labels,) 1 / p = 1 + C (N_l + B)^-A with C = (ln N - 1)(B + 1)^A (Jain et al. 2016).

    N is ``n_train``, the number of training documents, N_l ``train_frequency``. A = 0.55, B = 1.5
    by default there; 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon data. Below 3 documents C
    would be negative, and N counts as 3.
    """
    c = (np.log(max(n_train, 3)) - 1) * (b + 1) ** a
    return 1 + c * (train_frequency + b) ** -a
