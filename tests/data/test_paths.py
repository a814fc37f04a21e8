"""Patterns and folders of document files."""

from __future__ import annotations

import glob
import json
from pathlib import Path

import pytest

from xmc.data.corpus import Corpus
from xmc.data.options import ReadReport
from xmc.data.paths import NOT_READ, would_match
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


def test_a_text_among_documents_makes_no_folder_of_full_texts(tmp_path: Path) -> None:
    for i in ("a", "b"):
        write(tmp_path / f"{i}.jsonl", i)
    (tmp_path / "README.txt").write_text("How these were made")
    report = ReadReport()
    assert ids(tmp_path, report=report) == ["a", "b"]
    assert report.lines() == [
        f"1 file in folders had no suffix of a document format and was not read ({tmp_path}/README.txt)"
    ]


def test_a_text_above_documents_makes_no_folder_of_full_texts(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("How these were made")
    write(tmp_path / "2001" / "a.jsonl", "a")
    assert ids(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["meta.json", "state.json", "dataset_info.json"])
def test_a_stray_object_among_documents_is_told_and_hides_none(tmp_path: Path, name: str) -> None:
    write(tmp_path / "a.jsonl", "a")
    (tmp_path / name).write_text('{"source": 1}')
    write(tmp_path / "z.jsonl", "z")
    (batch,) = Corpus([tmp_path], keep_faults=True).batches()
    assert (batch.ids, [fault.place for fault in batch.faults]) == (["a", "z"], [f"{tmp_path}/{name}:1"])


def test_records_in_json_files_keep_their_ids_and_labels(tmp_path: Path) -> None:
    for i in ("a", "b"):
        (tmp_path / f"{i}.json").write_text(json.dumps({"id": i.upper(), "title": "t", "labels": [f"L{i}"]}))
    (tmp_path / "c.jsonl").write_text('{"id": "C", "text": "t", "labels": []}\n')
    (batch,) = Corpus([tmp_path]).batches()
    assert (batch.ids, batch.labels) == (["A", "B", "C"], [["La"], ["Lb"], []])


def test_the_format_of_a_folder_of_many_files_does_not_follow_from_their_order(tmp_path: Path) -> None:
    for i in range(1100):
        (tmp_path / f"{i:04}.txt").touch()
    write(tmp_path / "a.jsonl", "a")
    report = ReadReport()
    assert ids(tmp_path, report=report) == ["a"]
    assert report.counts == {NOT_READ: 1100}


def test_what_lies_beside_and_below_the_files_of_a_folders_format_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("full text")
    (tmp_path / "a.tsv").write_text("<http://u/1>\tships\n")
    (tmp_path / "notes.md").write_text("not a document")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.txt").write_text("full text")
    report = ReadReport()
    assert ids(tmp_path, report=report) == ["a"]
    told = "2 files in folders read as Annif corpus were not read"
    assert report.lines() == [f"{told} ({tmp_path}/notes.md, {tmp_path}/more/b.txt)"]


def test_a_table_that_is_no_subject_file_is_read_beside_full_texts(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("How these were made")
    (tmp_path / "docs.tsv").write_text("id\ttext\nd1\tships\n")
    assert ids(tmp_path) == ["d1"]


@pytest.mark.parametrize("pattern", ["{}/**", "{}/*", "{}/**/*.jsonl"])
def test_no_file_is_read_twice(tmp_path: Path, pattern: str) -> None:
    write(tmp_path / "a.jsonl", "a")
    write(tmp_path / "sub" / "b.jsonl", "b")
    (tmp_path / "sub" / "notes.md").write_text("not a document")
    (tmp_path / "c.jsonl").symlink_to(tmp_path / "a.jsonl")
    (tmp_path / "round").symlink_to(tmp_path)
    pattern = pattern.format(tmp_path)
    assert ids(pattern) == ["a", "b"]
    assert ids(pattern, tmp_path) == ["a", "b"]
    assert ids(tmp_path, pattern, tmp_path / "sub") == ["a", "b"]


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("*.jsonl", "tags.jsonl", True),
        ("*.jsonl", "tags.csv", False),
        ("*.jsonl", "sub/tags.jsonl", False),
        ("*.jsonl", ".tags.jsonl", False),
        (".t*", ".tags.jsonl", True),
        ("*", "sub/deep/tags.csv", True),
        ("s?b/*", "sub/tags.csv", True),
        ("**/*.jsonl", "tags.jsonl", True),
        ("**/*.jsonl", "sub/deep/tags.jsonl", True),
        ("**/*.jsonl", "sub/.deep/tags.jsonl", False),
        ("**/deep/*", "sub/tags.jsonl", False),
        ("sub/**", "sub/deep/tags.csv", True),
        ("sub/../*.[jk]*", "tags.jsonl", True),
        ("*/../tags.jsonl", "tags.jsonl", True),
    ],
)
def test_what_a_pattern_would_match(tmp_path: Path, pattern: str, name: str, expected: bool) -> None:
    path = tmp_path / name
    assert would_match(f"{tmp_path}/{pattern}", path) is expected
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    (tmp_path / "sub").mkdir(exist_ok=True)
    found = {Path(each).resolve() for each in glob.glob(f"{tmp_path}/{pattern}", recursive=True)}
    assert bool(found & {path, *path.parents[: len(path.relative_to(tmp_path).parts) - 1]}) is expected
    (tmp_path.parent / f"{tmp_path.name}-link").symlink_to(tmp_path)
    assert would_match(f"{tmp_path}-link/{pattern}", path) is expected


def test_a_file_given_twice_is_counted_and_read_as_the_first(tmp_path: Path) -> None:
    one, report = write(tmp_path / "a.jsonl", "a"), ReadReport()
    corpus = Corpus([one, tmp_path, one], report=report)
    assert [batch.ids for batch in corpus.batches()] == [["a"]]
    assert corpus.n_docs == [1, 0, 0]
    assert report.lines() == [f"2 files were given twice and read once ({one}, {one})"]


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
