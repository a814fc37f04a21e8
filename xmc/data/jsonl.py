"""JSON lines: one JSON object a line. A file that is one JSON array of objects, or one object over several
lines, is read too, but whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from xmc.data import fields
from xmc.data.files import lines_or_faults, strip_end
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Fault, Label, attempt
from xmc.errors import InputError, place

Record = Callable[[], dict[str, Any]]


def read_documents(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Document | Fault]:
    """Documents ``{"id", "text", "labels"}``, ``text`` also as ``title`` and ``text``."""
    found = lazy_records(path, options)
    return fields.alike_in_ids(
        attempt(partial(_document, record, where, options), where) for where, record in found
    )


def _document(record: Record, where: str, options: ReadOptions) -> Document:
    return fields.document(record(), where, options)


def read_labels(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Label]:
    """Labels ``{"id", "text"}`` with optional ``alt``, ``description``, ``broader``, ``retired``."""
    for where, record in records(path, options):
        yield fields.label(record, where, options)


def records(path: Path, options: ReadOptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and object of every line that is not blank."""
    return ((where, record()) for where, record in lazy_records(path, options))


def lazy_records(path: Path, options: ReadOptions) -> Iterator[tuple[str, Record]]:
    """As `records`, each object parsed by a call, so that a reader can go on behind one that is none."""
    lines = ((n, line) for n, line in lines_or_faults(path, options) if not _is_blank(line))
    first = True
    for number, line in lines:
        if first and isinstance(line, str) and _opens_value(line):
            yield from _whole(path, chain([(number, line)], lines))
            return
        first = False
        yield place(path, number), partial(_parsed, line, place(path, number))


def _is_blank(line: str | InputError) -> bool:
    return isinstance(line, str) and (not line or line.isspace())


def _opens_value(line: str) -> bool:
    """Whether a first line begins a value over several lines: an array, or an object's brace alone."""
    stripped = line.strip()
    return stripped.startswith("[") or stripped == "{"


def _parsed(line: str | InputError, where: str) -> dict[str, Any]:
    if isinstance(line, InputError):
        raise line
    return _object(fields.parse_json(strip_end(line), where), where)


def _whole(path: Path, lines: Iterator[tuple[int, str | InputError]]) -> Iterator[tuple[str, Record]]:
    texts = []
    for _, line in lines:
        if isinstance(line, InputError):
            raise line
        texts.append(strip_end(line))
    value = fields.parse_json("\n".join(texts), str(path))
    for n, record in enumerate(value if isinstance(value, list) else [value], 1):
        where = f"{path}: record {n}" if isinstance(value, list) else str(path)
        yield where, partial(_object, record, where)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(
            f'{where}: not a JSON object; a record such as {{"id": ..., "text": ...}} was wanted'
        )
    return value
