"""Exact search over all vectors, the kind that every other is measured against."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from xmc.artifacts import load_array
from xmc.encoders.writer import NpyAppender
from xmc.index import files
from xmc.index.base import Metric, check_rows
from xmc.index.store import VectorStore
from xmc.index.stored import StoredIndex


class ExactIndex(StoredIndex):
    """Exact top k by torch, on the CPU or a CUDA device."""

    kind = "exact"

    @classmethod
    def written(
        cls, path: Path, dim: int, metric: Metric, blocks: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> ExactIndex:
        """The index over blocks of (n,) rows, ascending from block to block, and their (n, dim) vectors.

        The vectors go to the npy file ``path`` and are mapped from it, so that they take no memory that the
        system could not take back.
        """
        index, rows = cls(dim, metric), [np.zeros(0, np.int64)]
        out = NpyAppender(path, "float32", (dim,))
        for at, vectors in blocks:
            rows.append(check_rows(at))
            out.append(index._stored_form(at, vectors).numpy())
        out.close()
        index._put(VectorStore(files.as_tensor(load_array(path)), np.concatenate(rows), rows[0]))
        return index
