"""Suggestion files of any format `xmc tag` writes, read back into label rows and scores.

A label suggested twice for a document, a score that is not a finite number and a document predicted
twice are refused: each would count for more than it is. Order within a document is by score; equal
scores keep the order of the file, which in a score matrix is that of its columns.
"""

from __future__ import annotations

import csv
import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xmc.data.files import is_stdin, raw_lines, text_lines
from xmc.data.options import ReadOptions
from xmc.errors import InputError, SettingError, place, some
from xmc.evaluate.ranked import Ranked, owners, repeated
from xmc.tag.lines import CSV_COLUMNS, unescaped, unguarded
from xmc.tag.writers import KNOWN, split_suffix


class IdSpace(dict[str, int]):
    """Label id to row; an id that is looked up first gets the next row. The vocabulary's rows come first."""

    def __missing__(self, label_id: str) -> int:
        row = self[label_id] = len(self)
        return row

    def rows(self, label_ids: Sequence[str]) -> list[int]:
        """The row of each id."""
        return list(map(self.__getitem__, label_ids))


@dataclass(frozen=True)
class Predictions:
    """Suggestions of a file in its order: ``indptr`` (n_docs + 1,), ``rows``, ``scores`` (n_suggestions,)."""

    doc_ids: list[str]
    places: list[str]
    indptr: np.ndarray
    rows: np.ndarray
    scores: np.ndarray

    def aligned(self, gold_ids: Sequence[str]) -> tuple[Ranked, int, int]:
        """The suggestions in the order of ``gold_ids``, none for a document that the file lacks.

        Also how many of the documents have no prediction, and how many predictions are for others.
        """
        row_of = {doc_id: row for row, doc_id in enumerate(gold_ids)}
        target = np.array([row_of.get(doc_id, -1) for doc_id in self.doc_ids], dtype=np.int64)
        docs = target[owners(self.indptr)] if len(target) else np.zeros(0, dtype=np.int64)
        known = docs >= 0
        order = np.flatnonzero(known)[np.argsort(docs[known], kind="stable")]
        counts = np.bincount(docs[order], minlength=len(gold_ids))
        indptr = np.concatenate([[0], np.cumsum(counts)])
        others = int((target < 0).sum())
        return (
            Ranked.build(indptr, self.rows[order], self.scores[order]),
            len(gold_ids) - (len(target) - others),
            others,
        )


class _Collector:
    """Gathers documents one by one and checks them all at once."""

    def __init__(self, space: IdSpace) -> None:
        self.space = space
        self.doc_ids: list[str] = []
        self.places: list[str] = []
        self.counts = array("q")
        self.rows = array("q")
        self.scores = array("d")

    def add(self, doc_id: str, label_ids: Sequence[str], scores: Sequence[float], where: str) -> None:
        self.doc_ids.append(doc_id)
        self.places.append(where)
        self.counts.append(len(label_ids))
        self.rows.extend(self.space.rows(label_ids))
        self.scores.extend(scores)

    def finish(self) -> Predictions:
        counts = np.frombuffer(self.counts, dtype=np.int64) if self.counts else np.zeros(0, dtype=np.int64)
        rows = np.frombuffer(self.rows, dtype=np.int64) if self.rows else np.zeros(0, dtype=np.int64)
        scores = np.frombuffer(self.scores, dtype=np.float64) if self.scores else np.zeros(0)
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return checked(Predictions(self.doc_ids, self.places, indptr, rows, scores), self.space)


def checked(predictions: Predictions, space: IdSpace) -> Predictions:
    """The same predictions, or InputError that names the first document that is refused, and where it is."""
    p = predictions
    _refuse_second(p)
    docs = owners(p.indptr)
    for at in np.flatnonzero(~np.isfinite(p.scores))[:1]:
        found = f"score {p.scores[at]} for label {_label(space, p.rows[at])}"
        raise _fault(p, docs[at], found, "finite scores")
    for at in repeated(docs, p.rows)[:1]:
        found = f"label {_label(space, p.rows[at])} is suggested twice"
        raise _fault(p, docs[at], found, "each label once")
    return p


def _refuse_second(p: Predictions) -> None:
    if len(set(p.doc_ids)) == len(p.doc_ids):
        return
    seen: dict[str, str] = {}
    for doc_id, where in zip(p.doc_ids, p.places, strict=True):
        if doc_id in seen:
            raise InputError(
                f"{where}: document {doc_id!r} is predicted twice, first at {seen[doc_id]}; "
                "wanted each document once, all its suggestions together"
            )
        seen[doc_id] = where


def _fault(p: Predictions, doc: int, found: str, wanted: str) -> InputError:
    return InputError(f"{p.places[doc]}: document {p.doc_ids[doc]!r}: {found}; wanted {wanted}")


def _label(space: IdSpace, row: int) -> str:
    return repr(next(label_id for label_id, r in space.items() if r == row))


