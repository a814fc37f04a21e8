from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data import label_builder
from xmc.data.labels import LabelSet
from xmc.data.options import ReadReport
from xmc.data.records import Label
from xmc.errors import ArtifactError, InputError

IDS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)


def label_set(*records: Label) -> LabelSet:
    return LabelSet.from_records(records)


def four() -> LabelSet:
    return label_set(
        Label("L1", "air transport", ("aviation", "flying"), "by air", ("L4",)),
        Label("L2", "fisheries", retired=True),
        Label("L3", "", ("قانون",)),
        Label("L4", "budget, annual"),
    )


def test_a_label_has_a_row_and_its_fields():
    labels = four()
    assert len(labels) == 4
    assert (labels.id(3), labels.text(3)) == ("L4", "budget, annual")
    assert labels.alts[0].as_py() == ["aviation", "flying"]
    assert labels.descriptions.to_pylist() == ["by air", "", "", ""]
    assert labels.broader.to_pylist() == [["L4"], [], [], []]
    assert labels.retired.tolist() == [False, True, False, False]


def test_rows_of_ids_and_of_unknown_ones():
    rows = four().rows(["L4", "L77", "L1", "L1", "", "\ud800"])
    assert rows.dtype == np.int64
    assert rows.tolist() == [3, -1, 0, 0, -1, -1]
    assert four().rows([]).tolist() == []
    assert label_set().rows(["L1"]).tolist() == [-1]


@given(st.lists(IDS, unique=True), st.lists(IDS))
def test_every_id_finds_its_row(ids: list[str], others: list[str]):
    labels = label_set(*(Label(i, i) for i in ids))
    assert labels.rows(ids).tolist() == list(range(len(ids)))
    assert labels.rows(others).tolist() == [ids.index(i) if i in ids else -1 for i in others]


def test_ids_of_the_same_hash_are_told_apart(monkeypatch):
    monkeypatch.setattr("xmc.data.labels.hashes", lambda ids: np.zeros(len(ids), dtype=np.int64))
    monkeypatch.setattr(label_builder, "hashes", lambda ids: np.zeros(len(ids), dtype=np.int64))
    assert four().rows(["L4", "L77", "L1", "L3"]).tolist() == [3, -1, 0, 2]


def test_names_are_texts_then_other_names():
    names, starts = four().names()
    assert names.to_pylist() == [
        "air transport",
        "aviation",
        "flying",
        "fisheries",
        "قانون",
        "budget, annual",
    ]
    assert starts.tolist() == [0, 3, 4, 5, 6]
    names, starts = label_set().names()
    assert (len(names), starts.tolist()) == (0, [0])


def test_take_and_extend_keep_order():
    taken = four().take(np.array([3, 0]))
    assert taken.ids.to_pylist() == ["L4", "L1"]
    longer = taken.extended(label_set(Label("L5", "space law")))
    assert longer.ids.to_pylist() == ["L4", "L1", "L5"]
    assert longer.rows(["L5", "L4"]).tolist() == [2, 0]
    with pytest.raises(InputError, match="already in the vocabulary: 'L1'"):
        longer.extended(label_set(Label("L6", "x"), Label("L1", "y")))


def test_blocks_join_up(monkeypatch):
    monkeypatch.setattr(label_builder, "BLOCK", 3)
    labels = label_set(*(Label(f"L{n}", f"text {n}", (f"name {n}",) * (n % 2)) for n in range(10)))
    assert labels.ids.to_pylist() == [f"L{n}" for n in range(10)]
    assert labels.names()[1][-1] == 15


def test_the_same_label_twice_is_one_and_counted():
    report = ReadReport()
    records = [
        Label("L1", "air transport", ("aviation",), place="a:1"),
        Label("L2", "ships", place="a:2"),
        Label("L1", "air transport", ("flying",), "by air", place="a:3"),
    ]
    labels = LabelSet.from_records(records, report)
    assert labels.ids.to_pylist() == ["L1", "L2"]
    assert labels.alts[0].as_py() == ["aviation", "flying"]
    assert labels.descriptions[0].as_py() == "by air"
    assert report.lines() == ["1 label stood twice and was merged (L1)"]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Label("L1", "air", place="a:1"), Label("L1", "ships", place="a:9"), "text: a:1 'air', a:9 'ships'"),
        (Label("L1", "x", description="p"), Label("L1", "x", description="q"), "description"),
        (Label("L1", "x"), Label("L1", "x", retired=True), "retired"),
    ],
)
def test_two_labels_of_one_id_are_refused_with_both_places(first: Label, second: Label, message: str):
    with pytest.raises(InputError, match=f"label id 'L1' stands twice with different {message}"):
        label_set(first, Label("L2", "y"), second)


