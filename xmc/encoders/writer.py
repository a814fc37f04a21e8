"""Vectors and sparse features of any number of texts on disk, written batch by batch in bounded memory.

A directory holds ``vectors.npy`` (n_texts, dim), ``windows.npy`` (n_windows, dim) float16 and ``indptr.npy``
(n_texts + 1,) int64: the fields of ``WindowVectors``, read back with memory maps.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import numpy as np
import scipy.sparse as sp

from xmc.artifacts import load_array
from xmc.encoders.windows import WindowVectors
from xmc.errors import ArtifactError

ARRAYS = ("vectors", "windows", "indptr")
HEADER = 128  # bytes; room for any row count, and data that starts at a multiple of 64


class NpyAppender:
    """An npy file that grows by rows; :meth:`close` writes into its header how many there are."""

    def __init__(self, path: Path, dtype: str, row: tuple[int, ...] = ()):
        self._dtype, self._row, self._n = np.dtype(dtype).newbyteorder("<"), row, 0
        path.unlink(missing_ok=True)  # who has mapped an older one keeps it
        self._file = path.open("wb")
        self._file.write(self._header())

    def append(self, rows: np.ndarray) -> None:
        """Adds rows (n, *row)."""
        if rows.shape[1:] != self._row:
            raise ValueError(f"rows of shape {rows.shape[1:]}, wanted {self._row}")
        self._file.write(np.ascontiguousarray(rows, self._dtype).data)
        self._n += len(rows)

    def close(self) -> None:
        """Completes the file."""
        self._file.seek(0)
        self._file.write(self._header())
        self._file.close()

    def _header(self) -> bytes:
        shape = (self._n, *self._row)
        text = f"{{'descr': {self._dtype.str!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
        body = text.encode().ljust(HEADER - 11) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


class VectorWriter:
    """Appends :class:`WindowVectors` to the three files of a directory. A context manager.

    Args:
        directory: made if missing; files of these names in it are replaced.
        dim: width of the vectors.
        dtype: of ``vectors.npy``, ``float32`` or ``float16``.
    """

    def __init__(self, directory: Path, dim: int, dtype: str = "float32"):
        directory.mkdir(parents=True, exist_ok=True)
        self._vectors = NpyAppender(directory / "vectors.npy", dtype, (dim,))
        self._windows = NpyAppender(directory / "windows.npy", "float16", (dim,))
        self._indptr = NpyAppender(directory / "indptr.npy", "int64")
        self._indptr.append(np.zeros(1, np.int64))
        self._n_windows = 0

    def append(self, batch: WindowVectors) -> None:
        """Adds a batch's texts behind the ones that are there."""
        self._vectors.append(batch.vectors)
        self._windows.append(batch.windows)
        self._indptr.append(batch.indptr[1:] + self._n_windows)
        self._n_windows += len(batch.windows)

    def close(self) -> None:
        """Complete the files."""
        for file in (self._vectors, self._windows, self._indptr):
            file.close()

    def __enter__(self) -> VectorWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


class FeatureWriter:
    """Appends sparse rows to three npy files of a directory, to be read with :func:`read_features`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._data = NpyAppender(directory / "data.npy", "float32")
        self._indices = NpyAppender(directory / "indices.npy", "int32")
        self._indptr = NpyAppender(directory / "indptr.npy", "int64")
        self._indptr.append(np.zeros(1, np.int64))
        self._n = 0

    def append(self, rows: sp.csr_matrix) -> None:
        """Adds (n, n_features) rows behind the ones that are there."""
        self._data.append(rows.data)
        self._indices.append(rows.indices)
        self._indptr.append(rows.indptr[1:].astype(np.int64) + self._n)
        self._n += rows.nnz

    def close(self) -> None:
        """Complete the files."""
        for file in (self._data, self._indices, self._indptr):
            file.close()


def read_features(directory: Path, n_features: int) -> sp.csr_matrix:
    """(n, n_features) rows as read-only memory maps."""
    parts = [load_array(directory / f"{name}.npy") for name in ("data", "indices", "indptr")]
    return sp.csr_matrix(tuple(parts), (len(parts[2]) - 1, n_features), copy=False)


def read_vectors(directory: Path) -> WindowVectors:
    """The vectors of a directory as read-only memory maps, with their shapes checked against each other.

    Raises:
        ArtifactError: a file is missing, cut, or does not fit the others.
    """
    vectors, windows, indptr = (load_array(directory / f"{name}.npy") for name in ARRAYS)
    whole = vectors.ndim == windows.ndim == 2 and indptr.ndim == 1 and indptr.dtype == np.int64
    if not whole or vectors.dtype.kind != "f" or windows.dtype.kind != "f":
        raise ArtifactError(f"{directory}: arrays that hold no vectors; encode again")
    fits = len(indptr) == len(vectors) + 1 and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
    if not fits or indptr[-1] != len(windows) or vectors.shape[1] != windows.shape[1]:
        raise ArtifactError(
            f"{directory}: {len(vectors)} vectors, {len(windows)} windows and {len(indptr)} bounds "
            "do not fit each other; encode again"
        )
    return WindowVectors(vectors, windows, indptr)
