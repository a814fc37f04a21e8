"""``index.kind=auto``: the search that suits the number of labels, the use, the memory and the recall wanted.

For batches exact search is a matrix product, which approximate kinds hardly beat at high recall; it is left
only where its vectors do not fit the memory. A single query reads every vector in exact search, so there a
graph wins by far as soon as there are many. What is chosen has been measured on the vectors at hand.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from xmc.artifacts.space import available_memory, size_text
from xmc.errors import ArtifactError, ResourceError
from xmc.index.ann import AnnIndex
from xmc.index.base import USES, IndexInputError, Metric, check_vectors
from xmc.index.fitting import points_needed
from xmc.index.native import load_faiss
from xmc.index.scan import Scan
from xmc.index.structures import resident_bytes

# So few numbers are read in some milliseconds: nothing is worth building for single queries.
FEW_NUMBERS = 2**23
# In which order kinds are tried: by speed at high recall, and by memory.
ORDER: dict[str, tuple[str, ...]] = {"single": ("hnsw", "ivf_sq8", "ivf_pq"), "batch": ("ivf_sq8", "ivf_pq")}
TIMED_QUERIES = 5
UNKNOWN_MEMORY = 8 * 10**9


class AutoIndex(AnnIndex):
    """Exact search, or the first kind that fits the memory, reaches the recall and is faster.

    Vectors of an approximate kind stay in their file, from which candidates are rescored, so they do not
    count as memory: the system takes pages of files back when it needs them.
    """

    kind = "auto"

    def __init__(
        self, dim: int, metric: Metric = "cosine", recall: float = 0.99, use: str = "batch", memory: int = 0
    ) -> None:
        """An empty index; see :func:`xmc.index.kinds.make_index`.

        Raises:
            IndexInputError: recall, use or memory is out of range.
        """
        super().__init__(self.kind, dim, metric, recall)
        if use not in USES or memory < 0:
            raise IndexInputError(
                f"index: use is {use!r}, memory {memory}; wanted {' or '.join(USES)}, and 0 or more bytes"
            )
        self.use = use
        self.memory = memory

    def compact(self, queries: np.ndarray | None = None) -> None:
        """See :meth:`LabelIndex.compact`."""
        asked = None if queries is None else check_vectors(queries, self.dim, "query")
        self._put(self._store.compacted())
        self.notice, self.reached = "", 1.0
        n, n_bytes = len(self._store.main), 4 * self.dim * len(self._store.main)
        allowed = self.memory or (available_memory() or UNKNOWN_MEMORY) // 2
        if n * self.dim <= FEW_NUMBERS:
            self.choice = f"exact search, for {n:,} labels are few enough to read them all"
        elif self.use == "batch" and n_bytes <= allowed:
            fits = f"{size_text(n_bytes)} of vectors fit index.memory ({size_text(allowed)})"
            self.choice = f"exact search, for {fits} and batches are searched fastest that way"
        else:
            self._choose(self._sample(asked), allowed, n_bytes)

    def _choose(self, queries: Tensor, allowed: int, exact_bytes: int) -> None:
        """Try the kinds in turn; exact search where none of them will do."""
        failed, limit = [], self._seconds(queries)
        try:
            load_faiss()
        except ResourceError as error:
            self.choice, self.notice = "exact search, for FAISS is missing", str(error)
            return
        for name in ORDER[self.use]:
            if reason := self._try(name, queries, allowed, limit):
                failed.append(reason)
            else:
                self.choice = "; ".join([self.choice, *failed])
                return
        self._structure, self.reached = None, 1.0
        self.choice = "; ".join(["exact search", *failed])
        if exact_bytes > allowed:
            self.notice = (
                f"index.memory: exact search reads {size_text(exact_bytes)} of vectors, more than "
                f"{size_text(allowed)}; choose a lower index.recall or more memory"
            )

    def _try(self, name: str, queries: Tensor, allowed: int, limit: float) -> str:
        """Build a kind if it fits; why it will not do, or "" and ``choice`` says what was measured.

        ``allowed``: bytes that it may take; ``limit``: seconds of an exact query.
        """
        n = len(self._store.main)
        if n < points_needed(name):
            return f"{name} needs {points_needed(name):,} vectors"
        need = resident_bytes(name, n, self.dim)
        if need > allowed:
            return f"{name} needs {size_text(need)}, index.memory is {size_text(allowed)}"
        if unmet := self._build(name, queries):
            return unmet
        seconds = self._seconds(queries)
        if self.use == "single" and seconds >= limit:
            return f"{name} takes {1000 * seconds:.1f} ms a query, exact search {1000 * limit:.1f}"
        measured = f"recall {self.reached:.3f} of {self._tuned_k} on {len(queries)} queries"
        speed = f"{1000 * seconds:.1f} ms a query, exact search {1000 * limit:.1f} ms"
        self.choice = f"{name}, {measured}, {speed}, {size_text(need)}"
        return ""

    def _seconds(self, queries: Tensor) -> float:
        """Of a single query, the best of a few, by the structure or without one exactly."""
        live, best = self._store.live, float("inf")
        k = min(self._tuned_k, int(np.count_nonzero(live)))
        for i in range(min(TIMED_QUERIES, len(queries))):
            start = time.perf_counter()
            if self._structure is None:
                Scan(self._store, live).search(queries[i : i + 1], k)
            else:
                self._best(queries[i : i + 1], k, live)
            best = min(best, time.perf_counter() - start)
        return best

    @classmethod
    def _from_description(cls, path: Path, described: dict[str, Any], device: str) -> AutoIndex:
        recall: Any = described.get("recall")
        use: Any = described.get("use")
        memory: Any = described.get("memory")
        sound = isinstance(recall, float) and type(memory) is int and use in USES
        if described["kind"] != cls.kind or not sound:
            raise ArtifactError(f"{path}: does not describe a chosen index; rebuild the index")
        try:
            return cls(described["dim"], described["metric"], recall, use, memory)
        except IndexInputError as error:
            raise ArtifactError(f"{path}: {error}; rebuild the index") from None

    def _save_structure(self, directory: Path, without: frozenset[str]) -> dict[str, Any]:
        return super()._save_structure(directory, without) | {"use": self.use, "memory": self.memory}
