from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data.oddities import oddities

MOJIBAKE = "likely mojibake (UTF-8 read as another encoding)"
words = st.sampled_from(
    [
        "café",
        "Übergröße",
        "Łódź",
        "RÓŻA",
        "RĂZBOI",
        "naïve",
        "ÉTÉ",
        "Ångström",
        "Äpfel",
        "déjà",
        "Привет",
        "日本",
        "œuvre",
        "½",
    ]
)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("plain text, 3 \t lines\r\n", []),
        ("fish\x00eries", ["control characters"]),
        ("Analyzer\x9d", ["C1 control characters (read in a wrong encoding?)"]),
        ("one\u2028two", ["line or paragraph separators (U+0085, U+2028, U+2029)"]),
        ("caf\ufffd", ["replacement characters (U+FFFD)"]),
        ("half \ud800", ["halves of surrogate pairs"]),
        ("data\xadbase", ["soft hyphens"]),
        ("10\xa0km", ["no-break spaces"]),
        ("Rus\u200b", ["zero-width characters"]),
        ("magazines\u200e", ["marks of writing direction"]),
        ("\ue000", ["private-use characters"]),
        ("Lie\u0301ge", ["decomposed accents"]),
        ("x" * 100, ["tokens of 100 characters and more"]),
        ("x" * 99 + " " + "y" * 99, []),
    ],
)
def test_each_kind_is_told(text, kinds):
    assert oddities(text) == kinds


@pytest.mark.parametrize("wrong", ["cp1252", "latin-1", "iso-8859-2"])
@pytest.mark.parametrize("text", ["Schümcker", "4 °C", "Grüße", "l’été", "Åland", "£5"])
def test_utf8_read_as_another_encoding_is_told(text, wrong):
    assert MOJIBAKE in oddities(text.encode().decode(wrong, errors="replace"))


@given(st.lists(words))
def test_words_of_many_languages_are_ordinary(text):
    assert oddities(" ".join(text)) == []


@given(st.text())
def test_composed_text_has_no_decomposed_accents(text):
    assert "decomposed accents" not in oddities(unicodedata.normalize("NFC", text))
