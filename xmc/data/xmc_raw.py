"""Raw text of the Extreme Classification Repository: ``trn.json``, ``tst.json`` and ``lbl.json`` (.gz).

One JSON object a line with ``uid``, ``title`` and ``content``. The labels of a document are line numbers of
``lbl.json``, from 0, in ``target_ind``, each with a relevance in ``target_rel``. Labels have their uids as
ids, so documents with labels are read with the ``lbl.json`` that lies beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from xmc.data import fields, files, jsonl
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Fault, Label, attempt
from xmc.data.text import shorten
from xmc.errors import InputError

_LABEL_FILES = ("lbl.json", "lbl.json.gz", "lbl.raw.json", "lbl.raw.json.gz")
_DOCUMENT_NAME = re.compile(r"(trn|tst|train|test|val|dev)(?=\b|_)", re.IGNORECASE)


def read_documents(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Document | Fault]:
    """Documents of ``trn.json`` or ``tst.json``: title and content, labels by their uids."""
    label_ids: list[str] | None = None

    def document(record: dict[str, Any], where: str) -> Document:
        gold = None if record.get("target_ind") is None else _gold(record, label_ids or [], where, report)
        named = {"id": "uid", "title": "title", "text": "content"}
        values = {name: record.get(key) for name, key in named.items()}
        return fields.document({**values, "labels": gold}, where, options)

    for where, parse in jsonl.lazy_records(path, options):
        try:
            record = parse()
        except InputError as error:
            yield Fault(where, error)
            continue
        if record.get("target_ind") and label_ids is None:
            label_ids = [label.id for label in read_labels(_labels_beside(path), options, ReadReport())]
        yield attempt(partial(document, record, where), where)


def read_labels(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Label]:
    """Labels of ``lbl.json``, or of the one beside a file of documents; the content is the description."""
    records = jsonl.records(path, options)
    where, first = next(records, ("", {}))
    if "target_ind" in first or _DOCUMENT_NAME.match(path.name):
        records = jsonl.records(_labels_beside(path), options)
    elif first:
        yield _label(first, where, options)
    for where, record in records:
        yield _label(record, where, options)


def _label(record: dict[str, Any], where: str, options: ReadOptions) -> Label:
    uid, title, content = (
        fields.text_field(record, name, where, options) for name in ("uid", "title", "content")
    )
    return Label(uid, title or content, description=content if title else "", place=where)


def _gold(record: dict[str, Any], label_ids: Sequence[str], where: str, report: ReadReport) -> list[str]:
    rows = _integers(record.get("target_ind"), where)
    relevance = record.get("target_rel")
    if relevance is not None and (not isinstance(relevance, list) or len(relevance) != len(rows)):
        n = len(relevance) if isinstance(relevance, list) else "no list of"
        raise InputError(f"{where}: target_ind has {len(rows)} labels, target_rel {n}; as many were wanted")
    outside = next((row for row in rows if not 0 <= row < len(label_ids)), None)
    if outside is not None:
        raise InputError(f"{where}: target_ind {outside}, but there are {len(label_ids)} labels (from 0)")
    irrelevant = [_is_zero(value, where) for value in relevance or [1] * len(rows)]
    if any(irrelevant):
        report.count("gold labels had relevance 0 and were left out", where, n=sum(irrelevant))
    return [label_ids[row] for row, zero in zip(rows, irrelevant, strict=True) if not zero]


def _integers(values: Any, where: str) -> list[int]:
    if not isinstance(values, list):
        raise InputError(f"{where}: target_ind is {shorten(repr(values))}; a list of line numbers was wanted")
    try:
        return [int(value) if isinstance(value, fields.Number) else int(repr(value)) for value in values]
    except ValueError:
        raise InputError(
            f"{where}: target_ind is {shorten(repr(values))}; whole numbers were wanted"
        ) from None


def _is_zero(value: Any, where: str) -> bool:
    try:
        return float(value) == 0
    except (TypeError, ValueError):
        raise InputError(f"{where}: target_rel holds {shorten(repr(value))}; numbers were wanted") from None


def _labels_beside(path: Path) -> Path:
    names = (_DOCUMENT_NAME.sub("lbl", path.name, count=1), *_LABEL_FILES)
    found = next((path.parent / name for name in names if (path.parent / name).is_file()), None)
    if files.is_stdin(path) or found is None or found == path:
        raise InputError(f"{path}: its labels are lines of a lbl.json, which was wanted in the same folder")
    return found
