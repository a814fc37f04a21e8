"""Data made for tests of training: documents of a few telling words among many that tell nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmc.encoders.lexical import unit
from xmc.encoders.trained import TrainedTower
from xmc.train.data import TrainingData
from xmc.train.loop import RECIPES, Recipe

N_DOCS, N_DEV, N_LABELS, N_NOISE, DENSE_DIM = 400, 80, 60, 40, 6
N_FEATURES = 2 * N_LABELS + N_NOISE  # two words for each label, one of which is its name


def unit_rows(dense: np.ndarray) -> sp.csr_matrix:
    return sp.csr_matrix(unit(dense.astype(np.float32)))


def made(dense_dim: int = DENSE_DIM, seed: int = 0, n_dev: int = N_DEV) -> TrainingData:
    """The last ``n_dev`` documents judge. Their words are those of one or two labels, and eight others."""
    rng = np.random.default_rng(seed)
    gold = np.zeros((N_DOCS, N_LABELS), np.float32)
    words = np.zeros((N_DOCS, N_FEATURES), np.float32)
    for doc in range(N_DOCS):
        labels = rng.choice(N_LABELS, rng.integers(1, 3), replace=False)
        gold[doc, labels] = 1
        words[doc, 2 * labels + rng.integers(0, 2, len(labels))] = 0.6
        words[doc, 2 * N_LABELS + rng.choice(N_NOISE, 8, replace=False)] = 1
    names = np.zeros((N_LABELS, N_FEATURES), np.float32)
    names[np.arange(N_LABELS), 2 * np.arange(N_LABELS)] = 1
    names[::7] = 0  # some labels have no words
    topics = rng.standard_normal((N_LABELS, dense_dim))
    docs, dev = np.arange(N_DOCS - n_dev), np.arange(N_DOCS - n_dev, N_DOCS)
    known, whole = gold.copy(), sp.csr_matrix(gold)
    known[dev] = 0
    return TrainingData(
        unit_rows(words),
        unit((gold @ topics + 2 * rng.standard_normal((N_DOCS, dense_dim))).astype(np.float32)),
        dense_dim,
        sp.csr_matrix(known),
        sp.csr_matrix(names),
        unit(topics.astype(np.float32)),
        np.ones(N_LABELS, bool),
        np.arange(N_LABELS),
        docs,
        dev,
        whole[dev],
    )


def tower_for(data: TrainingData, bag_dim: int = 16, seed: int = 0) -> TrainedTower:
    n = data.features.shape[1]
    return TrainedTower.untrained(np.arange(n), n, data.dense_dim, bag_dim, seed)


def recipe(loss: str, **more: Any) -> Recipe:
    """The loss's own recipe with steps that suit some thirty of them."""
    return replace(RECIPES[loss], **{"epochs": 10, "rate": 0.05, "bag_rate": 1.0, **more})
