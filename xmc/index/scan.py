"""Exact search: a coarse matrix product finds who can be among the best, the kernel says who is.

The coarse product is one in bf16 where the processor multiplies it faster, else in 8-bit levels where there
are many queries. Its best k rows are scored by the fixed-order kernel. From the k-th of these scores follows
a threshold that no row of the true top k can miss (:mod:`xmc.index.bounds`); the kernel scores all rows above
it, and the best k of them, equal scores in row order, are the answer: the same one whatever the blocks, the
threads and the coarse type. What is small is done in NumPy, whose steps do not wait for a team of threads.
Memory is bounded by the constants below, whatever the number of queries and rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from xmc.artifacts.space import available_memory
from xmc.index import levels
from xmc.index.best import GROUP, RunningBest
from xmc.index.bounds import threshold
from xmc.index.kernel import pair_scores, rank_pairs
from xmc.index.segment import Segment
from xmc.index.store import VectorStore

# Coarse scores in memory at a time: on the CPU few enough for its caches (8 MB), else 64 MB in bf16. And the
# queries and the vectors that share a block at most; a single query is best served in more than one block.
CPU_SCORES = 2**21
DEVICE_SCORES = 2**25
BLOCK_QUERIES = 1024
BLOCK_VECTORS = 2**15
# Coarse scores at a time in the last pass, which keeps every one above the threshold.
DENSE_SCORES = 2**22
# The first block is small: it shows how many candidates the following need. That many searches remember it.
PROBE_QUERIES = 32
MOST_PLANS = 64
# Fewer queries read each vector too seldom to pay for a bf16 copy.
MIN_QUERIES_BF16 = 16
# Products in levels are faster only where so many queries share a block, and the levels are made only when so
# many queries came in all, over so many vectors of which this share counts.
MIN_QUERIES_LEVELS = 128
QUERIES_PAY_LEVELS = 512
MIN_VECTORS_LEVELS = 2**14
MIN_SHARE_LEVELS = 0.5
# A block's eligible vectors are copied out of it when they are less than this share.
SPARSE_SHARE = 0.25

Ranked = tuple[np.ndarray, np.ndarray]


def coarse_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the CPU has instructions for its products, int8 (levels) where not, else float32."""
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    if device.type != "cpu":
        return torch.float32
    if supported is not None and supported():
        return torch.bfloat16
    return torch.int8 if levels.available() else torch.float32


