"""A lexical tower that knows the words of the one before it too, for training that goes on from a model."""

from __future__ import annotations

import numpy as np

from xmc.encoders.given import GivenTower
from xmc.encoders.lexical import UNKNOWN_BITS, LexicalTower

Words = LexicalTower | GivenTower


def grown(words: LexicalTower, before: LexicalTower) -> LexicalTower:
    """``words`` with what only ``before`` knows, as far as ``max_features`` allows, the most frequent first.

    The weight of a feature follows from the larger of its two counts and the larger number of texts. So it
    stays what it was where only new documents are given, and is that of all where old ones are given again.
    """
    only_before = np.setdiff1d(before.keys, words.keys)
    room = max(0, words.settings.max_features - len(words.keys))
    weights = before.idf[np.searchsorted(before.keys, only_before)]
    kept = only_before[np.sort(np.argsort(weights, kind="stable")[:room])]
    keys = np.sort(np.concatenate([words.keys, kept]))
    n_texts = max(_n_texts(words), _n_texts(before))
    counts = np.maximum(_counts(words, keys), _counts(before, keys))
    idf = 1 + np.log((1 + n_texts) / (1 + counts))
    return LexicalTower(words.settings, keys, idf.astype(np.float32))


def places(words: Words, before: Words) -> np.ndarray:
    """(n_features,) which feature of ``before`` each one of ``words`` is, -1 for none."""
    if not isinstance(words, LexicalTower) or not isinstance(before, LexicalTower):
        return np.arange(words.n_features)
    known = _found(before, words.keys)
    hashed = np.arange(words.n_features - len(words.keys)) + len(before.keys)
    return np.concatenate([known, hashed])


def _found(words: LexicalTower, keys: np.ndarray) -> np.ndarray:
    """(n,) column of each key, -1 where it is not in the vocabulary."""
    if not len(words.keys):
        return np.full(len(keys), -1)
    at = np.minimum(np.searchsorted(words.keys, keys), len(words.keys) - 1)
    return np.where(words.keys[at] == keys, at, -1)


def _n_texts(words: LexicalTower) -> float:
    """How many texts were counted: features of unknown words count as standing in none."""
    return float(np.rint(np.exp(words.idf[len(words.keys)].astype(np.float64) - 1) - 1))


def _counts(words: LexicalTower, keys: np.ndarray) -> np.ndarray:
    """(n,) in how many texts each feature of a tower with the vocabulary ``keys`` stood; 0 if unknown."""
    at = _found(words, keys)
    idf = np.concatenate([words.idf[at], words.idf[len(words.keys) :]]).astype(np.float64)
    counts = np.rint((1 + _n_texts(words)) / np.exp(idf - 1) - 1)
    counts[: len(keys)][at < 0] = 0
    counts[len(keys) : len(keys) + (1 << UNKNOWN_BITS)] = 0
    return np.maximum(counts, 0)
