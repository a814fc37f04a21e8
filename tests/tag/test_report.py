from __future__ import annotations

from xmc.tag.report import TagReport


def test_counts_are_shown_with_reasons_and_rate() -> None:
    report = TagReport("t.jsonl", 1200, 1, {"empty_text": 1, "below_threshold": 1001}, 200, 1, 2.0)
    assert report.lines() == [
        "t.jsonl: 1,200 documents, 1 suggestion, 2.0 s, 500.0 documents/s",
        "1 document without a suggestion: empty_text",
        "1,001 documents without a suggestion: below_threshold",
        "200 documents taken over from an interrupted run",
        "1 damaged shard of an interrupted run tagged again",
    ]


def test_nothing_to_do() -> None:
    assert TagReport("t.csv", 1, 2, finished_before=True).lines() == [
        "t.csv: 1 document, 2 suggestions; finished before, nothing to do"
    ]
