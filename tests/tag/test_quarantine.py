"""Documents and shards that cannot be tagged, and output in parts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.tag.jobs import LABELS, Breaking, job, quarantined, tagged, write
from tests.tag.overlap import OverlapTagger
from xmc.data.corpus import Corpus
from xmc.data.records import DocumentBatch
from xmc.errors import InputError, SettingError
from xmc.tag.report import TagReport
from xmc.tag.suggestions import Suggestions, TagOptions
from xmc.tag.work import ShardsFailedError

LINES = [json.dumps({"id": f"d{i}", "text": f"fisheries {i}"}) for i in range(7)]


def bad_lines() -> list[str]:
    lines = list(LINES)
    lines[1] = "{no JSON"
    lines[4] = json.dumps({"id": "d4", "text": "poison"})
    lines[5] = json.dumps({"id": "d0", "text": "again"})
    return lines


def test_bad_documents_stand_in_the_quarantine_and_the_others_in_the_output(tmp_path: Path) -> None:
    docs, out = write(tmp_path, bad_lines()), tmp_path / "tags.jsonl"
    report = job(docs, out).run()
    assert tagged(out) == ["d0", "d2", "d3", "d6"]
    found = quarantined(out)
    by_place = {each["place"]: each for each in found}
    assert sorted(by_place) == [f"{docs}:2", f"{docs}:5", f"{docs}:6"]
    assert by_place[f"{docs}:2"]["reason"].startswith("not JSON")
    assert by_place[f"{docs}:5"] == {"place": f"{docs}:5", "id": "d4", "reason": "NaN or infinity for a text"}
    assert "stood before" in by_place[f"{docs}:6"]["reason"]
    assert (report.n_docs, report.n_quarantined) == (4, 3)
    assert "3 documents: " in report.fault()
    before = out.read_bytes()
    again = job(docs, out).run()
    assert again.finished_before
    assert again.fault() == report.fault()
    assert out.read_bytes() == before


@pytest.mark.parametrize("after", [1, 2, 4])
def test_the_quarantine_of_a_resumed_job_is_the_same(tmp_path: Path, after: int) -> None:
    docs, whole, out = write(tmp_path, bad_lines()), tmp_path / "whole.jsonl", tmp_path / "tags.jsonl"
    job(docs, whole).run()
    n = 0

    def stop(n_docs: int) -> None:
        nonlocal n
        n += n_docs
        if n >= after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(docs, out, progress=stop).run()
    assert not out.with_name("tags.jsonl.quarantine.jsonl").exists()
    job(docs, out).run()
    assert out.read_bytes() == whole.read_bytes()
    assert quarantined(out) == quarantined(whole)


def test_without_a_bad_document_there_is_no_quarantine(tmp_path: Path) -> None:
    docs, out = write(tmp_path, LINES), tmp_path / "tags.jsonl"
    assert job(docs, out).run().fault() == ""
    assert not out.with_name("tags.jsonl.quarantine.jsonl").exists()


def test_a_quarantine_of_an_earlier_output_goes_and_one_of_someone_else_stays(tmp_path: Path) -> None:
    docs, out = write(tmp_path, bad_lines()), tmp_path / "tags.jsonl"
    job(docs, out).run()
    out.unlink()
    write(tmp_path, LINES)
    job(docs, out).run()
    told = out.with_name("tags.jsonl.quarantine.jsonl")
    assert not told.exists()
    told.with_name("other.jsonl.quarantine.jsonl").write_text("mine")
    with pytest.raises(
        InputError, match=r"other\.jsonl\.quarantine\.jsonl: exists, and no tagging run wrote"
    ):
        job(docs, tmp_path / "other.jsonl").run()


def test_a_shard_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    lines = [*LINES[:2], *(json.dumps({"id": f"p{i}", "text": "poison"}) for i in range(2)), *LINES[2:]]
    docs, out = write(tmp_path, lines), tmp_path / "tags.jsonl"
    with pytest.raises(ShardsFailedError) as failed:
        job(docs, out).run()
    assert f"1 of 5 shards failed, the first at {docs}:3: NaN or infinity" in str(failed.value)
    assert failed.value.exit_code == 2
    assert not out.exists()
    mended = OverlapTagger(LABELS)
    report = job(docs, out, mended).run()
    assert (report.n_reused, mended.n_tagged) == (7, 2)
    assert tagged(out) == ["d0", "d1", "p0", "p1", *(f"d{i}" for i in range(2, 7))]


def test_a_bug_for_one_document_is_told_as_a_bug(tmp_path: Path) -> None:
    class Buggy(Breaking):
        def suggest(self, batch: Any, texts: Any, options: TagOptions) -> Suggestions:
            if any("poison" in text for text in texts):
                raise ZeroDivisionError
            return super().suggest(batch, texts, options)

    docs, out = write(tmp_path, bad_lines()), tmp_path / "tags.jsonl"
    job(docs, out, Buggy(LABELS)).run()
    assert any("this is a bug in xmc" in each["reason"] for each in quarantined(out))


def test_want_of_memory_is_the_shards_fault_and_no_documents(tmp_path: Path) -> None:
    class Greedy(Breaking):
        def suggest(self, batch: Any, texts: Any, options: TagOptions) -> Suggestions:
            if any("poison" in text for text in texts):
                raise MemoryError
            return super().suggest(batch, texts, options)

    docs = write(tmp_path, bad_lines())
    with pytest.raises(ShardsFailedError, match="not enough memory") as failed:
        job(docs, tmp_path / "tags.jsonl", Greedy(LABELS)).run()
    assert failed.value.exit_code == 3


def test_a_document_of_too_many_characters(tmp_path: Path) -> None:
    lines = [*LINES[:3], json.dumps({"id": "long", "text": "fisheries " * 30_000}), *LINES[3:]]
    docs, out = write(tmp_path, lines), tmp_path / "tags.jsonl"
    job(docs, out, max_characters=100_000).run()
    assert tagged(out) == [f"d{i}" for i in range(7)]
    assert quarantined(out) == [
        {
            "place": f"{docs}:4",
            "id": "long",
            "reason": "a text of 300,000 characters; at most 100,000 were wanted (tag.max_characters=100000)",
        }
    ]


def test_shards_end_before_they_hold_too_many_characters(tmp_path: Path) -> None:
    lengths = [30, 30, 30, 90, 5, 5, 5, 100, 100, 1]
    lines = [json.dumps({"id": f"d{i}", "text": "x" * n}) for i, n in enumerate(lengths)]
    corpus = Corpus([write(tmp_path, lines)], max_characters=100)
    batches = [[len(text) for text in batch.texts or []] for batch in corpus.batches(4)]
    assert batches == [[30, 30, 30], [90, 5, 5], [5], [100], [100], [1]]
    with pytest.raises(InputError, match="a text of 100 characters; at most 99 were wanted"):
        list(Corpus([tmp_path / "docs.jsonl"], max_characters=99).batches(4))


def test_standard_output_tells_of_bad_documents_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, write_through=True))
    told: list[str] = []
    docs = write(tmp_path, bad_lines())
    report = job(docs, "-", tell=told.append).run()
    assert [json.loads(line)["id"] for line in raw.getvalue().splitlines()] == ["d0", "d2", "d3", "d6"]
    assert len(told) == 3
    assert all(line.startswith(f"not tagged: {docs}:") for line in told)
    assert report.fault().startswith("-: all is tagged but 3 documents: see above")


@pytest.mark.parametrize("name", ["tags.jsonl.gz", "tags.parquet", "tags.npz"])
def test_parts_are_there_as_they_are_finished(tmp_path: Path, name: str) -> None:
    docs, whole, out = write(tmp_path, LINES), tmp_path / f"whole.{name}", tmp_path / name
    job(docs, whole, parts=True).run()
    parts = sorted(whole.iterdir())
    assert [part.name for part in parts] == [f"part-0000{i}{name.removeprefix('tags')}" for i in range(4)]
    assert [i for part in parts for i in tagged(part)] == [f"d{i}" for i in range(7)]
    n = 0

    def stop(n_docs: int) -> None:
        nonlocal n
        n += n_docs
        if n == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(docs, out, parts=True, progress=stop).run()
    assert len(list(out.glob("part-*"))) == 2
    assert job(docs, out, parts=True).run().n_reused == 4
    assert [p.read_bytes() for p in sorted(out.iterdir())] == [p.read_bytes() for p in parts]
    assert job(docs, out, parts=True).run().finished_before
    (out / parts[0].name).write_bytes(b"")
    with pytest.raises(InputError, match="was changed"):
        job(docs, out, parts=True).run()


def test_parts_of_an_interrupted_pipe_do_not_mix_with_those_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "tags.jsonl"

    def piped(lines: list[str], **more: Any) -> TagReport:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
        return job(Path("-"), out, parts=True, **more).run()

    done: list[int] = []

    def stop(n: int) -> None:
        done.append(n)
        if sum(done) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        piped(LINES, progress=stop)
    assert len(list(out.iterdir())) == 3
    (out / "part-of-mine.txt").write_text("stays")
    piped([json.dumps({"id": "other", "text": "fisheries"})])
    assert [path.name for path in sorted(out.iterdir())] == ["part-00000.jsonl", "part-of-mine.txt"]
    assert tagged(out / "part-00000.jsonl") == ["other"]


def test_parts_and_files_do_not_overwrite_each_other(tmp_path: Path) -> None:
    docs, out = write(tmp_path, LINES), tmp_path / "tags.jsonl"
    job(docs, out).run()
    with pytest.raises(InputError, match="is no folder"):
        job(docs, out, parts=True).run()
    (tmp_path / "mine.jsonl").mkdir()
    (tmp_path / "mine.jsonl" / "part-00000.jsonl").write_text("mine")
    with pytest.raises(InputError, match="no tagging run wrote it"):
        job(docs, tmp_path / "mine.jsonl", parts=True).run()
    with pytest.raises(SettingError, match=r"tag\.parts=true"):
        job(docs, "-", parts=True).run()


def test_an_output_among_the_documents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    write(tmp_path / "docs", LINES)
    with pytest.raises(InputError, match="lies in the folder of documents"):
        job(tmp_path / "docs", tmp_path / "docs" / "tags.jsonl").run()


@pytest.mark.parametrize(
    ("pattern", "out", "named"),
    [
        ("*.jsonl", "tags.jsonl", "tags.jsonl"),
        ("*.jsonl", "tags.csv", "tags.csv.quarantine.jsonl"),
        ("*.json*", "tags.csv", "tags.csv.run.json"),
        ("**/*.csv", "tags.csv", "tags.csv"),
    ],
)
def test_an_output_that_a_pattern_of_documents_matches_is_refused(
    tmp_path: Path, pattern: str, out: str, named: str
) -> None:
    write(tmp_path, LINES)
    write(tmp_path, ["id,text", "d8,fisheries"], "more.csv")
    for parts in (False, True):
        with pytest.raises(InputError, match=f"/{named}: would be among the documents of "):
            job(tmp_path / pattern, tmp_path / out, parts=parts).run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs.jsonl", "more.csv"]
    job(tmp_path / "*.csv", tmp_path / "tags.jsonl").run()


def test_a_report_counts_what_is_empty(tmp_path: Path) -> None:
    docs = write(tmp_path, [*LINES[:2], '{"id": "e", "text": ""}', '{"id": "n", "text": "nothing"}'])
    report: TagReport = job(docs, tmp_path / "tags.jsonl").run()
    assert ": 4 documents (2 tagged, 2 empty), 2 suggestions, " in report.lines()[0]


def test_a_shard_of_one_bad_document_does_not_hold_up_the_output(tmp_path: Path) -> None:
    docs, out = (
        write(tmp_path, [*LINES[:2], json.dumps({"id": "p", "text": "poison"})]),
        tmp_path / "tags.jsonl",
    )
    assert job(docs, out).run().n_quarantined == 1
    assert tagged(out) == ["d0", "d1"]
    write(tmp_path, [json.dumps({"id": "p", "text": "poison"})])
    with pytest.raises(ShardsFailedError, match="1 of 1 shards failed"):
        job(docs, tmp_path / "none.jsonl").run()


def test_a_file_that_lands_in_the_folder_later_is_not_taken_for_tagged(tmp_path: Path) -> None:
    folder, out = tmp_path / "docs", tmp_path / "tags.jsonl"
    folder.mkdir()
    write(folder, LINES[:2], "a.jsonl")
    begun = job(folder, out)
    write(folder, LINES[2:], "b.jsonl")
    begun.run()
    assert tagged(out) == ["d0", "d1"]
    with pytest.raises(InputError, match="made otherwise: the content of"):
        job(folder, out).run()


def test_a_shard_of_faults_only_needs_no_tagger(tmp_path: Path) -> None:
    class Full(Breaking):
        def encode(self, batch: DocumentBatch) -> list[set[str]]:
            if not len(batch):
                raise ValueError("no document")
            return super().encode(batch)

    docs, out = write(tmp_path, [*LINES[:2], *["{no JSON"] * 5, *LINES[2:4]]), tmp_path / "tags.jsonl"
    report = job(docs, out, Full(LABELS)).run()
    assert (tagged(out), report.n_quarantined) == (["d0", "d1", "d2", "d3"], 5)


def test_a_failure_says_what_is_left_of_the_other_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*LINES[:2], *(json.dumps({"id": f"p{i}", "text": "poison"}) for i in range(2)), *LINES[2:]]
    docs = write(tmp_path, lines)
    with pytest.raises(ShardsFailedError, match="the others are kept: the same command tries these again"):
        job(docs, tmp_path / "tags.jsonl").run()
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, write_through=True))
    with pytest.raises(ShardsFailedError, match="what was written before stands"):
        job(docs, "-").run()
    assert [json.loads(line)["id"] for line in raw.getvalue().splitlines()] == ["d0", "d1"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(docs.open("rb")))
    with pytest.raises(ShardsFailedError, match="cannot be read again: the same command begins anew"):
        job(Path("-"), tmp_path / "piped.jsonl").run()
