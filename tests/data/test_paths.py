"""Patterns and folders of document files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xmc.data.corpus import Corpus
from xmc.data.options import ReadReport
from xmc.errors import InputError


def write(path: Path, *ids: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"id": i, "text": f"text {i}"}) + "\n" for i in ids))
    return path


def ids(*paths: str | Path, report: ReadReport | None = None) -> list[str]:
    corpus = Corpus(paths, report=report)
    return [doc_id for batch in corpus.batches() for doc_id in batch.ids]


def test_a_pattern_stands_for_what_matches_in_order_of_names(tmp_path: Path) -> None:
    for name, i in (("b.jsonl", "b"), ("a.jsonl", "a"), ("sub/c.jsonl", "c"), ("d.csv", "d")):
        write(tmp_path / name, i)
    assert ids(f"{tmp_path}/*.jsonl") == ["a", "b"]
    assert ids(f"{tmp_path}/**/*.jsonl") == ["a", "b", "c"]
    with pytest.raises(InputError, match="no file matches this pattern"):
        ids(f"{tmp_path}/*.xml")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path: Path) -> None:
    write(tmp_path / "a[1].jsonl", "bracketed")
    write(tmp_path / "a1.jsonl", "plain")
    assert ids(tmp_path / "a[1].jsonl") == ["bracketed"]


def test_a_folder_stands_for_its_document_files_and_those_below(tmp_path: Path) -> None:
    write(tmp_path / "2.jsonl", "two")
    write(tmp_path / "10.jsonl", "ten")
    write(tmp_path / "sub" / "1.jsonl", "one")
    write(tmp_path / ".hidden.jsonl", "hidden")
    write(tmp_path / "_temporary" / "3.jsonl", "unfinished")
    (tmp_path / "notes.md").write_text("not a document")
    (tmp_path / "round").symlink_to(tmp_path)
    report = ReadReport()
    assert ids(tmp_path, report=report) == ["ten", "two", "one"]
    assert report.lines() == [
        f"1 file in folders had no suffix of a document format and was not read ({tmp_path}/notes.md)"
    ]


def test_a_folder_below_may_have_a_format_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", "a")
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "b.txt").write_text("full text")
    assert ids(tmp_path) == ["a", "b"]


def test_a_folder_of_json_files_of_one_record_each(tmp_path: Path) -> None:
    for i in ("a", "b"):
        (tmp_path / f"{i}.json").write_text(json.dumps({"id": i, "text": "a text"}, indent=1))
    assert ids(tmp_path) == ["a", "b"]


def test_a_folder_without_documents_says_what_it_holds(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the folder is empty; wanted files of documents"):
        ids(tmp_path)
    (tmp_path / "notes.md").write_text("nothing")
    with pytest.raises(InputError, match=r"the folder holds notes\.md; wanted files of documents"):
        ids(tmp_path)


def test_documents_are_counted_by_what_was_given(tmp_path: Path) -> None:
    write(tmp_path / "many" / "a.jsonl", "a", "b")
    write(tmp_path / "many" / "c.jsonl", "c")
    corpus = Corpus([tmp_path / "many", write(tmp_path / "one.jsonl", "d")])
    assert sum(len(batch) for batch in corpus.batches()) == 4
    assert corpus.n_docs == [3, 1]
