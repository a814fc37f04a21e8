"""Approximate search on the CPU, by FAISS or principal coordinates, behind the contract of exact search."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xmc.errors import ArtifactError
from xmc.index import files
from xmc.index.base import IndexInputError, Metric, check_vectors
from xmc.index.fitting import ANN_KINDS, fit
from xmc.index.kernel import pair_scores, rank_pairs, to_unit
from xmc.index.principal import NAME as PCA
from xmc.index.scan import Ranked, Scan
from xmc.index.store import VectorStore
from xmc.index.stored import StoredIndex
from xmc.index.structure import Effort, Structure
from xmc.index.structures import build_structure, load_structure

# Recall is measured at this many results, on this many queries.
TUNED_K = 100
TUNING_QUERIES = 200
# Efforts double until the recall is reached; then the last step is halved as often as this.
NARROWINGS = 3
# With a smaller share of the main segment eligible, exact search over them is the cheaper one.
MIN_ELIGIBLE = 0.1
# Where a structure is saved.
FAISS, PRINCIPAL = "index.faiss", "principal.npy"
# Candidates in memory at a time.
BLOCK_CANDIDATES = 2**21


class AnnIndex(StoredIndex):
    """A structure proposes candidates in the main segment, the kernel scores them; the tail is read exactly.

    The least effort is used that reached ``recall`` on sample queries. A query for which it proposes too
    few eligible candidates is searched exactly. It works on the CPU, so the vectors lie there.
    """

    MAIN_FILES = frozenset({files.MAIN, FAISS, PRINCIPAL})

    def __init__(
        self, kind: str, dim: int, metric: Metric = "cosine", recall: float = 0.99, strict: bool = False
    ) -> None:
        """An empty index of one of ``ANN_KINDS``.

        Args:
            kind: "hnsw", "cagra", "pca", "ivf_flat", "ivf_sq8" or "ivf_pq".
            dim: length of the vectors.
            metric: "cosine" or "ip".
            recall: the share of the exact answer that is to be found, above 0, at most 1.
            strict: refuse to build for too few vectors, instead of falling back to another kind.
        """
        super().__init__(dim, metric)
        if not 0 < recall <= 1:
            raise IndexInputError(f"index.recall={recall}: wanted a number above 0, at most 1")
        self.kind = kind
        self.recall = recall
        self.strict = strict
        self._structure: Structure | None = None
        self._effort = Effort(1, 1)
        self._tuned_k = TUNED_K
        self.reached = 1.0  # recall on the queries of the last build; 1 for exact search
        self._n_bytes = 0  # of the structure's file

    @classmethod
    def over(cls, index: StoredIndex, kind: str, recall: float) -> AnnIndex:
        """An index of ``kind`` over the vectors of another, which are shared and tuned with."""
        made = cls(kind, index.dim, index.metric, recall)
        made._put(index._store)
        made.compact()
        return made

    @property
    def built_as(self) -> str:
        """See :meth:`LabelIndex.built_as`."""
        return self._structure.name if self._structure else "exact"

    def compact(self, queries: np.ndarray | None = None) -> None:
        """See :meth:`LabelIndex.compact`."""
        asked = None if queries is None else check_vectors(queries, self.dim, "query")
        name, self.notice = fit(self.kind, self.n_searchable, self.strict)
        self._put(self._store.compacted())
        if name != "exact" and (unmet := self._build(name, self._sample(asked))):
            self.notice = f"{self.notice}; {unmet}" if self.notice else unmet

    def _build(self, name: str, queries: Tensor) -> str:
        """Build a structure over the main segment, tuned on (n, dim) queries; what is not reached, or ""."""
        self._structure = build_structure(name, self._store.main.vectors.numpy())
        self.reached = self._tune(queries, self._structure)
        if self.reached >= self.recall:
            return ""
        return f"index.recall={self.recall}: {name} reaches {self.reached:.3f} at most"

    @classmethod
    def _from_description(cls, path: Path, described: dict[str, Any], device: str) -> AnnIndex:
        recall: Any = described.get("recall")
        strict: Any = described.get("strict")
        sound = isinstance(recall, float) and 0 < recall <= 1 and isinstance(strict, bool)
        if described["kind"] not in ANN_KINDS or not sound:
            raise ArtifactError(f"{path}: does not describe a FAISS index; rebuild the index")
        return cls(described["kind"], described["dim"], described["metric"], recall, strict)

    def _put(self, store: VectorStore) -> None:
        super()._put(store)
        self._structure = None

    def _save_structure(self, directory: Path, without: frozenset[str]) -> dict[str, Any]:
        described: dict[str, Any] = {"recall": float(self.recall), "strict": self.strict, "structure": None}
        if self._structure:
            if (name := _file(self._structure.name)) not in without:
                self._n_bytes = self._structure.save(directory / name)
            described["structure"] = {
                "name": self._structure.name,
                "bytes": self._n_bytes,
                "breadth": self._effort.breadth,
                "fetch": self._effort.fetch,
                "tuned_k": self._tuned_k,
            }
        return described

    def _load_structure(self, directory: Path, described: dict[str, Any]) -> None:
        found = described.get("structure")
        if found is None:
            return
        numbers = ("bytes", "breadth", "fetch", "tuned_k")
        sound = isinstance(found, dict) and all(type(found.get(n)) is int and found[n] > 0 for n in numbers)
        if not sound or found.get("name") not in ANN_KINDS:
            raise ArtifactError(f"{directory / 'index.json'}: structure is damaged; rebuild the index")
        n_main = len(self._store.main)
        path, self._n_bytes = directory / _file(found["name"]), found["bytes"]
        self._structure = load_structure(path, found["name"], n_main, self.dim, found["bytes"])
        self._effort = Effort(found["breadth"], found["fetch"])
        self._tuned_k = found["tuned_k"]

    def _best(self, queries: Tensor, k: int, eligible: np.ndarray) -> Ranked:
        n_main = len(self._store.main)
        n_eligible = int(np.count_nonzero(eligible[:n_main]))
        if self._structure is None or n_eligible < MIN_ELIGIBLE * n_main or k == 0:
            return Scan(self._store, eligible).search(queries, k)
        rows, scores = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        step = max(1, BLOCK_CANDIDATES // (k * self._effort.fetch))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            rows[block], scores[block] = self._search_block(queries[block], k, eligible, n_eligible)
        return rows, scores

    def _search_block(self, queries: Tensor, k: int, eligible: np.ndarray, n_eligible: int) -> Ranked:
        """The main segment's candidates and the tail's best, ranked together."""
        found = self._candidates(queries, k, eligible, n_eligible)
        of_query, place = np.nonzero(found >= 0)
        positions = found[of_query, place]
        scores = pair_scores(queries, self._store.take, of_query, positions)
        rows = self._store.row_at[positions]
        if len(self._store.tail):
            tail_rows, tail_scores = Scan(self._store, eligible, tail_only=True).search(queries, k)
            of_query = np.concatenate((of_query, np.repeat(np.arange(len(queries)), tail_rows.shape[1])))
            rows = np.concatenate((rows, tail_rows.ravel()))
            scores = np.concatenate((scores, tail_scores.ravel()))
        ranked_rows, ranked_scores = rank_pairs(of_query, rows, scores, len(queries), k)
        short = np.count_nonzero(found >= 0, axis=1) < min(k, n_eligible)
        if short.any():
            exact = Scan(self._store, eligible).search(queries[torch.from_numpy(short)], k)
            ranked_rows[short], ranked_scores[short] = exact
        return ranked_rows, ranked_scores

    def _candidates(self, queries: Tensor, k: int, eligible: np.ndarray, n_eligible: int) -> np.ndarray:
        """(n_queries, n) positions in the main segment, -1 where there are fewer.

        The effort grows with the results wanted and with the share of vectors that do not count.
        """
        n_main = len(self._store.main)
        mask = None if n_eligible == n_main else eligible[:n_main]
        effort = max(1.0, k / self._tuned_k) * n_main / n_eligible
        breadth = math.ceil(self._effort.breadth * effort)
        n = min(self._effort.fetch * k, n_eligible)
        if self._structure is None:
            return np.empty((len(queries), 0), dtype=np.int64)
        return self._structure.candidates(queries.numpy(), n, breadth, mask)

    def _tune(self, queries: Tensor, structure: Structure) -> float:
        """Take the least effort that reaches the wanted recall on the (n, dim) queries; what was reached.

        It must be reached by more than one standard error, so that other queries are likely to reach it too.
        """
        live = self._store.live
        self._tuned_k = min(TUNED_K, int(np.count_nonzero(live)))
        _, exact = Scan(self._store, live).search(queries, self._tuned_k)
        before = None
        for effort in structure.efforts(self._tuned_k):
            sure, mean = self._measured(effort, queries, exact)
            if sure >= self.recall:
                return mean if before is None else self._narrowed(before, effort, queries, exact)
            before = effort
        return min(mean, np.nextafter(self.recall, 0)) if before else 0.0

    def _narrowed(self, low: Effort, high: Effort, queries: Tensor, exact: np.ndarray) -> float:
        """Take a breadth between one that is too small and one that is enough; the recall reached."""
        for _ in range(NARROWINGS if low.fetch == high.fetch else 0):
            middle = Effort((low.breadth + high.breadth) // 2, high.fetch)
            if self._measured(middle, queries, exact)[0] >= self.recall:
                high = middle
            else:
                low = middle
        return self._measured(high, queries, exact)[1]

    def _measured(self, effort: Effort, queries: Tensor, exact: np.ndarray) -> tuple[float, float]:
        """Recall with this effort, from now on the one used: less one standard error, and as measured."""
        self._effort = effort
        _, scores = self._best(queries, self._tuned_k, self._store.live)
        each = np.mean(scores >= exact[:, -1:], axis=1)
        return float(each.mean() - each.std() / np.sqrt(len(each))), float(each.mean())

    def _sample(self, queries: np.ndarray | None) -> Tensor:
        """(n, dim) queries to tune with, spread over the given ones or over the stored vectors."""
        if queries is None or not len(queries):
            spread = np.linspace(0, len(self._store.main) - 1, TUNING_QUERIES).astype(np.int64)
            return torch.as_tensor(self._store.take(np.unique(spread)))
        spread = np.unique(np.linspace(0, len(queries) - 1, TUNING_QUERIES).astype(np.int64))
        return torch.from_numpy(to_unit(queries[spread]) if self.metric == "cosine" else queries[spread])


def _file(name: str) -> str:
    """The file of the structure of that name."""
    return PRINCIPAL if name == PCA else FAISS
