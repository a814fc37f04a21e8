from __future__ import annotations

import pytest

from xmc.encoders.leads import LEAD, lead, longer_than_leads


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("\n\n  Title of it\nAnd more", "Title of it"),
        ("No line ends here", "No line ends here"),
        ("", ""),
        (" \n ", ""),
        ("x" * 10_000, "x" * LEAD),
    ],
)
def test_the_first_line_is_the_lead(text, wanted):
    assert lead(text) == wanted


def test_texts_with_more_than_their_lead():
    texts = ["only a title", "title\nbody", "  title \n\n", "", "x" * LEAD, "x" * LEAD + "y"]
    assert longer_than_leads(texts).tolist() == [1, 5]
    assert longer_than_leads([]).shape == (0,)
