from __future__ import annotations

import pytest

from xmc.errors import SettingError
from xmc.rules import Rule, threshold_of


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("micro_f1", Rule("micro_f1")),
        ("macro_f1", Rule("macro_f1")),
        ("f1@5", Rule("f1", 5)),
        ("precision=0.8", Rule("precision", 0.8)),
        ("precision=1", Rule("precision", 1.0)),
        ("precision=0.123456789", Rule("precision", 0.123456789)),
        ("f1@1234567", Rule("f1", 1234567)),
        ("miss_rate=0.1", Rule("miss_rate", 0.1)),
    ],
)
def test_a_rule_is_read_and_written_as_the_user_writes_it(text, rule):
    assert threshold_of(text) == rule
    assert str(rule) == text
    assert threshold_of(rule) is rule


def test_numbers_and_nothing():
    assert [threshold_of(v) for v in (None, 0.25, "0.25", 1, "-1.5e1")] == [None, 0.25, 0.25, 1.0, -15.0]


WRONG = ["", "micro", "micro_f1=1", "f1", "f1@", "f1@0", "f1@-1", "f1@2.5", "f1@٣", "f1@99999999999", "f1=5"]
WRONG += ["precision", "precision=0", "precision=1.1", "precision=x", "precision=nan", "precision=0.5=1"]
WRONG += ["miss_rate=0", "miss_rate=1", "miss_rate=inf", "nan", "inf", True, [0.5]]


@pytest.mark.parametrize("value", WRONG)
def test_anything_else_is_refused_in_one_sentence(value):
    with pytest.raises(SettingError, match=r"threshold=.*wanted") as caught:
        threshold_of(value)
    assert "\n" not in str(caught.value)
