r"""CSV and TSV. With a header, columns are named: id, text, title, labels for documents; id, text, alt,
description, broader, retired for labels; others are not read. Without one a TSV is id TAB text.

A cell of several ids or names is a JSON list, or has ``|`` between them. CSV follows RFC 4180 (fields in
quotes may hold separators, quotes and line ends), with commas or semicolons. A TSV record is one line; a
field in quotes that holds a tab, a comma or a quote is unquoted, as spreadsheets and Python's csv write it,
and all other quotes are text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from xmc.data import fields
from xmc.data.files import MAX_LINE, lines_or_faults, strip_end
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Fault, Label, attempt
from xmc.data.text import shorten
from xmc.errors import InputError, place

_KNOWN = frozenset(fields.DOCUMENT_FIELDS + fields.LABEL_FIELDS)
_LISTS = ("labels", "alt", "broader")
_HEADERLESS = ["id", "text"]
_QUOTED = re.compile(r'"([^"]*(?:""[^"]*)*)"(?=\t|\Z)')
# A line's number, and its cells or what is wrong with it.
Rows = Iterator[tuple[int, list[str] | InputError]]
# What makes a writer put a field in quotes; quotes around anything else are text.
_NEEDS_QUOTES = re.compile(r'[\t,"\r]')


def read_documents(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Document | Fault]:
    """Documents with the columns id, text, title, labels, of which text or title must be there."""
    return fields.alike_in_ids(
        attempt(partial(_document, row, names, where, options), where)
        for where, row, names in _records(path, options, ("text", "title"))
    )


def _document(row: list[str] | InputError, names: list[str], where: str, options: ReadOptions) -> Document:
    return fields.document(_named(row, names, where, options), where, options)


def read_labels(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Label]:
    """Labels with the columns id, text, alt, description, broader, retired, of which id must be there."""
    for where, row, names in _records(path, options, ("id",)):
        yield fields.label(_named(row, names, where, options), where, options)


def has_header(line: str) -> bool:
    """Whether a first line names columns: two known names, or one that begins it."""
    return _names_columns(_column_names(line.split(sniff_separator(line))))


def sniff_separator(line: str) -> str:
    """Tab, comma or semicolon, under which a first line has most known names."""
    found = [s for s in "\t,;" if s in line] or [","]
    return max(found, key=lambda s: len(_KNOWN & set(_column_names(line.split(s)))))


def _column_names(cells: list[str]) -> list[str]:
    return [cell.strip().strip('"').strip().lower() for cell in cells]


def _names_columns(names: list[str]) -> bool:
    return len(_KNOWN & set(names)) >= 2 or names[0] in ("id", "text")


def _records(
    path: Path, options: ReadOptions, needed: tuple[str, ...]
) -> Iterator[tuple[str, list[str] | InputError, list[str]]]:
    """Place, cells and the columns' names of every row that is not blank."""
    separator, rows = _rows(path, options)
    number, first = next(rows, (0, list[str]()))
    if isinstance(first, InputError):
        raise first
    names = _column_names(first)
    if first and _names_columns(names):
        _check_names(names, needed, place(path, number))
    elif first:
        if separator != "\t":
            raise InputError(
                f"{place(path, number)}: no header: found {shorten(str(first))}; a first line naming "
                f"the columns was wanted, such as id{separator}text"
            )
        names, rows = _HEADERLESS, iter(chain([(number, first)], rows))
    for number, row in rows:
        yield place(path, number), row, names


def _named(
    row: list[str] | InputError, names: list[str], where: str, options: ReadOptions
) -> dict[str, object]:
    """The cells by the names of their columns. Raises InputError for a row that does not fit them."""
    if isinstance(row, InputError):
        raise row
    if len(row) != len(names):
        raise InputError(f"{where}: {_mismatch(row, names)}")
    return {
        name: fields.split_cell(cell, name, where, options) if name in _LISTS else cell
        for name, cell in zip(names, row, strict=True)
        if name in _KNOWN
    }


