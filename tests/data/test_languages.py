from __future__ import annotations

from xmc.data.languages import distance, is_other


def test_languages_are_ordered_from_the_one_asked_for():
    found = ["de", "en", "", "fi-x", "fi"]
    assert sorted(found, key=lambda language: distance(language, "fi")) == ["fi", "fi-x", "", "en", "de"]


def test_only_a_different_language_counts_as_another():
    assert [is_other(found, "en-gb") for found in ("en-gb", "en", "en-us", "", "fi")] == [False] * 4 + [True]
    assert is_other("en", "fi")
