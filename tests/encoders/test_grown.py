from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from xmc.encoders.given import GivenTower
from xmc.encoders.grown import grown, places
from xmc.encoders.lexical import LexicalSettings, LexicalTower

SETTINGS = LexicalSettings(dim=16, ngram_bits=10)
OLD = ["zebra hill", "zebra pond", "ocean hill", "ocean tide"] * 3
NEW = ["zebra comet", "zebra comet", "ocean comet"]


def tower(texts: list[str], settings: LexicalSettings = SETTINGS) -> LexicalTower:
    return LexicalTower.fit([texts], [["label"]], settings)


def weight(words: LexicalTower, word: str) -> float:
    found = words.counts([word]).indices
    return float(words.idf[found[found < len(words.keys)][0]])


def test_words_of_both_are_known():
    both = grown(tower(NEW), tower(OLD))
    assert set(both.keys) == set(tower(NEW).keys) | set(tower(OLD).keys)
    assert both.idf.shape == (both.n_features,)


def test_with_the_old_texts_again_it_is_the_tower_of_all():
    whole = tower(OLD + NEW)
    again = grown(whole, tower(OLD))
    assert np.array_equal(again.keys, whole.keys)
    assert again.idf == pytest.approx(whole.idf, rel=1e-5)


def test_with_new_texts_alone_old_words_keep_their_weight():
    old, both = tower(OLD), grown(tower(NEW), tower(OLD))
    for word in ("zebra", "ocean", "hill"):
        assert weight(both, word) == pytest.approx(weight(old, word), rel=1e-5)
    assert weight(both, "comet") > weight(both, "zebra")


def test_no_more_words_than_there_may_be():
    new = tower(NEW)
    few = replace(SETTINGS, max_features=len(new.keys) + 1)
    both = grown(tower(NEW, few), tower(OLD))
    assert len(both.keys) == len(new.keys) + 1
    assert set(new.keys) < set(both.keys)


def test_each_feature_is_found_in_the_tower_before():
    old = tower(OLD)
    both = grown(tower(NEW), old)
    found = places(both, old)
    n_words = len(both.keys)
    known = found[:n_words] >= 0
    assert np.array_equal(both.keys[known], old.keys[found[:n_words][known]])
    assert np.array_equal(np.flatnonzero(~np.isin(both.keys, old.keys)), np.flatnonzero(~known))
    assert np.array_equal(found[n_words:], np.arange(len(old.keys), old.n_features))


def test_given_features_are_the_same_ones():
    given = GivenTower.fit([], 7, SETTINGS)
    assert places(given, given).tolist() == list(range(7))
