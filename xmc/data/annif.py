r"""Annif's corpora and vocabularies, as its wiki describes them.

Corpora: a TSV of short texts, ``text TAB <uri> <uri>`` (brackets may be left out); a CSV with the columns
``text`` and ``subject_uris`` and, if wanted, ``document_id``; a folder of full texts ``name.txt``, each with
its subjects in ``name.tsv`` (``<uri> TAB label``) or ``name.key`` (a label's text a line).
Vocabularies: a TSV ``<uri> TAB label [TAB notation]``; a CSV with ``uri`` and ``label_en``, ``label_fi`` and
so on, of which ``language`` chooses one. A subject without any label is a deprecated one.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from xmc.data import files
from xmc.data.folders import Folder
from xmc.data.languages import distance, is_other
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Fault, Label, LabelName, attempt
from xmc.data.text import shorten
from xmc.errors import InputError, place

_BRACKETED = re.compile(r"<[^<>\s]+>")
_URI = re.compile(r"<[^<>\s]+>|[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]+")
_TEXT_SUFFIXES = (".txt", ".txt.gz", ".txt.zst")
_SUBJECT_SUFFIXES = (".tsv", ".key")

Rows = Iterator[tuple[int, list[str]]]


def read_documents(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Document | Fault]:
    """Documents of a TSV or CSV corpus or of a folder of full texts, in the order of their names."""
    if not files.is_stdin(path) and path.is_dir():
        return _folder(path, options)
    return _short_texts(path, options, report)


def read_labels(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Label]:
    """Subjects of a vocabulary in TSV or CSV."""
    lines, header = _opened(path, options)
    if "uri" in header:
        return _csv_subjects(path, lines, header, options, report)
    return _tsv_subjects(path, lines, report)


# --- corpora


def _short_texts(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Document | Fault]:
    lines, header = _opened(path, options)
    if "subject_uris" in header or "subject_labels" in header:
        yield from _csv_documents(path, lines, header)
        return
    for number, line in lines:
        line = files.strip_end(line)
        if line.strip():
            where = place(path, number)
            yield attempt(partial(_tsv_document, line, where, report), where)


def _tsv_document(line: str, where: str, report: ReadReport) -> Document:
    text, tab, subjects = line.partition("\t")
    if not tab:
        found = f"no tab in {shorten(line)!r}"
        raise InputError(f"{where}: {found}; wanted text TAB <uri> <uri> (a tab and nothing for no subject)")
    if "\t" in subjects:
        text, subjects = _behind_texts_own_tabs(line, where, report)
    return Document("", text, [_clean_uri(uri) for uri in subjects.split()], where)


def _behind_texts_own_tabs(line: str, where: str, report: ReadReport) -> tuple[str, str]:
    """Text and subjects of a line of more than two columns: as many columns from the right as hold URIs."""
    columns = line.split("\t")
    last = next((column for column in reversed(columns) if column.strip()), "")
    pattern = _BRACKETED if _BRACKETED.search(last) else _URI
    cut = len(columns)
    while cut > 1 and all(pattern.fullmatch(word) for word in columns[cut - 1].split()):
        cut -= 1
    if cut == len(columns):
        found = f"{len(columns)} columns, the last {shorten(last)!r}"
        raise InputError(f"{where}: {found}; wanted text TAB <uri> <uri>: a tab in the text?")
    if cut > 1:
        report.count("documents had a tab in the text, which became a blank", where)
    return " ".join(columns[:cut]), " ".join(columns[cut:])


def _csv_documents(path: Path, lines: Iterator[tuple[int, str]], header: list[str]) -> Iterator[Document]:
    if "text" not in header:
        raise InputError(f"{place(path, 1)}: the columns are {', '.join(header)}; one named text was wanted")
    by_uri = "subject_uris" in header
    for number, row in _rows(path, lines, header):
        cells = dict(zip(header, row, strict=True))
        if by_uri:
            gold = [_clean_uri(uri) for uri in cells["subject_uris"].split()]
        else:
            gold = [LabelName(x) for x in map(str.strip, cells["subject_labels"].split("|")) if x]
        yield Document(cells.get("document_id", "").strip(), cells["text"], gold, place(path, number))


def folder_files(folder: Folder, _options: ReadOptions) -> set[str]:
    """The full texts of a folder and the files of their subjects."""
    texts = list(filter(_is_text, folder.files))
    subjects = {_stem(name) + suffix for name in texts for suffix in _SUBJECT_SUFFIXES}
    return {*texts, *subjects.intersection(folder.files)}


def _is_text(name: str) -> bool:
    return name.lower().endswith(_TEXT_SUFFIXES)


def _stem(name: str) -> str:
    return name[: name.lower().rindex(".txt")]


def _folder(path: Path, options: ReadOptions) -> Iterator[Document | Fault]:
    names = sorted(os.listdir(path))
    beside = frozenset(names)
    for name in filter(_is_text, names):
        yield attempt(partial(_full_text, path / name, beside, options), str(path / name))


def _full_text(path: Path, beside: frozenset[str], options: ReadOptions) -> Document:
    stem = _stem(path.name)
    gold = _subjects_beside(path.with_name(stem), beside, options)
    return Document(stem, files.read_text(path, options), gold, str(path))


def _subjects_beside(stem: Path, beside: frozenset[str], options: ReadOptions) -> list[str] | None:
    """URIs of ``stem.tsv``, otherwise label texts of ``stem.key``, otherwise None; ``beside``: all names."""
    tsv, key = (stem.with_name(stem.name + suffix) for suffix in _SUBJECT_SUFFIXES)
    if tsv.name in beside:
        lines = files.text_lines(tsv, options)
        return [_subject_uri(line, place(tsv, number)) for number, line in lines if line.strip()]
    if key.name in beside:
        return [LabelName(line.strip()) for _, line in files.text_lines(key, options) if line.strip()]
    return None


def _subject_uri(line: str, where: str) -> str:
    uri = line.split("\t")[0].strip()
    if not uri or " " in uri:
        raise InputError(f"{where}: {shorten(line)!r}; wanted <uri> TAB label")
    return _clean_uri(uri)


# --- vocabularies


def _tsv_subjects(path: Path, lines: Iterator[tuple[int, str]], report: ReadReport) -> Iterator[Label]:
    for number, line in lines:
        where = place(path, number)
        uri, *others = files.strip_end(line).split("\t")
        if not uri.strip():
            if any(others):
                raise InputError(f"{where}: no URI before the tab; wanted <uri> TAB label")
            continue
        if len(others) > 2:
            raise InputError(
                f"{where}: {len(others) + 1} columns; wanted <uri> TAB label, at most with a notation"
            )
        if len(others) == 2 and others[1].strip():
            report.count("subjects had a third column (a notation), which was not read", where)
        yield _subject(uri, others[0] if others else "", where, report)


def _csv_subjects(
    path: Path, lines: Iterator[tuple[int, str]], header: list[str], options: ReadOptions, report: ReadReport
) -> Iterator[Label]:
    languages = [name.removeprefix("label_") for name in header if name.startswith("label_")]
    wanted = options.language.lower()
    order = sorted(languages, key=lambda language: distance(language, wanted))
    if not languages:
        raise InputError(
            f"{place(path, 1)}: no column label_{options.language}; wanted uri, label_{options.language}"
        )
    for number, row in _rows(path, lines, header):
        cells = dict(zip(header, map(str.strip, row), strict=True))
        found = next((language for language in order if cells[f"label_{language}"]), None)
        where = place(path, number)
        if found is not None and is_other(found, wanted):
            what = f"subjects had no label in language={options.language}: another language was taken"
            report.count(what, where)
        yield _subject(cells["uri"], cells[f"label_{found}"] if found else "", where, report)


def _subject(uri: str, text: str, where: str, report: ReadReport) -> Label:
    text = text.strip()
    if not text:
        report.count("subjects had no label and were retired", where)
    return Label(_clean_uri(uri.strip()), text, retired=not text, place=where)


# --- lines and cells


def _clean_uri(uri: str) -> str:
    return uri[1:-1] if uri.startswith("<") and uri.endswith(">") else uri


def _opened(path: Path, options: ReadOptions) -> tuple[Iterator[tuple[int, str]], list[str]]:
    """All lines, and the first one's column names in lower case, for whether it is a header."""
    lines = files.raw_lines(path, options)
    first = next(lines, None)
    if first is None:
        return iter(()), []
    names = files.strip_end(first[1]).split(_delimiter(first[1]))
    return chain([first], lines), [name.strip().strip('"').lower() for name in names]


def _delimiter(header: str) -> str:
    return "\t" if "\t" in header else ","


def _rows(path: Path, lines: Iterator[tuple[int, str]], header: list[str]) -> Rows:
    """Line number and cells of every row behind the header; RFC 4180, so a cell may hold line ends."""
    _, first = next(lines)
    csv.field_size_limit(files.MAX_LINE)  # the default of 128 KiB is less than a long document
    reader = csv.reader((line for _, line in lines), delimiter=_delimiter(first), strict=True)
    number = 2
    try:
        for row in reader:
            if row and len(row) != len(header):
                found = f"{len(row)} columns; the first line names {len(header)}: {', '.join(header)}"
                raise InputError(f"{place(path, number)}: {found}")
            if row:
                yield number, row
            number = reader.line_num + 2
    except csv.Error as error:
        raise InputError(f"{place(path, number)}: not CSV: {error}, in the record that begins here") from None
