"""Suggestions from the two formats that are whole files: Parquet and the XMC repository's score matrix."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xmc.data.files import open_seekable
from xmc.errors import InputError
from xmc.evaluate.predictions import IdSpace, Predictions, checked
from xmc.evaluate.ranked import owners
from xmc.tag.matrix import DOCUMENTS, LABELS

WANTED = "id: string, suggestions: list<struct<id: string, score: float>>"


def decimal(scores: np.ndarray) -> np.ndarray:
    """(n,) float64 of what would be printed: a float32 0.7 is 0.7, as in the formats made of text."""
    return scores if scores.dtype == np.float64 else scores.astype(str).astype(np.float64)


def read_parquet(path: Path, space: IdSpace) -> Predictions:
    """A row a document with columns ``id`` and ``suggestions``, a list of ``id`` and ``score``."""
    doc_ids: list[str] = []
    counts, rows, scores = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    try:
        with open_seekable(path) as source:
            for batch in pq.ParquetFile(source).iter_batches(columns=["id", "suggestions"]):
                lists, values = batch["suggestions"], batch["suggestions"].flatten()
                doc_ids += _strings(batch["id"]).to_pylist()
                counts.append(lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
                rows.append(_rows(_strings(values.field("id")), space))
                scores.append(decimal(_no_null(values.field("score")).to_numpy(zero_copy_only=False)))
    except (pa.ArrowException, OSError, LookupError, ValueError, AttributeError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path}: {reason}; wanted a Parquet file with {WANTED}") from None
    places = [f"{path}, row {n}" for n in range(1, len(doc_ids) + 1)]
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64)
    return checked(Predictions(doc_ids, places, indptr, np.concatenate(rows), np.concatenate(scores)), space)


def _strings(column: pa.Array) -> pa.Array:
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise TypeError(f"an id is of type {column.type}")
    return _no_null(column)


def _no_null(column: pa.Array) -> pa.Array:
    if column.null_count:
        raise ValueError("an id or a score is null")
    return column


def _rows(label_ids: pa.Array, space: IdSpace) -> np.ndarray:
    """(n,) rows; each distinct id is looked up once."""
    coded = label_ids.dictionary_encode()
    rows = np.array(space.rows(coded.dictionary.to_pylist()), dtype=np.int64)
    return rows[coded.indices.to_numpy(zero_copy_only=False)]


def read_matrix(
    path: Path, space: IdSpace, doc_ids: Sequence[str], label_ids: Sequence[str] | None
) -> Predictions:
    """A CSR score matrix (n_docs, n_labels) as npz; every stored entry, zeros too, is a suggestion.

    Its rows and columns are named by ids inside the file, or else they are ``doc_ids`` and ``label_ids``.
    """
    try:
        with open_seekable(path) as source, np.load(source, allow_pickle=False) as entries:
            parts = {name: entries[name] for name in ("indptr", "indices", "data", "shape")}
            _refuse_other_format(entries, path)
            inside = [_ids_inside(entries, name) for name in (DOCUMENTS, LABELS)]
    except (zipfile.BadZipFile, OSError, KeyError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a score matrix ({error}); wanted a CSR matrix of scipy") from None
    _refuse_broken(parts, path)
    n_docs, n_labels = (int(n) for n in parts["shape"])
    documents = _names(inside[0], doc_ids, n_docs, "rows", "gold documents", path)
    if inside[1] is None and label_ids is None:
        raise InputError(f"{path}: the columns of this score matrix have no ids; give the labels (--labels)")
    columns = _names(inside[1], label_ids or (), n_labels, "columns", "labels", path)
    used, codes = np.unique(parts["indices"], return_inverse=True)
    rows = np.array(space.rows([columns[i] for i in used]), dtype=np.int64)[codes]
    places = [f"{path}, row {n}" for n in range(1, n_docs + 1)]
    indptr = parts["indptr"].astype(np.int64)
    return checked(Predictions(documents, places, indptr, rows, decimal(parts["data"])), space)


def _refuse_other_format(entries: Mapping[str, np.ndarray], path: Path) -> None:
    found = entries["format"].item() if "format" in entries else "none"
    found = found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)
    if found != "csr":
        raise InputError(f"{path}: a sparse matrix in format {found}; wanted csr (convert it with .tocsr())")


def _ids_inside(entries: Mapping[str, np.ndarray], name: str) -> list[str] | None:
    if name not in entries:
        return None
    content = entries[name]  # bytes, since the entry's name does not end in .npy
    return [str(json.loads(line)["id"]) for line in bytes(content).split(b"\n") if line]


def _refuse_broken(parts: Mapping[str, np.ndarray], path: Path) -> None:
    """A matrix file is not to be trusted: scipy would read outside its arrays where it is wrong."""
    indptr, indices, data, shape = (parts[name] for name in ("indptr", "indices", "data", "shape"))
    whole = all(a.dtype.kind in "iu" for a in (indptr, indices, shape)) and data.dtype.kind in "fiub"
    if not whole or shape.shape != (2,) or any(a.ndim != 1 for a in (indptr, indices, data)):
        raise InputError(f"{path}: the arrays of this score matrix have the wrong type or shape")
    rises = len(indptr) == shape[0] + 1 and indptr[0] == 0 and np.all(indptr[1:] >= indptr[:-1])
    if not rises or indptr[-1] != len(indices) or len(indices) != len(data):
        raise InputError(f"{path}: indptr does not divide {len(indices)} entries into {shape[0]} rows")
    if len(indices) and not 0 <= indices.min() <= indices.max() < shape[1]:
        row = owners(indptr)[np.flatnonzero((indices < 0) | (indices >= shape[1]))[0]]
        raise InputError(f"{path}, row {row + 1}: a column is outside 0 to {shape[1] - 1}")


def _names(
    inside: list[str] | None, given: Sequence[str], n: int, what: str, given_what: str, path: Path
) -> list[str]:
    names = list(given) if inside is None else inside
    if len(names) != n:
        source = given_what if inside is None else "ids inside"
        raise InputError(f"{path}: {n} {what} in the score matrix but {len(names)} {source}; wanted as many")
    return names
