"""Principal coordinates: the vectors along the directions in which they differ most, searched exactly.

Most of an inner product of long vectors lies in few directions (principal component analysis, the mean not
taken away, which inner products would notice). All vectors are read for a query, but a fraction of each, and
nothing has to be clustered: for many queries at a time this is a small matrix product, and it finds more than
inverted lists that read as much.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from xmc.artifacts import load_array, save_array
from xmc.errors import ArtifactError
from xmc.index.files import as_tensor
from xmc.index.kernel import pair_scores
from xmc.index.scan import Scan
from xmc.index.store import VectorStore
from xmc.index.structure import Effort, Structure

NAME = "pca"
DIMS = 192  # coordinates kept, of longer vectors
SAMPLE = 2**14  # vectors that the directions are taken from
BLOCK = 2**15  # vectors shortened at a time
# Candidates for each wanted result; more than these cost as much as reading the whole vectors.
FETCHES = (2, 4, 8, 16)


class Principal(Structure):
    """Proposes the best by the first coordinates.

    ``axes`` (m, dim): orthonormal directions; ``vectors`` (n, m): the stored vectors along them.
    """

    def __init__(self, axes: np.ndarray, vectors: np.ndarray) -> None:
        super().__init__(NAME)
        self.axes, self.vectors = axes, vectors
        self._store = VectorStore(as_tensor(vectors), np.arange(len(vectors)), np.zeros(0, np.int64))

    @classmethod
    def build(cls, vectors: np.ndarray) -> Principal:
        """Of (n, dim) vectors, n > 0."""
        spread = np.unique(np.linspace(0, len(vectors) - 1, min(len(vectors), SAMPLE)).astype(np.int64))
        sample = vectors[spread].astype(np.float64)
        directions = np.linalg.eigh(sample.T @ sample)[1]  # by ascending share
        axes = np.ascontiguousarray(directions[:, ::-1][:, :DIMS].T, np.float32)
        short = np.empty((len(vectors), len(axes)), np.float32)
        for start in range(0, len(vectors), BLOCK):
            np.matmul(vectors[start : start + BLOCK], axes.T, out=short[start : start + BLOCK])
        return cls(axes, short)

    @classmethod
    def load(cls, path: Path, n: int, dim: int) -> Principal:
        """What `save` wrote. Raises ArtifactError where it is not of ``n`` vectors of that length."""
        both = load_array(path)
        if both.dtype != np.float32 or both.ndim != 2 or len(both) != dim + n or not 0 < both.shape[1] <= dim:
            wanted = f"float32 ({dim + n}, 1 to {dim})"
            raise ArtifactError(
                f"{path}: found {both.dtype} {both.shape}, wanted {wanted}; rebuild the index"
            )
        return cls(np.ascontiguousarray(both[:dim].T), both[dim:])

    def efforts(self, k: int) -> Iterator[Effort]:
        """See :meth:`Structure.efforts`."""
        for fetch in FETCHES:
            yield Effort(1, fetch)
            if fetch * k >= len(self.vectors):
                return

    def candidates(self, queries: np.ndarray, n: int, breadth: int, mask: np.ndarray | None) -> np.ndarray:
        """See :meth:`Structure.candidates`."""
        eligible = np.ones(len(self.vectors), bool) if mask is None else mask
        rows = Scan(self._store, eligible).search(torch.from_numpy(self._short(queries)), n)[0]
        found = np.full((len(queries), n), -1, np.int64)
        found[:, : rows.shape[1]] = rows
        return found

    def _short(self, queries: np.ndarray) -> np.ndarray:
        """(n, m) the queries' coordinates, each the same in every batch."""
        n, m = len(queries), len(self.axes)
        pairs = np.repeat(np.arange(n), m), np.tile(np.arange(m), n)
        asked = torch.from_numpy(np.ascontiguousarray(queries))
        return pair_scores(asked, lambda at: self.axes.take(at, axis=0), *pairs).reshape(n, m)

    def save(self, path: Path) -> int:
        """See :meth:`Structure.save`."""
        save_array(path, np.concatenate([self.axes.T, self.vectors]))
        return path.stat().st_size

    def n_bytes(self) -> int:
        """See :meth:`Structure.n_bytes`."""
        return self.vectors.nbytes + self.axes.nbytes
