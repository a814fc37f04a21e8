"""The fields of a record, as JSON, a table's cell or a Parquet value has them, into documents and labels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, NoReturn

from xmc.data.options import ReadOptions
from xmc.data.records import Document, Fault, Label
from xmc.data.text import shorten
from xmc.errors import InputError

DOCUMENT_FIELDS = ("id", "text", "title", "labels")
_DOCUMENT_FIELDS = frozenset(DOCUMENT_FIELDS)
LABEL_FIELDS = ("id", "text", "alt", "description", "broader", "retired")
_LOOK = 20  # records of a file that show whether its documents have ids
_BYTES = "bytes instead of UTF-8 text"
_TRUE, _FALSE = ("true", "yes", "1"), ("", "false", "no", "0")


class Number(str):
    """A number as it is written in JSON: 14.10 stays 14.10, and no number is too large."""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(
    strict=False, parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
)


def parse_json(text: str, where: str) -> Any:
    """JSON with numbers as `Number`; `InputError` for anything else. Raw control characters are accepted."""
    try:
        value, end = _DECODER.raw_decode(text)
        if end == len(text):
            return value
    except (ValueError, RecursionError):
        pass  # blanks around the value, or an error, which `decode` tells better
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno} column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise InputError(f"{where}: not JSON: {error.msg} at {at}, near {_near(text, error.pos)!r}") from None
    except ValueError as error:
        raise InputError(f"{where}: not JSON: {error}") from None
    except RecursionError:
        raise InputError(f"{where}: JSON nested too deeply; a flat record was wanted") from None


def _near(text: str, position: int) -> str:
    return shorten(text[position : position + 40], 30)


def alike_in_ids(records: Iterable[Document | Fault]) -> Iterator[Document | Fault]:
    """The records of a file, of which either every document has an id or none; the corpus numbers the latter.

    A document without is a fault where the first or one of the `_LOOK` records behind it has an id. Raises:
    InputError for one with an id in a file whose first documents have none.
    """
    records = iter(records)
    for first in records:
        if isinstance(first, Document):
            break
        yield first
    else:
        return
    held, error = _held(records, 0 if first.id else _LOOK)
    held.insert(0, first)
    having = next((each.place for each in held if isinstance(each, Document) and each.id), "")
    for record in chain(held, records):
        if isinstance(record, Fault) or bool(record.id) == bool(having):
            yield record
        elif having:
            yield Fault(record.place, _unlike(record.place, having))
        else:
            raise _unlike(first.place, record.place)
    if error is not None:
        raise error


def _held(records: Iterator[Document | Fault], n: int) -> tuple[list[Document | Fault], InputError | None]:
    """Up to ``n`` records, and what ended the file before."""
    held: list[Document | Fault] = []
    try:
        for record in islice(records, n):
            held.append(record)
    except InputError as error:
        return held, error
    return held, None


def _unlike(without: str, having: str) -> InputError:
    return InputError(f"{without}: a document has no id, but the one at {having} has; give all or none an id")


def document(record: Mapping[str, Any], where: str, options: ReadOptions) -> Document:
    """A document of the fields ``id``, ``text`` or ``title`` and ``text``, ``labels``.

    Raises: InputError where none of them is there or one is not what it should be.
    """
    if _DOCUMENT_FIELDS.isdisjoint(record):
        found = f"its fields are {shorten(', '.join(record))}" if record else "it has no field"
        raise InputError(f"{where}: no document: {found}; wanted {', '.join(DOCUMENT_FIELDS)}")
    text = text_field(record, "text", where, options)
    title = text_field(record, "title", where, options)
    if title and not text.startswith(title):
        text = f"{title}\n{text}" if text else title
    labels = ids_field(record, "labels", where, options)
    return Document(text_field(record, "id", where, options), text, labels, where)


def label(record: Mapping[str, Any], where: str, options: ReadOptions) -> Label:
    """A label of the fields ``id``, ``text``, ``alt``, ``description``, ``broader``, ``retired``."""
    if record.get("labels") is not None:
        raise InputError(f"{where}: a document (it has `labels`); a label with id and text was wanted")
    read = {name: _READERS[name](record, name, where, options) for name in record if name in _READERS}
    return Label(**{"id": "", "text": "", **read, "place": where})


def text_field(record: Mapping[str, Any], name: str, where: str, options: ReadOptions) -> str:
    """A text; "" where it is missing or null. A number is an `InputError` unless ``options.coerce``."""
    value = record.get(name)
    if type(value) is str:
        return value
    return _other(value, name, where, options)


def _other(value: Any, name: str, where: str, options: ReadOptions) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, (Number, int, float)) and not isinstance(value, bool):
        if options.coerce:
            return str(value)
        found = f"{name} is the number {shorten(str(value))}"
        raise InputError(f"{where}: {found}; a string was wanted (or pass `coerce=true`)")
    raise InputError(f"{where}: {name} is {_kind(value)}; a string was wanted")


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", list: "a list", dict: "an object", str: "a string", bytes: _BYTES}
    return kinds.get(type(value), f"of type {type(value).__name__}")


def ids_field(record: Mapping[str, Any], name: str, where: str, options: ReadOptions) -> list[str] | None:
    """A list of ids; None where it is missing or null."""
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, list):
        raise InputError(f"{where}: {name} is {_kind(value)}; a list of strings was wanted")
    if all(type(item) is str for item in value):
        return value
    if any(item is None for item in value):
        raise InputError(f"{where}: a null stands in {name}; strings were wanted")
    return [
        _other(item, f"an item of {name}", where, options) if type(item) is not str else item
        for item in value
    ]


def _names(record: Mapping[str, Any], name: str, where: str, options: ReadOptions) -> tuple[str, ...]:
    value = record.get(name)
    return (value,) if type(value) is str else tuple(ids_field(record, name, where, options) or ())


def _flag(record: Mapping[str, Any], name: str, where: str, _options: ReadOptions) -> bool:
    value = record.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    if str(value).lower() in _TRUE + _FALSE:
        return str(value).lower() in _TRUE
    raise InputError(f"{where}: {name} is {shorten(str(value))!r}; true or false was wanted")


_READERS: dict[str, Callable[[Mapping[str, Any], str, str, ReadOptions], Any]] = {
    "id": text_field,
    "text": text_field,
    "alt": _names,
    "description": text_field,
    "broader": _names,
    "retired": _flag,
}


def split_cell(cell: str, name: str, where: str, options: ReadOptions) -> list[str]:
    """The ids in a table's cell: a JSON list, or ids with ``|`` between them.

    Blanks around an id that stands between ``|`` do not belong to it, and a cell in square brackets is
    always JSON; so ids with such characters are written as a JSON list.
    """
    stripped = cell.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        return ids_field({name: parse_json(stripped, f"{where}: {name}")}, name, where, options) or []
    return [part for part in map(str.strip, cell.split("|")) if part]
