from __future__ import annotations

from pathlib import Path

import pytest

from xmc.data.id_lists import is_id_list, label_ids, label_rows
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Label
from xmc.errors import InputError

LABELS = LabelSet.from_records([Label("L1", "air"), Label("a b", "fish"), Label("4", "law")])


@pytest.mark.parametrize(
    ("name", "content", "is_list"),
    [
        ("ids.txt", "L1\r\n\na b\n", True),
        ("ids", "{1}\n4\n", True),
        ("labels.tsv", "L1\tair\n", False),
        ("labels.jsonl", '{"id": "L1", "text": "air"}\n', False),
        ("labels.csv", "id,text\nL1,air\n", False),
    ],
)
def test_what_is_a_list_of_ids(tmp_path: Path, name: str, content: str, is_list: bool):
    (tmp_path / name).write_text(content, newline="")
    assert is_id_list(tmp_path / name, ReadOptions()) == is_list


def test_ids_of_a_list_and_of_a_label_file(tmp_path: Path):
    (tmp_path / "ids.txt").write_bytes(b"\xef\xbb\xbfL1\r\n\r\na b\r\n")
    (tmp_path / "labels.tsv").write_text("4\tlaw\nL1\tair\n")
    assert list(label_ids(tmp_path / "ids.txt", ReadOptions(), ReadReport())) == ["L1", "a b"]
    assert label_rows(LABELS, tmp_path / "labels.tsv", ReadOptions(), ReadReport()).tolist() == [2, 0]


def test_unknown_ids_are_refused_or_counted(tmp_path: Path):
    path, report = tmp_path / "ids.txt", ReadReport()
    path.write_text("L1\nL9\n")
    with pytest.raises(InputError, match=r"1 of 2 label ids are not in the model: 'L9'"):
        label_rows(LABELS, path, ReadOptions(), report)
    assert label_rows(LABELS, path, ReadOptions(on_unknown_label="skip"), report).tolist() == [0]
    assert list(report.counts.values()) == [1]
