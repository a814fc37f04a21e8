from __future__ import annotations

import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data import parquet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Label, raising
from xmc.errors import InputError

IDS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)
TEXTS = st.text(st.characters(codec="utf-8"))


def documents(path, **options) -> list[Document]:
    return list(raising(parquet.read_documents(path, ReadOptions(**options), ReadReport())))


def labels(path, **options) -> list[Label]:
    return list(parquet.read_labels(path, ReadOptions(**options), ReadReport()))


def saved(path: Path, columns: dict) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


@given(st.lists(st.tuples(IDS, TEXTS, st.lists(IDS))))
def test_any_documents_survive(tmp_path_factory, rows: list[tuple]):
    names = ("id", "text", "labels")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    kinds = (pa.string(), pa.string(), pa.list_(pa.string()))
    arrays = {name: pa.array(columns[name], kind) for name, kind in zip(names, kinds, strict=True)}
    path = saved(tmp_path_factory.mktemp("t") / "docs.parquet", arrays)
    assert [tuple(d)[:3] for d in documents(path)] == rows


def test_columns_of_other_types(tmp_path: Path):
    path = saved(
        tmp_path / "docs.parquet",
        {
            "Id": [1, 2, 3],
            "title": pa.array(["a", None, "a"]).dictionary_encode(),
            "text": [None, "b", ""],
            "labels": [[10, 11], [], None],
            "other": [{"x": 1}] * 3,
        },
    )
    assert documents(path) == [
        Document("1", "a", ["10", "11"], f"{path}:1"),
        Document("2", "b", [], f"{path}:2"),
        Document("3", "a", None, f"{path}:3"),
    ]


def test_labels_have_all_their_fields(tmp_path: Path):
    path = saved(
        tmp_path / "l.parquet",
        {"id": ["L1", "L2"], "text": ["a", None], "alt": [["x"], None], "broader": ["L2|L3", '["L|4"]'],
         "retired": [True, None]},
    )  # fmt: skip
    assert labels(path) == [
        Label("L1", "a", ("x",), "", ("L2", "L3"), True, f"{path}:1"),
        Label("L2", "", (), "", ("L|4",), False, f"{path}:2"),
    ]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [14.1], "text": ["x"]}, r":1: id is the number 14\.1"),
        ({"id": ["d1"], "text": [123]}, r":1: text is the number 123; .*`coerce=true`"),
        ({"id": ["d1"], "body": ["x"]}, "the columns are id, body; one named text or title was wanted"),
        ({"id": ["d1"], "text": [b"x"]}, ":1: text is bytes"),
        ({"id": ["d1"], "text": ["x"], "labels": [["a", None]]}, ":1: a null stands in labels"),
        ({"id": ["d1"], "text": ["x"], "labels": [[["a"]]]}, ":1: an item of labels is a list"),
        ({"id": ["d1"], "text": ["x"], "labels": [5]}, ":1: labels is of type int"),
        ({"id": ["d1", None], "text": ["x", "y"]}, ":2: a document has no id"),
    ],
)
def test_a_bad_value_is_refused_by_its_row(tmp_path: Path, columns: dict, message: str):
    with pytest.raises(InputError, match=r"docs\.parquet:? ?" + message.removeprefix(":")):
        documents(saved(tmp_path / "docs.parquet", columns))


def test_an_empty_column_of_numbers_is_no_text(tmp_path: Path):
    path = saved(tmp_path / "docs.parquet", {"id": ["d1"], "text": [float("nan")]})
    assert documents(path)[0].text == ""


def test_numbers_are_coerced(tmp_path: Path):
    path = saved(tmp_path / "docs.parquet", {"id": [1.5], "text": [123]})
    assert tuple(documents(path, coerce=True)[0])[:2] == ("1.5", "123")


def test_a_damaged_file_is_refused(tmp_path: Path):
    path = saved(tmp_path / "docs.parquet", {"id": [f"d{n}" for n in range(1000)], "text": ["x"] * 1000})
    whole = path.read_bytes()
    for content in (whole[:-20], whole[:100], b"PAR1", whole[:4] + bytes(2000) + whole[2004:]):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"docs\.parquet: damaged Parquet file"):
            documents(path)


def test_standard_input_is_read(tmp_path: Path, monkeypatch):
    path = saved(tmp_path / "docs.parquet", {"id": ["d1"], "text": ["x"]})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert documents(Path("-")) == [Document("d1", "x", None, "-:1")]
