"""DocumentMemory: the training documents' vectors, ids and labels; gives neighbours and their votes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from xmc.artifacts import load_csr, save_csr
from xmc.encoders.windows import WindowVectors
from xmc.encoders.writer import VectorWriter, read_vectors
from xmc.errors import ArtifactError
from xmc.index.ann import AnnIndex
from xmc.index.base import LabelIndex, Shortlist
from xmc.index.kinds import load_index, make_index, save_index
from xmc.index.principal import NAME as PCA
from xmc.index.stored import StoredIndex

# From so many documents on, the nearest are sought in fewer coordinates. Exact search for one document reads
# the vectors of all, which took two thirds of the time of tagging with half a million.
MANY = 200_000
RECALL = 0.95  # of the exact nearest hundred, then
SHARPNESS = 4  # power of the similarity in a vote: near documents count far more than the crowd
IDS = "documents.arrow"
IDS_SCHEMA = pa.schema([("id", pa.large_string())])
REBUILD = "rebuild the model"


@dataclass(frozen=True)
class DocumentMemory:
    """``index`` over document rows; ``labels`` (n_docs, n_labels) ones; ``ids`` of the documents.

    ``windows``: the vectors of the documents' windows, None without a dense tower.
    """

    index: LabelIndex
    labels: sp.csr_matrix
    ids: pa.Array
    windows: WindowVectors | None = None

    @classmethod
    def over(
        cls, index: StoredIndex, labels: sp.csr_matrix, ids: pa.Array, windows: WindowVectors | None
    ) -> DocumentMemory:
        """A new memory by an exact ``index``, or by a faster one among ``MANY`` documents."""
        if index.n_searchable >= MANY and (near := AnnIndex.over(index, PCA, RECALL)).reached >= RECALL:
            return cls(near, labels, ids, windows)
        return cls(index, labels, ids, windows)

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    @property
    def frequency(self) -> np.ndarray:
        """(n_labels,) int64 how many documents carry each label."""
        return np.bincount(self.labels.indices, minlength=self.labels.shape[1])

    def neighbours(self, vectors: np.ndarray, k: int, among: np.ndarray | None = None) -> Shortlist:
        """The ``k`` most similar documents of each of (n, dim) vectors.

        ``among`` (n_docs,) bool: the documents that may be found; a training document that is looked up
        must be left out of it, or it would count itself.
        """
        return self.index.search(vectors, k, among)

    def votes(self, found: Shortlist) -> sp.csr_matrix:
        """(n, n_labels) for each label the share of the neighbours that carry it, by similarity**SHARPNESS.

        A share, and not a sum: it is on one scale for documents that are like no other and for the copy of
        one, whose like the fit never sees.
        """
        n, k = found.rows.shape
        weights = np.maximum(found.scores.astype(np.float64), 0) ** SHARPNESS
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        indptr = np.arange(0, n * k + 1, k) if k else np.zeros(n + 1, np.int64)
        carried = sp.csr_matrix((weights.ravel(), found.rows.ravel(), indptr), shape=(n, len(self)))
        votes = (carried @ self.labels.astype(np.float64)).tocsr()
        votes.sort_indices()
        return votes.astype(np.float32)

    @classmethod
    def empty(cls, dim: int, n_labels: int, windows_dim: int = 0) -> DocumentMemory:
        """A memory of no documents; ``windows_dim``: length of the vectors of windows, 0 for none."""
        none = np.zeros((0, windows_dim), np.float32)
        return cls(
            make_index("exact", dim, "cosine"),
            sp.csr_matrix((0, n_labels), dtype=np.float32),
            pa.array([], pa.large_string()),
            WindowVectors(none, none, np.zeros(1, np.int64)) if windows_dim else None,
        )

    def rows(self, ids: Sequence[str]) -> np.ndarray:
        """(n,) int64 rows of documents; -1 for an id that is not remembered."""
        found = pc.index_in(pa.array(ids, pa.large_string()), value_set=self.ids)
        return np.asarray(pc.fill_null(found, -1), np.int64)

    def widened(self, n_labels: int) -> DocumentMemory:
        """This memory among ``n_labels`` labels, as many as now or more."""
        if n_labels == self.labels.shape[1]:
            return self
        return replace(self, labels=wide(self.labels, n_labels))

    def extended(
        self, ids: Sequence[str], labels: sp.csr_matrix, vectors: np.ndarray, windows: WindowVectors | None
    ) -> DocumentMemory:
        """This memory and n more documents behind it.

        ``labels`` (n, n_labels) ones; ``vectors`` (n, dim), zero rows for documents without a vector;
        ``windows``: of these documents, left out where this memory has none.
        """
        index, rows = self.index.copy(), np.flatnonzero(vectors.any(axis=1))
        index.add(len(self) + rows, vectors[rows])
        return DocumentMemory(
            index,
            sp.vstack([self.labels, labels], format="csr", dtype=np.float32),
            pa.concat_arrays([self.ids, pa.array(ids, pa.large_string())]),
            None
            if self.windows is None or windows is None
            else WindowVectors.concat([self.windows, windows]),
        )

    def take(self, rows: np.ndarray) -> DocumentMemory:
        """A memory of the documents in the (n,) rows, in their order; it holds nothing of others."""
        index = self.index.renumbered(rows)
        index.compact()
        return DocumentMemory(
            index,
            self.labels[rows],
            self.ids.take(pa.array(rows)),
            None if self.windows is None else self.windows.take(rows),
        )

    def save(self, directory: Path, before: DocumentMemory | None = None) -> list[str]:
        """Write into a new directory what differs from ``before``, everything without it.

        Returns the names, of files or directories, under which ``before`` has the rest.
        """
        directory.mkdir(parents=True)
        kept = save_index(self.index, directory / "index", None if before is None else before.index)
        parts: list[tuple[str, str, Callable[[Path, Any], None]]] = [
            ("labels", "labels.npz", save_csr),
            ("ids", IDS, _save_ids),
            ("windows", "windows", _save_windows),
        ]
        for field, name, save in parts:
            part = getattr(self, field)
            if part is not None and part is getattr(before, field, None):
                kept.append(name)
            elif part is not None:
                save(directory / name, part)
        return kept

    @classmethod
    def load(cls, directory: Path, n_labels: int, device: str = "cpu") -> DocumentMemory:
        """Read what ``save`` wrote. Raises ArtifactError where the parts do not fit."""
        labels, ids = load_csr(directory / "labels.npz"), _load_ids(directory / IDS)
        if labels.shape != (len(ids), n_labels):
            raise ArtifactError(
                f"{directory}: {labels.shape[0]} documents and {labels.shape[1]} labels, wanted "
                f"{len(ids)} and {n_labels}; {REBUILD}"
            )
        if labels.dtype != np.float32 or not (labels.data == 1).all():
            raise ArtifactError(f"{directory / 'labels.npz'}: labels of documents are not ones; {REBUILD}")
        windows = read_vectors(directory / "windows") if (directory / "windows").is_dir() else None
        if windows is not None and len(windows) != len(ids):
            raise ArtifactError(
                f"{directory}: windows of {len(windows)} documents, wanted {len(ids)}; {REBUILD}"
            )
        return cls(load_index(directory / "index", len(ids), device), labels, ids, windows)


def wide(labels: sp.csr_matrix, n_labels: int) -> sp.csr_matrix:
    """The same (n_docs, n_labels) matrix with more columns."""
    return sp.csr_matrix((labels.data, labels.indices, labels.indptr), (labels.shape[0], n_labels))


def _save_ids(path: Path, ids: pa.Array) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, IDS_SCHEMA) as writer:
        writer.write_table(pa.table([ids], schema=IDS_SCHEMA))


def _save_windows(directory: Path, windows: WindowVectors) -> None:
    with VectorWriter(directory, windows.vectors.shape[1]) as out:
        out.append(windows)


def _load_ids(path: Path) -> pa.Array:
    """(n_docs,) ids from an Arrow file of one column."""
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ArtifactError(f"{path}: not readable: {reason}; {REBUILD}") from None
    if table.schema != IDS_SCHEMA or table.column("id").null_count:
        raise ArtifactError(f"{path}: holds no ids of documents; {REBUILD}")
    chunks = table.column("id").chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.large_string())
