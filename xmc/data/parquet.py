"""Parquet, read a block at a time.

Columns are id, text, title, labels for documents; id, text, alt, description, broader, retired for labels;
others are not read. Ids may be strings or integers; lists are list columns or cells as in CSV.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xmc.data import fields
from xmc.data.files import open_seekable
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Fault, Label, attempt
from xmc.errors import InputError, place

_BLOCK = 1024
_LISTS = ("labels", "alt", "broader")
TEXT_FIELDS = ("text", "title")
# What a damaged file raises: the second is of values that Python has no room for, such as a year beyond 9999.
UNREADABLE = (pa.ArrowException, ValueError, OverflowError, OSError)


def read_documents(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Document | Fault]:
    """Documents of every row; the place is ``file:row``, from 1."""
    return documents(_records(path, fields.DOCUMENT_FIELDS, TEXT_FIELDS), options)


def documents(rows: Iterable[tuple[str, dict[str, Any]]], options: ReadOptions) -> Iterator[Document | Fault]:
    """The documents of one file, from place and values of its rows."""
    return fields.alike_in_ids(
        attempt(partial(_document, record, where, options), where) for where, record in rows
    )


def _document(record: dict[str, Any], where: str, options: ReadOptions) -> Document:
    return fields.document(_record(record, where, options), where, options)


def read_labels(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Label]:
    """Labels of every row; the place is ``file:row``, from 1."""
    for where, record in _records(path, fields.LABEL_FIELDS, ("id",)):
        yield fields.label(_record(record, where, options), where, options)


def _records(
    path: Path, wanted: tuple[str, ...], needed: tuple[str, ...]
) -> Iterator[tuple[str, dict[str, Any]]]:
    with open_seekable(path) as stream:
        row = 0
        try:
            file = pq.ParquetFile(stream)
            columns = columns_of(file.schema_arrow.names, wanted, needed, path)
            for batch in file.iter_batches(_BLOCK, columns=list(columns)):
                for record in rows(batch, columns):
                    row += 1
                    yield place(path, row), record
        except UNREADABLE as error:
            found = f"damaged Parquet file after row {row}: {reason_of(error)}"
            raise InputError(f"{path}: {found}") from None


def reason_of(error: Exception) -> str:
    """What an error says, on one line."""
    return (str(error) or type(error).__name__).splitlines()[0]


def rows(batch: pa.RecordBatch, columns: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The values of each row; ``columns``: the field of each column that is read, by its name."""
    read = [name for name in batch.schema.names if name in columns]
    names = [columns[name] for name in read]
    decoded = [_values(batch.column(name), columns[name]) for name in read]
    return (dict(zip(names, values, strict=True)) for values in zip(*decoded, strict=True))


def columns_of(
    found: Sequence[str], wanted: tuple[str, ...], needed: tuple[str, ...], path: Path
) -> dict[str, str]:
    """Field by column name in the file, of every field that is there."""
    columns = {name: name.lower() for name in found if name.lower() in wanted}
    if not set(needed) & set(columns.values()):
        raise InputError(
            f"{path}: the columns are {', '.join(found)}; one named {' or '.join(needed)} was wanted"
        )
    return columns


def _values(column: pa.Array, name: str) -> list[Any]:
    """Python values; integers as ids are exact, and so become strings without being asked.

    Raises: ArrowInvalid for a column that points outside its own data, as those of a damaged file may.
    """
    column.validate()
    if name == "id" and pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    elif name in _LISTS and _is_list(column.type) and pa.types.is_integer(column.type.value_type):
        column = column.cast(pa.list_(pa.string()))
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        column = _undecoded(column)
        column.validate(full=True)
        return list(map(_decoded, column.to_pylist()))
    return list(column.to_pylist())


def _is_list(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind) for is_kind in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def _undecoded(column: pa.Array) -> pa.Array:
    """The column with the bytes of its strings, or of those in its lists."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _undecoded(column.dictionary))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.large_binary())
    if _is_list(kind) and (pa.types.is_string(kind.value_type) or pa.types.is_large_string(kind.value_type)):
        return column.cast(pa.large_list(pa.large_binary()))
    return column


def _decoded(value: Any) -> Any:
    """Text of bytes; bytes that are none stay, so that they are told with their row."""
    if isinstance(value, list):
        return list(map(_decoded, value))
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def _record(record: dict[str, Any], where: str, options: ReadOptions) -> dict[str, Any]:
    for name in _LISTS:
        if isinstance(record.get(name), str):
            record[name] = fields.split_cell(record[name], name, where, options)
    return record
