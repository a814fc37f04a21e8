"""The XMC repository's score matrix: a scipy CSR file (npz), with the ids of its rows and columns inside."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from xmc.tag.lines import to_bytes
from xmc.tag.writers import SuggestionFormat

if TYPE_CHECKING:
    from xmc.data.labels import LabelSet
    from xmc.tag.suggestions import Suggestions

DOCUMENTS = "documents.jsonl"
LABELS = "labels.jsonl"
_LABEL_BATCH = 65536
# A zip entry holds a time; a fixed one keeps equal scores equal bytes.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


class ScoreMatrix(SuggestionFormat):
    """(n_docs, n_labels) float32 CSR matrix of scores; ``scipy.sparse.load_npz`` reads it.

    Column indices rise within a row; a score of 0 is stored. Two more entries of the file, which scipy
    passes over, name rows and columns: ``documents.jsonl`` (``{"id"[, "reason"]}`` a line) and
    ``labels.jsonl`` (``{"id", "text"}`` a line); ``numpy.load(OUT)["documents.jsonl"]`` gives their bytes.
    Merging reads every part once for each entry and holds one shard at a time.
    """

    name = "the score matrix (npz)"

    def encode(self, suggestions: Suggestions, labels: LabelSet) -> bytes:
        """A small npz: data, indices and row lengths of a shard, and its documents' lines."""
        shape = (len(suggestions), len(labels))
        parts = (suggestions.scores, suggestions.rows, suggestions.indptr)
        # A copy, since sorting works in place.
        matrix = scipy.sparse.csr_matrix(parts, shape, copy=True)
        matrix.sort_indices()
        documents = b"".join(_document_lines(suggestions))
        sink = io.BytesIO()
        np.savez(
            sink,
            data=matrix.data,
            indices=matrix.indices.astype(np.int64),
            counts=suggestions.counts,
            documents=np.frombuffer(documents, dtype=np.uint8),
        )
        return sink.getvalue()

    def merge(self, parts: Sequence[Path], out: Path, labels: LabelSet) -> None:
        """One compressed npz with the entries that ``scipy.sparse.save_npz`` writes, and the ids."""
        n_docs = sum(len(counts) for counts in _each(parts, "counts"))
        n = sum(int(counts.sum()) for counts in _each(parts, "counts"))
        index_type = np.dtype(scipy.sparse.get_index_dtype(maxval=max(n, len(labels))))
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            _write(archive, "indices.npy", (n,), index_type, _each(parts, "indices"))
            _write(archive, "indptr.npy", (n_docs + 1,), index_type, _offsets(parts))
            _write(archive, "format.npy", (), np.dtype("S3"), [np.array(b"csr")])
            _write(archive, "shape.npy", (2,), np.dtype(np.int64), [np.array([n_docs, len(labels)])])
            _write(archive, "data.npy", (n,), np.dtype(np.float32), _each(parts, "data"))
            with archive.open(_entry(DOCUMENTS), "w", force_zip64=True) as sink:
                _copy(sink, (lines.tobytes() for lines in _each(parts, "documents")))
            with archive.open(_entry(LABELS), "w", force_zip64=True) as sink:
                _copy(sink, _label_lines(labels))


def _document_lines(suggestions: Suggestions) -> Iterator[bytes]:
    for doc_id, reason in zip(suggestions.doc_ids, suggestions.reasons, strict=True):
        yield _line({"id": doc_id, "reason": reason} if reason else {"id": doc_id})


def _label_lines(labels: LabelSet) -> Iterator[bytes]:
    for start in range(0, len(labels), _LABEL_BATCH):
        ids = labels.ids.slice(start, _LABEL_BATCH).to_pylist()
        texts = labels.texts.slice(start, _LABEL_BATCH).to_pylist()
        yield b"".join(_line({"id": i, "text": t or ""}) for i, t in zip(ids, texts, strict=True))


def _line(entry: dict[str, str]) -> bytes:
    return to_bytes(json.dumps(entry, ensure_ascii=False)) + b"\n"


def _each(parts: Sequence[Path], name: str) -> Iterator[np.ndarray]:
    for part in parts:
        with np.load(part, allow_pickle=False) as arrays:
            yield arrays[name]


def _offsets(parts: Sequence[Path]) -> Iterator[np.ndarray]:
    end = 0
    yield np.zeros(1, dtype=np.int64)
    for counts in _each(parts, "counts"):
        ends = end + np.cumsum(counts, dtype=np.int64)
        end = int(ends[-1]) if len(ends) else end
        yield ends


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_NO_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


def _write(
    archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], dtype: np.dtype, chunks: Iterable[np.ndarray]
) -> None:
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    with archive.open(_entry(name), "w", force_zip64=True) as sink:
        np.lib.format.write_array_header_1_0(sink, header)
        _copy(sink, (np.ascontiguousarray(chunk, dtype=dtype).tobytes() for chunk in chunks))


def _copy(sink: IO[bytes], chunks: Iterable[bytes]) -> None:
    write: Callable[[bytes], object] = sink.write
    for chunk in chunks:
        write(chunk)


def load_scores(source: IO[bytes]) -> tuple[scipy.sparse.csr_matrix, list[dict[str, str]], list[str]]:
    """The matrix, an entry a row (``{"id"[, "reason"]}``) and the label id of each column.

    Raises: ValueError or KeyError if the parts are missing or do not fit together.
    """
    matrix: Any = scipy.sparse.load_npz(source)
    source.seek(0)
    with np.load(source, allow_pickle=False) as entries:
        documents = [json.loads(line) for line in entries[DOCUMENTS].splitlines()]
        labels = [json.loads(line)["id"] for line in entries[LABELS].splitlines()]
    if matrix.format != "csr" or matrix.shape != (len(documents), len(labels)):
        raise ValueError(
            f"{matrix.format} {matrix.shape} for {len(documents)} documents, {len(labels)} labels"
        )
    matrix.check_format(full_check=True)
    return matrix, documents, labels
