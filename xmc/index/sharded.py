"""Exact search over the parts of an index that does not fit, or is too slow on, one device.

Scores come from the fixed-order kernel, which gives a pair the same bits everywhere. So the best of all parts
together, equal scores in row order, are to the bit what one index over all rows would find.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from xmc.index.base import IndexInputError, Shortlist, check_allowed, check_k, check_vectors
from xmc.index.exact import ExactIndex
from xmc.index.kernel import rank_pairs, to_unit
from xmc.index.stored import StoredIndex


class ShardedSearch:
    """Searches the labels of an index, which lie spread over several devices, as that index would.

    It holds copies of the vectors: what is changed in the index later is not seen.
    """

    def __init__(self, index: StoredIndex, devices: Sequence[str]) -> None:
        """The searchable labels of ``index``, in as many parts of the same size as there are devices.

        Args:
            index: whose labels are searched; its vectors may be mapped from a file.
            devices: where the parts shall lie, as in "cuda:0", "cuda:1"; a device may stand there more often.

        Raises:
            IndexInputError: there are no devices.
            ResourceError: a device is missing.
        """
        if not devices:
            raise IndexInputError("index: found no devices for the parts, wanted at least one")
        self.dim, self.metric, self.n_rows = index.dim, index.metric, index.n_rows
        self._parts = []
        for rows, device in zip(np.array_split(index.searchable_rows, len(devices)), devices, strict=True):
            part = ExactIndex(index.dim, "ip", device)  # vectors for "cosine" are of unit length already
            part.add(rows, index.vectors(rows))
            part.compact()
            self._parts.append(part)

    def search(self, queries: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Shortlist:
        """See :meth:`LabelIndex.search`."""
        k = check_k(k)
        queries = check_vectors(queries, self.dim, "query")
        mask = check_allowed(allowed, self.n_rows)
        asked = to_unit(queries) if self.metric == "cosine" else queries
        with ThreadPoolExecutor(len(self._parts)) as pool:
            found = list(pool.map(lambda part: part.search(asked, k, mask), self._parts))
        rows = np.concatenate([part.rows for part in found], axis=1)
        scores = np.concatenate([part.scores for part in found], axis=1)
        of_query = np.repeat(np.arange(len(rows)), rows.shape[1])
        n_best = min(k, rows.shape[1])
        return Shortlist(*rank_pairs(of_query, rows.ravel(), scores.ravel(), len(rows), n_best))
