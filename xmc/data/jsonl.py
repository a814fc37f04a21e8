"""JSON lines: one JSON object a line. A file that is one JSON array of objects is read too, but whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from xmc.data import fields
from xmc.data.files import text_lines
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Label
from xmc.errors import InputError, place


def read_documents(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Document]:
    """Documents ``{"id", "text", "labels"}``, ``text`` also as ``title`` and ``text``."""
    rule = fields.IdRule()
    for where, record in records(path, options):
        yield rule.check(fields.document(record, where, options))


def read_labels(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Label]:
    """Labels ``{"id", "text"}`` with optional ``alt``, ``description``, ``broader``, ``retired``."""
    for where, record in records(path, options):
        yield fields.label(record, where, options)


def records(path: Path, options: ReadOptions) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and object of every line that is not blank."""
    lines = ((n, line) for n, line in text_lines(path, options) if line and not line.isspace())
    for number, line in lines:
        if line.lstrip().startswith("["):
            yield from _array(path, chain([(number, line)], lines))
            return
        where = place(path, number)
        yield where, _object(fields.parse_json(line, where), where)


def _array(path: Path, lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for n, record in enumerate(fields.parse_json("\n".join(line for _, line in lines), str(path)), 1):
        where = f"{path}: record {n}"
        yield where, _object(record, where)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(
            f'{where}: not a JSON object; a record such as {{"id": ..., "text": ...}} was wanted'
        )
    return value
