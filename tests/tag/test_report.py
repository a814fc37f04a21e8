from __future__ import annotations

from xmc.tag.report import TagReport


def test_counts_are_shown_with_reasons_and_rate() -> None:
    report = TagReport(
        "t.jsonl",
        1200,
        1,
        {"empty_text": 1, "below_threshold": 1001},
        n_reused=200,
        n_repaired=1,
        seconds=2.0,
    )
    assert report.lines() == [
        "t.jsonl: 1,200 documents (198 tagged, 1,002 empty), 1 suggestion, 2.0 s, 500.0 documents/s",
        "1 document without a suggestion: empty_text",
        "1,001 documents without a suggestion: below_threshold",
        "200 documents taken over from an interrupted run",
        "1 damaged shard of an interrupted run tagged again",
    ]


def test_nothing_to_do() -> None:
    assert TagReport("t.csv", 1, 2, finished_before=True).lines() == [
        "t.csv: 1 document (1 tagged), 2 suggestions; finished before, nothing to do"
    ]


def test_what_is_not_in_the_output_is_told() -> None:
    assert TagReport("t.csv", 1, 2).fault() == ""
    told = TagReport("t.csv", 1, 2, n_quarantined=2, n_cut_off=1, quarantine="t.csv.quarantine.jsonl")
    assert told.lines()[0].startswith("t.csv: 3 documents (1 tagged, 2 quarantined), 2 suggestions")
    assert told.fault() == (
        "t.csv: all is tagged but 2 documents and the rest of 1 file: t.csv.quarantine.jsonl tells which "
        "and why; mend them and tag them anew"
    )
