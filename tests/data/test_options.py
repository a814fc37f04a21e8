from __future__ import annotations

import pytest

from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import SettingError


def test_the_defaults_are_valid():
    ReadOptions().validate()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("on_unknown_label", "ignore"),
        ("on_duplicate", "last"),
        ("encoding", "no-such"),
        ("encoding", "zlib"),
        ("language", "en_US!"),
        ("language", ""),
    ],
)
def test_a_bad_value_is_refused_by_name(field: str, value: str):
    with pytest.raises(SettingError, match=rf"^{field}={value}: "):
        ReadOptions(**{field: value}).validate()


def test_a_report_says_one_sentence_a_count():
    report = ReadReport()
    report.count("documents had no text", "a:1")
    for line in range(7):
        report.count("gold labels were retired and left out", f"L{line}")
    report.count("broader ids were not in the vocabulary", n=1)
    assert report.lines() == [
        "1 document had no text (a:1)",
        "7 gold labels were retired and left out (L0, L1, L2, L3, L4, ...)",
        "1 broader id was not in the vocabulary",
    ]


def test_reports_add_up():
    a, b = ReadReport(), ReadReport()
    for n in range(4):
        a.count("documents had no text", f"a:{n}")
        b.count("documents had no text", f"b:{n}")
    b.count("lines were blank")
    a.merge(b)
    assert a.counts == {"documents had no text": 8, "lines were blank": 1}
    assert a.examples["documents had no text"] == ["a:0", "a:1", "a:2", "a:3", "b:0"]
