"""Suggestion files back in, for evaluation and for checking: the inverse of each output format."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from xmc.data import files
from xmc.data.options import ReadOptions
from xmc.errors import InputError, place
from xmc.tag.lines import CSV_COLUMNS, unescaped, unguarded
from xmc.tag.writers import KNOWN, split_suffix

_OPTIONS = ReadOptions()


@dataclass(frozen=True)
class TaggedDocument:
    """What a suggestion file says of one document.

    Attributes:
        id: of the document.
        label_ids: suggested labels, best first.
        scores: parallel to label_ids, higher is better.
        reason: why there are none, "" where there are some.
    """

    id: str
    label_ids: Sequence[str]
    scores: Sequence[float]
    reason: str = ""


def read_suggestions(path: str | Path) -> Iterator[TaggedDocument]:
    """The documents of a suggestion file in its order, streamed; the format follows the suffix.

    Raises: InputError naming file and line for what is not as the writers write it.
    """
    path = Path(path)
    suffix, _ = split_suffix(path)
    if suffix not in _READERS:
        raise InputError(f"{path}: the suffix names no suggestion format; wanted one of {', '.join(KNOWN)}")
    files.check_readable(path)
    return _READERS[suffix](path)


def _read_jsonl(path: Path) -> Iterator[TaggedDocument]:
    for number, line in files.text_lines(path, _OPTIONS):
        try:
            document = _from_json(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            wanted = 'wanted {"id", "suggestions": [{"id", "score"}]} with ids as strings'
            raise _bad(path, number, f"{type(error).__name__}: {error}", wanted) from None
        yield document


def _from_json(found: dict[str, Any]) -> TaggedDocument:
    pairs = [(s["id"], float(s["score"])) for s in found["suggestions"]]
    if not all(isinstance(i, str) for i in (found["id"], *(label for label, _ in pairs))):
        raise TypeError("an id is no string")
    return _document(found["id"], pairs, found.get("reason", ""))


def _read_csv(path: Path) -> Iterator[TaggedDocument]:
    with files.open_bytes(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", newline="") as text:
        table = csv.reader(text, strict=True)
        try:
            if next(table, None) != CSV_COLUMNS:
                raise _bad(path, 1, "another header", f"wanted {','.join(CSV_COLUMNS)}")
            # A document's rows are told by their rank: two documents may have one id.
            for rows in _documents((row for row in table), starts=lambda row: row[1] in ("", "1")):
                yield _document(
                    unguarded(rows[0][0]),
                    [(unguarded(row[2]), float(row[4])) for row in rows if row[1]],
                    rows[0][5],
                )
        except (ValueError, IndexError, csv.Error) as error:
            raise _bad(path, table.line_num, str(error), "wanted rows as the header says") from None


def _documents(rows: Iterator[list[str]], starts: Any) -> Iterator[list[list[str]]]:
    n = 0

    def number(row: list[str]) -> int:
        nonlocal n
        n += bool(starts(row))
        return n

    return (list(group) for _, group in groupby(rows, key=number))


def _read_tsv(path: Path) -> Iterator[TaggedDocument]:
    def rows() -> Iterator[list[str]]:
        for number, line in files.text_lines(path, _OPTIONS):
            row = line.split("\t")
            if len(row) != (4 if len(row) > 1 and row[1] else 5):
                raise _bad(path, number, f"{len(row)} columns", "wanted document, <uri>, label, score")
            if not _is_score(row[3] or "0"):
                raise _bad(path, number, repr(row[3]), "wanted a number in column 4")
            yield row

    for doc_id, group in groupby(rows(), key=lambda row: row[0]):
        found = list(group)
        pairs = [(unescaped(row[1][1:-1]), float(row[3])) for row in found if row[1]]
        yield _document(unescaped(doc_id), pairs, "" if pairs else found[0][4])


def _is_score(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _document(doc_id: str, pairs: list[tuple[str, float]], reason: str) -> TaggedDocument:
    bad = next((score for _, score in pairs if not math.isfinite(score)), None)
    if bad is not None:
        raise ValueError(f"document {doc_id!r} has a score of {bad}")
    return TaggedDocument(doc_id, [label for label, _ in pairs], [score for _, score in pairs], reason)


def _read_parquet(path: Path) -> Iterator[TaggedDocument]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with files.open_seekable(path) as raw, pq.ParquetFile(raw) as table:
            for batch in table.iter_batches(1024, columns=["id", "suggestions", "reason"]):
                for row in batch.to_pylist():
                    pairs = [(s["id"], s["score"]) for s in row["suggestions"]]
                    yield _document(row["id"], pairs, row["reason"] or "")
    except (pa.ArrowException, ValueError, TypeError, KeyError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: {reason}; wanted columns id, suggestions, reason") from None


def _read_npz(path: Path) -> Iterator[TaggedDocument]:
    from xmc.tag.matrix import DOCUMENTS, LABELS, load_scores

    try:
        with files.open_seekable(path) as raw:
            matrix, documents, labels = load_scores(raw)
        for i, document in enumerate(documents):
            row = slice(matrix.indptr[i], matrix.indptr[i + 1])
            scores, columns = matrix.data[row], matrix.indices[row]
            pairs = [(labels[columns[j]], float(scores[j])) for j in np.lexsort((columns, -scores))]
            yield _document(document["id"], pairs, document.get("reason", ""))
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise InputError(f"{path}: {error}; wanted a CSR matrix with {DOCUMENTS} and {LABELS}") from None


def _bad(path: Path, line: int, found: str, wanted: str) -> InputError:
    return InputError(f"{place(path, line)}: {found}; {wanted}")


_READERS = {
    ".jsonl": _read_jsonl,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}