def _check_names(names: list[str], needed: tuple[str, ...], where: str) -> None:
    if not set(needed) & set(names):
        raise InputError(
            f"{where}: the columns are {', '.join(names)}; one named {' or '.join(needed)} was wanted"
        )
    twice = [name for name in _KNOWN if names.count(name) > 1]
    if twice:
        raise InputError(f"{where}: two columns are named {twice[0]}; one was wanted")


def _mismatch(row: list[str], names: list[str]) -> str:
    found = f"{len(row)} column{'s' if len(row) != 1 else ''}"
    if row[-1].count('"') % 2 and len(row) < len(names):
        wanted = f"{len(names)} were wanted, on one line (a record of CSV may have several)"
        return f"{found}, and a quote that stays open; {wanted}"
    if names is _HEADERLESS:
        return f"{found}; id TAB text was wanted (or a first line that names columns, such as id, text, alt)"
    return f"{found}; the first line names {len(names)}: {', '.join(names)}"


def _rows(path: Path, options: ReadOptions) -> tuple[str, Rows]:
    """The separator, and line number and cells of every row that is not blank."""
    lines = lines_or_faults(path, options)
    number, first = next(((n, line) for n, line in lines if _is_filled(line)), (1, ""))
    if isinstance(first, InputError):
        raise first
    separator = sniff_separator(strip_end(first))
    lines = chain([(number, first)], lines)
    return separator, _tsv_rows(lines) if separator == "\t" else _csv_rows(path, number, lines, separator)


def _is_filled(line: str | InputError) -> bool:
    return isinstance(line, InputError) or bool(line.strip(" \r\n"))


def _tsv_rows(lines: Iterator[tuple[int, str | InputError]]) -> Rows:
    """Cells of every line; where all cells of the first are in quotes, the file quotes every cell."""
    quoted = None
    for number, line in lines:
        if isinstance(line, InputError):
            yield number, line
            continue
        line = strip_end(line)
        if not line.strip(" "):
            continue
        if quoted is None:
            quoted = all(_QUOTED.fullmatch(cell) for cell in line.split("\t"))
        yield number, split_tsv(line, quoted)


def split_tsv(line: str, quoted: bool = False) -> list[str]:
    """The cells of a line; quotes come off a cell that needed them, or off every one if ``quoted``."""
    if '"' not in line:
        return line.split("\t")
    cells, at = [], 0
    while at <= len(line):
        match = _QUOTED.match(line, at)
        if match and (quoted or _NEEDS_QUOTES.search(match[1])):
            cells.append(match[1].replace('""', '"'))
            at = match.end() + 1
        else:
            end = line.find("\t", at)
            end = len(line) if end < 0 else end
            cells.append(line[at:end])
            at = end + 1
    return cells


class _Lines:
    """Lines for a csv reader, which can go on behind one that raises; ``number`` of the last one given."""

    def __init__(self, lines: Iterator[tuple[int, str | InputError]], first: int) -> None:
        self._lines, self.number = lines, first - 1

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        self.number, line = next(self._lines)
        if isinstance(line, InputError):
            raise line
        return line


def _no_csv(where: str, error: csv.Error, last: int | None) -> InputError:
    """What is wrong with the record at ``where``, of which line ``last`` is the last one read."""
    known = {"new-line": "a carriage return outside quotes", "unexpected end": "a quote that is never closed"}
    reason = next((known[part] for part in known if part in str(error)), str(error))
    reach = f" and reaches to line {last}" if last else ""
    return InputError(f"{where}: not CSV: {reason}, in the record that begins here{reach}")


def _csv_rows(
    path: Path, first: int, numbered: Iterator[tuple[int, str | InputError]], separator: str
) -> Rows:
    # The limit is the process's, and its default of 128 KiB is less than a long document.
    csv.field_size_limit(MAX_LINE)
    lines = _Lines(numbered, first)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        number = lines.number + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fault = _no_csv(place(path, number), error, lines.number if lines.number > number else None)
            if "unexpected end" in str(error):
                raise fault from None
            yield number, fault
            continue
        except InputError as error:
            yield lines.number, error
            continue
        if row:
            yield number, row