def read_predictions(
    path: str | Path,
    space: IdSpace,
    options: ReadOptions | None = None,
    doc_ids: Sequence[str] = (),
    label_ids: Sequence[str] | None = None,
) -> Predictions:
    """Read a suggestion file, its format told by the suffix; ``-`` is JSONL on standard input.

    New label ids get rows in ``space``. A score matrix without ids inside takes ``doc_ids`` as its
    rows and ``label_ids`` as its columns. Raises InputError as the module says.
    """
    path, options = Path(path), options or ReadOptions()
    suffix = ".jsonl" if is_stdin(path) else split_suffix(path)[0]
    if suffix in (".parquet", ".npz"):
        from xmc.evaluate.tables import read_matrix, read_parquet

        if suffix == ".parquet":
            return read_parquet(path, space)
        return read_matrix(path, space, doc_ids, label_ids)
    if suffix not in LINE_READERS:
        raise SettingError(f"{path}: the suffix names no suggestion format; wanted one of {', '.join(KNOWN)}")
    collector = _Collector(space)
    for document in LINE_READERS[suffix](path, options):
        collector.add(*document)
    return collector.finish()


Document = tuple[str, list[str], list[float], str]


def _read_jsonl(path: Path, options: ReadOptions) -> Iterator[Document]:
    """``{"id", "suggestions": [{"id", "score"}, ...]}`` a line; other fields are passed over."""
    for number, line in text_lines(path, options):
        if line.strip():
            yield _document(line, place(path, number), options.coerce)


def _document(line: str, where: str, coerce: bool) -> Document:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON ({error}); wanted one document a line") from None
    if not isinstance(record, dict) or not isinstance(record.get("suggestions"), list):
        raise InputError(f'{where}: wanted {{"id": ..., "suggestions": [...]}}; found {line.strip()[:60]!r}')
    doc_id = _id(record, where, coerce)
    found = record["suggestions"]
    if {type(s) for s in found} - {dict}:
        raise InputError(f'{where}: document {doc_id!r}: a suggestion is not {{"id": ..., "score": ...}}')
    ids, scores = [s.get("id") for s in found], [s.get("score") for s in found]
    if set(map(type, ids)) - {str}:
        ids = [_id(s, where, coerce) for s in found]
    if set(map(type, scores)) - {float}:
        scores = [_score(s, where, coerce) for s in found]
    return doc_id, ids, scores, where


def _id(record: dict[str, Any], where: str, coerce: bool) -> str:
    value = record.get("id")
    if isinstance(value, str):
        return value
    if coerce and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    found = "no id" if value is None else f"id {json.dumps(value)[:60]}"
    raise InputError(f"{where}: {found}; wanted a string (whole numbers pass with coerce=true)")


def _score(record: dict[str, Any], where: str, coerce: bool) -> float:
    value = record.get("score")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _float(value)
    if coerce and isinstance(value, str):
        return _number(value, where)
    found = "no score" if value is None else f"score {json.dumps(value)[:60]}"
    raise InputError(f"{where}: label {record.get('id')!r}: {found}; wanted a number")


def _float(value: float) -> float:
    """An int too large for a float is infinite, which is refused with the document's id."""
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: score {text[:60]!r}; wanted a number") from None


Row = tuple[str, str, str, str]  # document, label ("" for none), score, place


def _grouped(rows: Iterator[Row]) -> Iterator[Document]:
    """One document for each run of rows with its id; a row without a label says it has no suggestions."""
    current: Document | None = None
    for doc_id, label_id, score, where in rows:
        if current is None or current[0] != doc_id:
            if current is not None:
                yield current
            current = (doc_id, [], [], where)
        if label_id:
            current[1].append(label_id)
            current[2].append(_number(score, where))
    if current is not None:
        yield current


def _read_csv(path: Path, options: ReadOptions) -> Iterator[Document]:
    return _grouped(_csv_rows(path, options))


def _csv_rows(path: Path, options: ReadOptions) -> Iterator[Row]:
    """RFC 4180 with a header that has at least ``doc_id``, ``label_id`` and ``score``."""
    table = csv.reader((line for _, line in raw_lines(path, options)), strict=True)
    header: list[str] | None = None
    try:
        for cells in table:
            if header is None:
                header = cells
                at = [_column(header, name, path) for name in ("doc_id", "label_id", "score")]
            elif len(cells) != len(header):
                where = place(path, table.line_num)
                raise InputError(f"{where}: {len(cells)} columns; wanted {len(header)}, as in the header")
            else:
                doc_id, label_id, score = (cells[i] for i in at)
                yield unguarded(doc_id), unguarded(label_id), score, place(path, table.line_num)
    except csv.Error as error:
        raise InputError(f"{place(path, table.line_num)}: not valid CSV: {error}") from None


def _column(header: list[str], name: str, path: Path) -> int:
    if name not in header:
        raise InputError(f"{place(path, 1)}: columns {some(header)}; wanted a header {','.join(CSV_COLUMNS)}")
    return header.index(name)


def _read_tsv(path: Path, options: ReadOptions) -> Iterator[Document]:
    return _grouped(_tsv_rows(path, options))


def _tsv_rows(path: Path, options: ReadOptions) -> Iterator[Row]:
    """``doc id TAB <uri> TAB label TAB score``: Annif's columns after the id of the document."""
    for number, line in text_lines(path, options):
        if not line:
            continue
        where, cells = place(path, number), line.split("\t")
        uri = cells[1] if len(cells) in (4, 5) else None
        if uri is None or (uri and not (uri.startswith("<") and uri.endswith(">"))):
            wanted = "document id TAB <label id> TAB label TAB score"
            raise InputError(f"{where}: found {line[:60]!r}; wanted {wanted}")
        yield unescaped(cells[0]), unescaped(uri[1:-1]), cells[3], where


LINE_READERS = {".jsonl": _read_jsonl, ".csv": _read_csv, ".tsv": _read_tsv}