class _Plan:
    """The type of the coarse pass and how many candidates a query keeps in it; only speed depends on them."""

    def __init__(self, k: int, n_eligible: int, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._few = k + k // 2 + 32
        # Scoring more candidates than these would cost more than a product in fp32 does.
        self._most = k + n_eligible // 128 + 64
        self.n_best = self._few if dtype == torch.float32 else self._most

    def learn(self, n_hits: np.ndarray) -> None:
        """Adapt to the (n,) numbers of candidates above the threshold in the last block.

        A query that has more than are kept costs another pass over all vectors, so nearly all shall fit.
        """
        if self.dtype != torch.float32 and np.quantile(n_hits, 0.9) > 3 * self._most // 4:
            self.dtype, self.n_best = torch.float32, self._few
        else:
            usual = int(np.quantile(n_hits, 0.99))
            self.n_best = usual + usual // 4 + 8


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
        plan, probe = self._plan(k, self._coarse_dtype(queries))
        most = max(1, min(BLOCK_QUERIES, DEVICE_SCORES // (16 * k)))
        start = 0
        while start < len(queries):
            block = slice(start, start + (most if start else min(most, probe)))
            rows[block], scores[block] = self._search_block(queries[block], k, plan)
            start = block.stop
        return rows, scores

    def _plan(self, k: int, dtype: torch.dtype) -> tuple[_Plan, int]:
        """The plan of the last such search, or a new one; and how many queries the first block may have."""
        plans, key = self._store.main.plans, (k, self.n_eligible, dtype)
        if key in plans:
            return plans[key], BLOCK_QUERIES
        if len(plans) >= MOST_PLANS:
            plans.clear()
        plans[key] = _Plan(k, self.n_eligible, dtype)
        return plans[key], PROBE_QUERIES

    def _coarse_dtype(self, queries: Tensor) -> torch.dtype:
        """The type of the first coarse pass for (n, dim) queries."""
        main, dtype = self._store.main, coarse_dtype(queries.device)
        if len(queries) < (MIN_QUERIES_LEVELS if dtype == torch.int8 else MIN_QUERIES_BF16):
            return torch.float32
        if dtype != torch.int8:
            return dtype
        main.asked += len(queries)
        many = len(main) >= MIN_VECTORS_LEVELS and main.asked >= QUERIES_PAY_LEVELS
        whole = self._segments[0][1] is main and self.n_eligible >= MIN_SHARE_LEVELS * len(main)
        return torch.int8 if many and whole and _room_for_levels(main) else torch.float32

    def _search_block(self, queries: Tensor, k: int, plan: _Plan) -> Ranked:
        """A coarse pass; queries for which it cut off rows that could count go on to a finer one."""
        best, positions, asked = self._coarse_best(queries, min(plan.n_best, self.n_eligible), plan.dtype)
        of_query, at = np.repeat(np.arange(len(queries)), k), positions[:, :k].ravel()
        found = self._scores(queries, of_query, at)
        least = self._threshold(queries, asked, found.reshape(-1, k).min(axis=1), plan.dtype)
        hits = best >= least[:, None]
        cut = hits[:, -1] & (best.shape[1] < self.n_eligible)
        more, place = np.nonzero(hits[:, k:] & ~cut[:, None])
        more_at = positions[more, place + k]
        found = np.concatenate((found, self._scores(queries, more, more_at)))
        of_query, at = np.concatenate((of_query, more)), np.concatenate((at, more_at))
        rows, scores = rank_pairs(of_query, self._store.row_at[at], found, len(queries), k)
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
            for at, coarse in self._coarse_scores(queries[block], DENSE_SCORES, torch.float32):
                of_query, place = (coarse[:, : len(at)] >= above).nonzero(as_tuple=True)
                pairs.append((of_query.cpu().numpy(), at[place].cpu().numpy()))
            of_queries, positions = (np.concatenate(part) for part in zip(*pairs, strict=True))
            found = self._scores(queries[block], of_queries, positions)
            row_at = self._store.row_at[positions]
            rows[block], scores[block] = rank_pairs(of_queries, row_at, found, len(queries[block]), k)
        return rows, scores

    def _coarse_best(
        self, queries: Tensor, n_best: int, dtype: torch.dtype
    ) -> tuple[np.ndarray, np.ndarray, Tensor]:
        """(n, n_best) best coarse scores in descending order, as float32, and their positions.

        Also the (n, dim) queries as they were rounded for it.
        """
        asked, steps = levels.rounded(queries) if dtype == torch.int8 else (queries.to(dtype), None)
        best = RunningBest(len(queries), n_best, asked.dtype, queries.device)
        for at, scores in self._coarse_scores(asked, _n_scores(queries.device), dtype):
            best.add(at, scores)
        scores, positions = best.finish()
        if steps is not None:
            asked, scores = asked * steps, scores * steps
        return scores.cpu().float().numpy(), positions.cpu().numpy(), asked

    def _coarse_scores(
        self, queries: Tensor, n_scores: int, dtype: torch.dtype
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Positions (m,) and coarse scores (n, w), about ``n_scores`` at a time.

        For w see :class:`RunningBest`. They are -inf where not eligible and from column m on, and overwritten
        by the next ones. Queries for ``dtype`` int8 are whole numbers.
        """
        width = max(1, min(n_scores // len(queries), BLOCK_VECTORS, len(self._store)) // GROUP) * GROUP
        room = queries.new_empty(len(queries) * width)
        for offset, segment in self._segments:
            vectors = segment.coarse(queries.dtype)
            packed = segment.levels() if dtype == torch.int8 and segment is self._store.main else None
            shifted = levels.shifted(queries) if packed else queries
            for block in _blocks(len(vectors), levels.BLOCK) if packed else _even_blocks(len(vectors), width):
                at, eligible = self._at(block, offset)
                if not len(at):
                    continue
                at, all_of_it = at.to(queries.device), len(at) == block.stop - block.start
                if packed and all_of_it:
                    scores = packed.products(shifted, block.start // levels.BLOCK)
                    scores[:, len(at) :] = -torch.inf
                else:
                    scores = _products(queries, vectors[block] if all_of_it else vectors[at], room)
                if eligible is not None:
                    scores[:, : len(at)].masked_fill_(~eligible.to(queries.device), -torch.inf)
                yield at + offset, scores

    def _at(self, block: slice, offset: int) -> tuple[Tensor, Tensor | None]:
        """(m,) places of a segment's block to score, and (m,) bool which of them are eligible, if not all.

        All of the block, or only the eligible ones where they are few.
        """
        eligible = self._eligible[offset + block.start : offset + block.stop]
        n_eligible = int(torch.count_nonzero(eligible))
        at = torch.arange(block.start, block.stop)
        if n_eligible < SPARSE_SHARE * len(at):
            return at[eligible], None
        return at, None if n_eligible == len(at) else eligible

    def _threshold(self, queries: Tensor, asked: Tensor, kth: np.ndarray, dtype: torch.dtype) -> np.ndarray:
        longest = max(segment.longest for _, segment in self._segments)
        loss = 0.0
        if dtype == torch.int8:
            loss = self._store.main.levels().loss
        elif dtype != torch.float32:
            loss = max(segment.loss for _, segment in self._segments)
        return threshold(queries, asked, kth, dtype, longest, loss)

    def _scores(self, queries: Tensor, of_query: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """(n_pairs,) the kernel's scores of pairs of a query and a position."""
        return pair_scores(queries, self._store.take, of_query, positions)


def _room_for_levels(segment: Segment) -> bool:
    """Whether a segment's levels are there, or take no more than half of the free memory."""
    free = available_memory()
    return segment.has_levels or free is None or segment.vectors.numel() <= free // 2


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


def _blocks(n: int, step: int) -> Iterator[slice]:
    """0..n in blocks of ``step``, the last of which may be smaller."""
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _even_blocks(n: int, most: int) -> Iterator[slice]:
    """0..n in the fewest blocks of at most ``most``, all of nearly the same size."""
    return _blocks(n, max(1, math.ceil(n / max(1, math.ceil(n / most)))))
