"""Arrow files and the folders that Hugging Face ``datasets`` saves."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xmc.data.corpus import Corpus
from xmc.errors import InputError

TABLES = [
    {"id": [1, 2], "text": ["air", None], "labels": [[5], []]},
    {"id": [3], "text": ["sea"], "labels": [[7]]},
]


def stream(path: Path, columns: dict[str, list[Any]] | pa.Table) -> Path:
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def saved(folder: Path) -> Path:
    """A folder as ``Dataset.save_to_disk`` leaves it."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05}-of-{len(TABLES):05}.arrow" for i in range(len(TABLES))]
    for name, columns in zip(names, TABLES, strict=True):
        stream(folder / name, columns)
    (folder / "dataset_info.json").write_text('{"features": {}}')
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def read(path: Path) -> list[tuple[str, str, list[str]]]:
    return [
        row
        for batch in Corpus([path]).batches()
        for row in zip(batch.ids, batch.texts or [], batch.labels or [], strict=True)
    ]


def test_a_saved_data_set_is_read_in_the_order_of_its_state(tmp_path: Path) -> None:
    assert read(saved(tmp_path / "set")) == [("1", "air", ["5"]), ("2", "", []), ("3", "sea", ["7"])]


def test_files_and_streams_are_told_apart(tmp_path: Path) -> None:
    table = pa.table({"text": ["air", "sea"]})
    with pa.OSFile(str(tmp_path / "file.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    stream(tmp_path / "stream.arrow", {"text": ["air", "sea"]})
    for name in ("file.arrow", "stream.arrow"):
        texts = [text for batch in Corpus([tmp_path / name]).batches() for text in batch.texts or []]
        assert texts == ["air", "sea"]


def test_a_set_of_splits_names_them(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        saved(tmp_path / split)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "dev"]}')
    with pytest.raises(InputError, match=r"holds the splits dev, train; give one of them, such as .*dev"):
        read(tmp_path)


def test_a_damaged_file_is_named_with_the_row(tmp_path: Path) -> None:
    path = stream(tmp_path / "x.arrow", {"text": ["a text of some length"] * 50})
    path.write_bytes(path.read_bytes()[:-900])
    with pytest.raises(InputError, match=r"x\.arrow: damaged Arrow file after row 0"):
        read(path)


@pytest.mark.parametrize("shift", [1 << 30, -40])
@pytest.mark.parametrize("name", ["text", "labels"])
def test_offsets_that_lead_outside_the_data_are_damage(tmp_path: Path, name: str, shift: int) -> None:
    columns = {"text": [f"text {i:02}" for i in range(50)], "labels": [[f"L{i:02}"] for i in range(50)]}
    path = stream(tmp_path / "x.arrow", {name: columns[name], "title": ["a name"] * 50})
    each = 7 if name == "text" else 3
    offsets = struct.pack("<5i", *(each * i for i in range(5)))
    damaged = struct.pack("<5i", 0, each, 2 * each + shift, 3 * each, 4 * each)
    content = path.read_bytes()
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, damaged))
    with pytest.raises(InputError, match=r"x\.arrow: damaged Arrow file after row 0: .*[Oo]ffset"):
        read(path)


def test_what_is_no_utf8_is_the_fault_of_its_row(tmp_path: Path) -> None:
    texts = pa.array([b"air", b"\xe9", None, b"sea", "\u00e9".encode()]).view(pa.string())
    lists = pa.array([[b"L1"], [], [b"L2"], [b"\xff"], None])
    labels = pa.ListArray.from_arrays(lists.offsets, lists.values.view(pa.string()), mask=lists.is_null())
    table = pa.table({"title": texts.dictionary_encode(), "text": texts, "labels": labels})
    stream(tmp_path / "x.arrow", table)
    pq.write_table(table, tmp_path / "x.parquet")
    for path in (tmp_path / "x.arrow", tmp_path / "x.parquet"):
        (batch,) = Corpus([path], keep_faults=True).batches()
        assert (batch.texts, batch.labels) == (["air", "", "\u00e9"], [["L1"], ["L2"], []])
        assert [str(fault.error) for fault in batch.faults] == [
            f"{path}:2: text is bytes instead of UTF-8 text; a string was wanted",
            f"{path}:4: an item of labels is bytes instead of UTF-8 text; a string was wanted",
        ]


def test_columns_of_other_types_are_told(tmp_path: Path) -> None:
    table = pa.table({"id": ["d1", "d2"], "text": ["air", "sea"], "labels": [{"id": 1}, None]})
    pq.write_table(table, tmp_path / "x.parquet")
    for path in (stream(tmp_path / "x.arrow", table), tmp_path / "x.parquet"):
        (batch,) = Corpus([path], keep_faults=True).batches()
        assert batch.ids == ["d2"]
        (fault,) = batch.faults
        assert str(fault.error) == f"{path}:1: labels is an object; a list of strings was wanted"
    beyond = pa.table({"text": pa.array([1 << 62], pa.timestamp("s"))})
    with pytest.raises(InputError, match=r"y\.arrow: damaged Arrow file after row 0: "):
        read(stream(tmp_path / "y.arrow", beyond))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ('{"_data_files": [{"filename": "../../etc/passwd"}]}', "names the file '../../etc/passwd'"),
        ('{"_data_files": [{"filename": ".."}]}', r"names the file '\.\.'"),
        ('{"_data_files": [{"filename": 3}]}', "names the file 3; files beside it were wanted"),
        ('{"_data_files": [{"filename": ""}]}', "names the file ''"),
        ('{"_data_files": 3}', "wanted the state of a saved data set"),
        ("[" * 100_000, "wanted the state of a saved data set"),
        ('{"_data_files": [{"filename": "gone.arrow"}]}', r"gone\.arrow: no such file"),
        ('{"_data_files": [], "_indices_data_files": [{"filename": "i.arrow"}]}', "file of indices"),
    ],
)
def test_an_odd_state_is_refused(tmp_path: Path, state: str, message: str) -> None:
    folder = saved(tmp_path / "set")
    (folder / "state.json").write_text(state)
    with pytest.raises(InputError, match=message):
        read(folder)
