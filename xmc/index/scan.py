"""Exact search: a coarse matrix product finds who can be among the best, the kernel says who is.

The coarse scores come in bf16 where the processor multiplies it faster. All rows above a threshold that no
row of the true top k can miss (:mod:`xmc.index.bounds`) are scored by the fixed-order kernel, and the best k
of them, equal scores in row order, are the answer: the same one whatever the blocks, the threads and the
coarse type. What is small is done in NumPy, whose steps do not wait for a team of threads. Memory is
bounded by the constants below, whatever the number of queries and rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from xmc.index.best import GROUP, RunningBest
from xmc.index.bounds import threshold
from xmc.index.kernel import pair_scores, rank_pairs
from xmc.index.store import VectorStore

# Coarse scores in memory at a time: on the CPU few enough for its caches (8 MB), else 64 MB in bf16. And the
# queries and the vectors that share a block at most; a single query is best served in more than one block.
CPU_SCORES = 2**21
DEVICE_SCORES = 2**25
BLOCK_QUERIES = 1024
BLOCK_VECTORS = 2**15
# Coarse scores at a time in the last pass, which keeps every one above the threshold.
DENSE_SCORES = 2**22
# The first block is small: it shows how many candidates the following need.
PROBE_QUERIES = 32
# Fewer queries read each vector too seldom to pay for a bf16 copy.
MIN_QUERIES_BF16 = 16
# A block's eligible vectors are copied out of it when they are less than this share.
SPARSE_SHARE = 0.25

Ranked = tuple[np.ndarray, np.ndarray]


def coarse_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the processor has instructions for its products, else float32."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    if device.type == "cpu" and supported is not None and supported():
        return torch.bfloat16
    return torch.float32


class _Plan:
    """The type of the coarse pass and how many candidates a query keeps in it; only speed depends on them."""

    def __init__(self, k: int, n_eligible: int, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._few = k + k // 2 + 32
        # Scoring more candidates than these would cost more than a product in fp32 does.
        self._most = max(4 * k, n_eligible // 128) + 64
        self.n_best = self._few if dtype == torch.float32 else self._most

    def learn(self, n_hits: np.ndarray) -> None:
        """Adapt to the (n,) numbers of candidates above the threshold in the last block."""
        usual = int(np.quantile(n_hits, 0.9))
        if self.dtype == torch.bfloat16 and usual > 3 * self._most // 4:
            self.dtype, self.n_best = torch.float32, self._few
        else:
            self.n_best = usual + usual // 8 + 8


class Scan:
    """Exact search over the eligible positions of a store."""

    def __init__(self, store: VectorStore, eligible: np.ndarray, tail_only: bool = False) -> None:
        """A scan over the positions where (n_positions,) ``eligible`` is True, of all or of the tail only."""
        self._store = store
        self._eligible = torch.from_numpy(eligible)
        n_main = len(store.main)
        self._segments = [(n_main, store.tail)] if tail_only else [(0, store.main), (n_main, store.tail)]
        self.n_eligible = int(np.count_nonzero(eligible[n_main if tail_only else 0 :]))

    def search(self, queries: Tensor, k: int) -> Ranked:
        """The min(k, n_eligible) best rows of (n, dim) ``queries``, and their scores, each (n, k')."""
        k = min(k, self.n_eligible)
        rows, scores = _empty(len(queries), k)
        if k == 0:
            return rows, scores
        dtype = coarse_dtype(queries.device) if len(queries) >= MIN_QUERIES_BF16 else torch.float32
        plan = _Plan(k, self.n_eligible, dtype)
        most = max(1, min(BLOCK_QUERIES, DEVICE_SCORES // (16 * k)))
        start = 0
        while start < len(queries):
            block = slice(start, start + (most if start else min(most, PROBE_QUERIES)))
            rows[block], scores[block] = self._search_block(queries[block], k, plan)
            start = block.stop
        return rows, scores

    def _search_block(self, queries: Tensor, k: int, plan: _Plan) -> Ranked:
        """A coarse pass; queries for which it cut off rows that could count go on to a finer one."""
        best, positions = self._coarse_best(queries, min(plan.n_best, self.n_eligible), plan.dtype)
        least = self._threshold(queries, best[:, k - 1], plan.dtype)
        hits = best >= least[:, None]
        cut = hits[:, -1] & (best.shape[1] < self.n_eligible)
        of_query, place = np.nonzero(hits & ~cut[:, None])
        rows, scores = self._rank(queries, of_query, positions[of_query, place], k)
        if cut.any():
            unsettled = queries[torch.from_numpy(cut).to(queries.device)]
            if plan.dtype == torch.float32:
                rows[cut], scores[cut] = self._search_above(unsettled, least[cut], k)
            else:
                finer = _Plan(k, self.n_eligible, torch.float32)
                rows[cut], scores[cut] = self._search_block(unsettled, k, finer)
        plan.learn(np.count_nonzero(hits, axis=1))
        return rows, scores

    def _search_above(self, queries: Tensor, least: np.ndarray, k: int) -> Ranked:
        """The answer from every row whose coarse fp32 score is at least the query's ``least``."""
        rows, scores = _empty(len(queries), k)
        step = max(1, DENSE_SCORES // len(self._store))
        for start in range(0, len(queries), step):
            block = slice(start, start + step)
            pairs = []
            above = torch.from_numpy(least[block, None]).to(queries.device)
            for at, coarse in self._coarse_scores(queries[block], DENSE_SCORES):
                of_query, place = (coarse[:, : len(at)] >= above).nonzero(as_tuple=True)
                pairs.append((of_query.cpu().numpy(), at[place].cpu().numpy()))
            of_queries, positions = (np.concatenate(part) for part in zip(*pairs, strict=True))
            rows[block], scores[block] = self._rank(queries[block], of_queries, positions, k)
        return rows, scores

    def _coarse_best(self, queries: Tensor, n_best: int, dtype: torch.dtype) -> Ranked:
        """(n, n_best) best coarse scores in descending order, as float32, and their positions."""
        best = RunningBest(len(queries), n_best, dtype, queries.device)
        for at, scores in self._coarse_scores(queries.to(dtype), _n_scores(queries.device)):
            best.add(at, scores)
        scores, positions = best.finish()
        return scores.cpu().float().numpy(), positions.cpu().numpy()

    def _coarse_scores(self, queries: Tensor, n_scores: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Positions (m,) and coarse scores (n, w), about ``n_scores`` at a time.

        For w see :class:`RunningBest`. They are -inf where not eligible and from column m on, and overwritten
        by the next ones.
        """
        width = max(1, min(n_scores // len(queries), BLOCK_VECTORS, len(self._store)) // GROUP) * GROUP
        room = queries.new_empty(len(queries) * width)
        for offset, segment in self._segments:
            vectors = segment.coarse(queries.dtype)
            for block in _even_blocks(len(vectors), width):
                eligible = self._eligible[offset + block.start : offset + block.stop]
                n_eligible = int(torch.count_nonzero(eligible))
                if not n_eligible:
                    continue
                at, sparse = torch.arange(block.start, block.stop), n_eligible < SPARSE_SHARE * len(eligible)
                if sparse:
                    at = at[eligible]
                at = at.to(queries.device)
                scores = _products(queries, vectors.index_select(0, at) if sparse else vectors[block], room)
                if n_eligible < len(at):
                    scores[:, : len(at)].masked_fill_(~eligible.to(queries.device), -torch.inf)
                yield at + offset, scores

    def _threshold(self, queries: Tensor, kth: np.ndarray, dtype: torch.dtype) -> np.ndarray:
        longest = max(segment.longest for _, segment in self._segments)
        loss = max(segment.loss for _, segment in self._segments) if dtype != torch.float32 else 0.0
        return threshold(queries, kth, dtype, longest, loss)

    def _rank(self, queries: Tensor, of_query: np.ndarray, positions: np.ndarray, k: int) -> Ranked:
        """Score the (n_pairs,) pairs by the kernel and keep each query's best k."""
        scores = pair_scores(queries, self._store.take, of_query, positions)
        return rank_pairs(of_query, self._store.row_at[positions], scores, len(queries), k)


def _n_scores(device: torch.device) -> int:
    return CPU_SCORES if device.type == "cpu" else DEVICE_SCORES


def _products(queries: Tensor, vectors: Tensor, room: Tensor) -> Tensor:
    """(n, w) inner products with the (m, dim) vectors, in ``room``; -inf from column m on."""
    n, m = len(queries), len(vectors)
    width = GROUP * math.ceil(m / GROUP)
    scores = room[: n * width].view(n, width)
    if n == 1:  # some libraries read the vectors faster this way
        torch.mv(vectors, queries[0], out=scores[0, :m])
    else:
        torch.mm(queries, vectors.T, out=scores[:, :m])
    scores[:, m:] = -torch.inf
    return scores


def _empty(n_queries: int, k: int) -> Ranked:
    return np.empty((n_queries, k), dtype=np.int64), np.empty((n_queries, k), dtype=np.float32)


def _even_blocks(n: int, most: int) -> Iterator[slice]:
    """0..n in the fewest blocks of at most ``most``, all of nearly the same size."""
    step = max(1, math.ceil(n / max(1, math.ceil(n / most))))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