@pytest.mark.parametrize("bad", ["", "a\nb", "\ud800"])
def test_an_id_that_cannot_be_one_is_refused(bad: str):
    with pytest.raises(InputError, match=r"^a:2: "):
        label_set(Label("L1", "x", place="a:1"), Label(bad, "x", place="a:2"))


def test_what_is_odd_is_counted_and_kept():
    report = ReadReport()
    records = [
        Label("L1", "fish\x00eries", ("\ud800", "", "b", "b"), broader=("L2", "L9"), place="a:1"),
        Label("L2", "\u200b", place="a:2"),
    ]
    labels = LabelSet.from_records(records, report)
    assert labels.texts.to_pylist() == ["fish eries", "\u200b"]
    assert labels.alts[0].as_py() == ["\ufffd", "b"]
    assert report.lines() == [
        "1 label had no text (L2)",
        "1 label had control characters (L1)",
        "1 label had half a surrogate pair (L1)",
        "1 broader id was not in the vocabulary (L9)",
    ]


@given(st.lists(st.builds(Label, IDS, st.text(), st.tuples(st.text()), st.text()), unique_by=lambda r: r.id))
def test_saved_labels_load_the_same(tmp_path_factory, records: list[Label]):
    path = tmp_path_factory.mktemp("t") / "labels.arrow"
    labels = LabelSet.from_records(records)
    labels.save(path)
    assert LabelSet.load(path).table.equals(labels.table)
    again = path.with_name("again.arrow")
    LabelSet.load(path).save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("content", [b"", b"ARROW1", b"x" * 1000])
def test_what_is_no_label_file_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "labels.arrow"
    path.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"labels\.arrow: not a readable label file"):
        LabelSet.load(path)


def test_a_truncated_label_file_is_refused(tmp_path: Path):
    path = tmp_path / "labels.arrow"
    four().save(path)
    whole = path.read_bytes()
    for n in range(0, len(whole), 97):
        path.write_bytes(whole[:n])
        with pytest.raises(ArtifactError):
            LabelSet.load(path)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"id": ["a"]}), "columns are"),
        (four().table.drop_columns("retired"), "columns are"),
        (pa.concat_tables([four().table, four().table]), "stands twice"),
        (pa.Table.from_pylist([{"id": "a"}], label_builder.TABLE_SCHEMA), "empty field"),
    ],
)
def test_a_label_file_of_other_content_is_refused(tmp_path: Path, table: pa.Table, message: str):
    path = tmp_path / "labels.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ArtifactError, match=message):
        LabelSet.load(path)


def test_replaced_labels_keep_id_and_row():
    new = label_set(Label("x", "fishing", ("angling",), "by rod", ("L1",)), Label("y", "law", retired=True))
    labels = four().replaced(np.array([1, 2]), new)
    assert labels.ids.to_pylist() == ["L1", "L2", "L3", "L4"]
    assert labels.texts.to_pylist() == ["air transport", "fishing", "law", "budget, annual"]
    assert labels.alts.to_pylist() == [["aviation", "flying"], ["angling"], [], []]
    assert labels.broader.to_pylist() == [["L4"], ["L1"], [], []]
    assert labels.retired.tolist() == [False, True, True, False]  # L2 was, y is marked so
    assert four().replaced(np.zeros(0, int), four().take(np.zeros(0, int))).table.equals(four().table)


def test_labels_retired_and_restored(tmp_path: Path):
    labels = four().with_retired(np.array([True, False, False, True]))
    assert labels.retired.tolist() == [True, False, False, True]
    assert labels.texts.to_pylist() == four().texts.to_pylist()
    labels.save(tmp_path / "labels.arrow")
    assert LabelSet.load(tmp_path / "labels.arrow").retired.tolist() == [True, False, False, True]


def test_broader_labels_may_be_among_the_known_ones():
    records = [Label("N1", "tuna", broader=("L2", "N2")), Label("N2", "fish", broader=("Z",))]
    report = ReadReport()
    LabelSet.from_records(records, report, four())
    assert report.counts == {"broader ids were not in the vocabulary": 1}
    report = ReadReport()
    LabelSet.from_records(records, report)
    assert report.counts == {"broader ids were not in the vocabulary": 2}
