from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data.text import CONTROL, SURROGATE, clean, has_surrogate, is_blank, needs_cleaning, shorten


@pytest.mark.parametrize(
    ("text", "cleaned", "repaired"),
    [
        ("fish\x00eries \x07", "fish eries  ", (CONTROL,)),
        ("a\tb\r\nc\x85d\u2028e", "a\tb\r\nc\x85d\u2028e", ()),
        ("\ud800 law", "\ufffd law", (SURROGATE,)),
        ("\x01\udfff", " \ufffd", (CONTROL, SURROGATE)),
        ("قانون e\u0301 👩‍⚖️ \u202e", "قانون e\u0301 👩‍⚖️ \u202e", ()),
    ],
)
def test_clean_replaces_what_no_text_has(text: str, cleaned: str, repaired: tuple[str, ...]):
    assert clean(text) == (cleaned, repaired)


@given(st.text(st.characters(codec=None)))
def test_cleaned_text_is_utf8_of_the_same_length_and_stays(text: str):
    cleaned, repaired = clean(text)
    cleaned.encode()
    assert len(cleaned) == len(text)
    assert clean(cleaned) == (cleaned, ())
    assert bool(repaired) == needs_cleaning(text)
    assert has_surrogate(text) == (SURROGATE in repaired)


@pytest.mark.parametrize("text", ["", "   \n", "\u200b", "\ufeff \u2028", "\u00ad\u202e\u2069\ufe0f", "\x85"])
def test_nothing_to_see_is_blank(text: str):
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", "\u200ba", " .", "法", "\u0301", "👩‍⚖️", "  \n x"])
def test_anything_to_see_is_not_blank(text: str):
    assert not is_blank(text)


def test_shorten_splits_no_character():
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "abc..."
    assert shorten("abe\u0301d", 3) == "ab..."
    assert shorten("a👩\u200d⚖️ judge", 2) == "a..."
    assert shorten("a👩\u200d⚖️ judge", 3) == "a..."
    assert shorten("a👍🏽b", 2) == "a..."
