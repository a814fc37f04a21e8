from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Label
from xmc.errors import InputError
from xmc.tag.subset import allowed_labels


@pytest.fixture
def labels() -> LabelSet:
    names = ["L1", "L2", "a b", "4", "old"]
    return LabelSet.from_records([Label(n, f"text of {n}", retired=n == "old") for n in names])


def file(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_bytes(content.encode())
    return path


def test_neither_file_allows_all(labels: LabelSet) -> None:
    assert allowed_labels(labels) is None


def test_only_without_and_both(labels: LabelSet, tmp_path: Path) -> None:
    only = file(tmp_path, "only.txt", "L1\na b\n4\n")
    without = file(tmp_path, "except.txt", "4\r\nL2\r\n")
    assert allowed_labels(labels, only).tolist() == [True, False, True, True, False]
    assert allowed_labels(labels, None, without).tolist() == [True, False, True, False, True]
    assert allowed_labels(labels, only, without).tolist() == [True, False, True, False, False]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ids.txt", "\ufeffL1\n\n4\n"),
        ("ids", "L1\n4"),
        ("ids.tsv", "L1\n4\n"),
        ("labels.tsv", "L1\tair\n4\tfour\n"),
        ("labels.csv", "id,text\nL1,air\n4,four\n"),
        ("labels.jsonl", '{"id": "L1", "text": "air"}\n{"id": "4", "text": "four"}\n'),
        ("labels.txt", '{"id": "L1", "text": "air"}\n{"id": "4", "text": "four"}\n'),
    ],
)
def test_label_files_and_lists_of_ids(labels: LabelSet, tmp_path: Path, name: str, content: str) -> None:
    path = file(tmp_path, name, content)
    assert allowed_labels(labels, path).tolist() == [True, False, False, True, False]


def test_a_compressed_list(labels: LabelSet, tmp_path: Path) -> None:
    path = tmp_path / "ids.txt.gz"
    path.write_bytes(gzip.compress(b"L1\n"))
    assert allowed_labels(labels, path).sum() == 1


def test_unknown_ids(labels: LabelSet, tmp_path: Path) -> None:
    path = file(tmp_path, "only.txt", "L1\nL77\nL 78\n")
    told = "only.txt: 2 of 3 label ids are not in the model: 'L77', 'L 78'; .* on_unknown_label=skip"
    with pytest.raises(InputError, match=told):
        allowed_labels(labels, path)
    report = ReadReport()
    skip = ReadOptions(on_unknown_label="skip")
    assert allowed_labels(labels, path, options=skip, report=report).sum() == 1
    assert list(report.counts.values()) == [2]
    assert "L77" in report.lines()[0]


@pytest.mark.parametrize("only", ["", "old\n", "L1\n"])
def test_nothing_left(labels: LabelSet, tmp_path: Path, only: str) -> None:
    path, without = file(tmp_path, "only.txt", only), file(tmp_path, "except.txt", "L1\n")
    with pytest.raises(InputError, match=r"only.txt and .*except.txt: no label is left"):
        allowed_labels(labels, path, without)


def test_a_missing_file(labels: LabelSet, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.txt: no such file"):
        allowed_labels(labels, tmp_path / "none.txt")
