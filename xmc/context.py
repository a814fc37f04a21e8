"""A candidate scored beside the other candidates of its document, as log odds.

The final mix ranks a document's candidates; whether a label is right depends on the others too. A score far
below the best is less likely to be right, and where many labels are likely each is more so. So the mix's
score enters together with these, and with all that the mix saw, into a logistic regression on the held-out
documents.
"""

from __future__ import annotations

import numpy as np

from xmc.mix import Mix
from xmc.shortlist import NAMES as SHORTLIST_NAMES

NAMES = (*SHORTLIST_NAMES, "score", "below_best", "crowd", "square", "constant")
UNFITTED = Mix.of(NAMES, score=1.0)
LARGEST = 30.0  # log odds beyond which nothing changes


def context_features(features: np.ndarray, log_odds: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """(n_candidates, len(NAMES)) float32.

    ``features`` (n_candidates, len(SHORTLIST_NAMES)); ``log_odds`` (n_candidates,): the mix's score on the
    scale of log odds; document i owns the candidates ``indptr[i]:indptr[i + 1]``.
    """
    odds = np.clip(log_odds, -LARGEST, LARGEST).astype(np.float64)
    filled = np.flatnonzero(np.diff(indptr))
    starts = indptr[filled]
    of_doc = np.repeat(np.arange(len(filled)), np.diff(indptr)[filled])
    if not len(filled):
        return np.zeros((0, len(NAMES)), np.float32)
    best = np.maximum.reduceat(odds, starts)[of_doc]
    expected = np.add.reduceat(1 / (1 + np.exp(-odds)), starts)[of_doc]
    own = [odds, odds - best, np.log(expected + 1e-3), odds**2, np.ones(len(odds))]
    return np.hstack([features, np.stack(own, axis=1).astype(np.float32)])
