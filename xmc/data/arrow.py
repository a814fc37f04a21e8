"""Arrow files, and the folders of them that Hugging Face ``datasets`` writes with ``save_to_disk``.

Columns are named as in Parquet files; others are not read. Such a folder lists its files in ``state.json``.
Files are mapped, so that no more than a block of rows is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from xmc.data import fields
from xmc.data.files import open_seekable
from xmc.data.folders import Folder
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.parquet import TEXT_FIELDS, UNREADABLE, columns_of, documents, reason_of, rows
from xmc.data.records import Document, Fault
from xmc.data.text import shorten
from xmc.errors import InputError, place

STATE = "state.json"
SPLITS = "dataset_dict.json"
INFO = "dataset_info.json"
MAGIC = b"ARROW1"  # of a file; a stream begins with the mark of its first message


def read_documents(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Document | Fault]:
    """Documents of every row; the place is ``file:row``, from 1 in each file."""
    return documents((row for file in _files(path) for row in _rows(file)), options)


def folder_files(folder: Folder, _options: ReadOptions) -> set[str]:
    """The files of a saved data set, or of one with splits; also caches that lie beside."""
    if not {STATE, SPLITS}.intersection(folder.files):
        return set()
    return {name for name in folder.files if name in (STATE, SPLITS, INFO) or name.endswith(".arrow")}


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / SPLITS).is_file():
        splits = sorted(found.parent.name for found in path.glob(f"*/{STATE}"))
        named = f"holds the splits {', '.join(splits)}; give one of them, such as {path / splits[0]}"
        raise InputError(f"{path}: {named if splits else f'{SPLITS} without a split beside it'}")
    return _named_in(path / STATE)


def _named_in(state: Path) -> list[Path]:
    """The data files that ``state.json`` names, none of them outside its folder."""
    try:
        saved = json.loads(state.read_bytes())
        names = [entry["filename"] for entry in saved["_data_files"]]
    except (ValueError, KeyError, TypeError, OSError, RecursionError) as error:
        raise InputError(f"{state}: {error!r}; wanted the state of a saved data set") from None
    if saved.get("_indices_data_files"):
        raise InputError(f"{state.parent}: its rows are chosen by a file of indices; save the data set anew")
    odd = [name for name in names if not _is_file_name(name)]
    if odd:
        raise InputError(f"{state}: names the file {shorten(repr(odd[0]))}; files beside it were wanted")
    return [state.with_name(name) for name in names]


def _is_file_name(name: object) -> bool:
    """Whether what ``state.json`` names is a file in its folder and nowhere else."""
    return isinstance(name, str) and name not in ("", "..") and Path(name).name == name


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    row = 0
    try:
        with open_seekable(path) as stream:
            is_file = stream.peek(len(MAGIC)).startswith(MAGIC)  # type: ignore[attr-defined]
            mapped = pa.memory_map(str(path)) if path.is_file() else stream
            reader = pa.ipc.open_file(mapped) if is_file else pa.ipc.open_stream(mapped)
            columns = columns_of(reader.schema.names, fields.DOCUMENT_FIELDS, TEXT_FIELDS, path)
            for batch in _batches(reader, is_file):
                for record in rows(batch, columns):
                    row += 1
                    yield place(path, row), record
    except UNREADABLE as error:
        raise InputError(f"{path}: damaged Arrow file after row {row}: {reason_of(error)}") from None


def _batches(reader: Any, is_file: bool) -> Iterator[pa.RecordBatch]:
    if is_file:
        return (reader.get_batch(i) for i in range(reader.num_record_batches))
    return iter(reader)
