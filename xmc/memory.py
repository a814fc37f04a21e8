"""DocumentMemory: the training documents' vectors, ids and labels; gives neighbours and their votes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xmc.artifacts import load_csr, save_csr
from xmc.encoders.windows import WindowVectors
from xmc.encoders.writer import VectorWriter, read_vectors
from xmc.errors import ArtifactError
from xmc.index.base import LabelIndex, Shortlist
from xmc.index.kinds import load_index

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
        """(n, n_labels) for each label the neighbours that carry it, weighted by similarity**SHARPNESS."""
        n, k = found.rows.shape
        weights = np.maximum(found.scores.astype(np.float64), 0) ** SHARPNESS
        indptr = np.arange(0, n * k + 1, k) if k else np.zeros(n + 1, np.int64)
        carried = sp.csr_matrix((weights.ravel(), found.rows.ravel(), indptr), shape=(n, len(self)))
        votes = (carried @ self.labels.astype(np.float64)).tocsr()
        votes.sort_indices()
        return votes.astype(np.float32)

    def save(self, directory: Path) -> None:
        """Write index, labels and ids into a new directory."""
        (directory / "index").mkdir(parents=True)
        self.index.save(directory / "index")
        save_csr(directory / "labels.npz", self.labels)
        table = pa.table([self.ids], schema=IDS_SCHEMA)
        with pa.OSFile(str(directory / IDS), "wb") as sink, pa.ipc.new_file(sink, IDS_SCHEMA) as writer:
            writer.write_table(table)
        if self.windows is not None:
            with VectorWriter(directory / "windows", self.windows.vectors.shape[1]) as out:
                out.append(self.windows)

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
