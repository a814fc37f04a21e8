"""The fields of a record, as JSON, a table's cell or a Parquet value has them, into documents and labels."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from xmc.data.options import ReadOptions
from xmc.data.records import Document, Label
from xmc.data.text import shorten
from xmc.errors import InputError

DOCUMENT_FIELDS = ("id", "text", "title", "labels")
_DOCUMENT_FIELDS = frozenset(DOCUMENT_FIELDS)
LABEL_FIELDS = ("id", "text", "alt", "description", "broader", "retired")
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


class IdRule:
    """Either every document of a file has an id or none has; the corpus numbers those of the latter."""

    def __init__(self) -> None:
        self._without: bool | None = None
        self._first = ""

    def check(self, document: Document) -> Document:
        """The document; `InputError` where it breaks the rule."""
        without = not document.id
        if self._without is None:
            self._without, self._first = without, document.place
        if without != self._without:
            places = (self._first, document.place) if self._without else (document.place, self._first)
            raise InputError(
                f"{places[0]}: a document has no id, but the one at {places[1]} has; give all or none an id"
            )
        return document


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
