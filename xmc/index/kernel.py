"""The one fixed-order fp32 kernel that gives every returned score.

A matrix product sums in an order that depends on its shape, the threads and the library, so the same pair
of vectors can score differently in another batch. Here each elementary step is an elementwise fp32
operation of its own, which IEEE 754 defines to the bit, and the order of the sum depends on ``dim`` alone:
the same pair has the same score in any batch, with any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

# On the CPU vectors are taken and summed with NumPy: torch splits each small step among threads that wait
# for each other, which on a busy machine made this kernel ten times slower.
Vectors = np.ndarray | Tensor
Array = TypeVar("Array", np.ndarray, Tensor)

# Elements of a block of products: on the CPU few enough for a core's own cache.
CPU_ELEMENTS = 120_000
DEVICE_ELEMENTS = 2**24


def take(vectors: Tensor, at: np.ndarray) -> Vectors:
    """(n, dim): a copy of the vectors at (n,) places, in NumPy's hands if they lie in the CPU's memory."""
    if vectors.device.type == "cpu":
        return vectors.numpy().take(at, axis=0)
    return vectors.index_select(0, torch.from_numpy(at).to(vectors.device))


def fixed_order_sum(values: Array) -> Array:
    """(n,): the sum of each row of (n, dim) ``values``, by halving; ``values`` is overwritten."""
    width = values.shape[1]
    while width > 1:
        half = (width + 1) // 2
        values[:, : width - half] += values[:, half:width]
        width = half
    return values[:, 0]


def to_unit(vectors: np.ndarray) -> np.ndarray:
    """(n, dim) float32: the nonzero vectors at unit length, each independent of the others."""
    unit = np.empty_like(vectors)
    step = max(1, CPU_ELEMENTS // vectors.shape[1])
    for start in range(0, len(vectors), step):
        block = vectors[start : start + step].astype(np.float64)
        lengths = np.sqrt(np.asarray(fixed_order_sum(block * block)))
        unit[start : start + step] = block / lengths[:, None]
    return unit


def pair_scores(
    queries: Tensor, take_at: Callable[[np.ndarray], Vectors], of_query: np.ndarray, positions: np.ndarray
) -> np.ndarray:
    """(n_pairs,) float32: the inner product of each pair (queries[of_query], vector at position).

    ``take_at`` gives the (n, dim) vectors at (n,) positions, free to be overwritten.
    """
    scores = np.empty(len(positions), dtype=np.float32)
    on_cpu = queries.device.type == "cpu"
    step = max(1, (CPU_ELEMENTS if on_cpu else DEVICE_ELEMENTS) // queries.shape[1])

    def score(start: int) -> None:
        block = slice(start, start + step)
        products: Any = take_at(positions[block])
        products *= take(queries, of_query[block])
        sums: Vectors = fixed_order_sum(products)
        scores[block] = sums if isinstance(sums, np.ndarray) else sums.cpu().numpy()

    starts = range(0, len(positions), step)
    threads = min(torch.get_num_threads() if on_cpu else 1, len(starts))
    if threads <= 1:
        for start in starts:
            score(start)
        return scores
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(score, starts):
            pass  # an error in a thread is raised here
    return scores


def rank_pairs(
    of_query: np.ndarray, rows: np.ndarray, scores: np.ndarray, n_queries: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k best pairs of each query, as (n_queries, k) rows and scores; equal scores in row order.

    A query with fewer than k pairs has row -1 and score -inf in the places left over.
    """
    order = np.lexsort((rows, -scores, of_query))
    counts = np.bincount(of_query, minlength=n_queries)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    rank = np.arange(len(order)) - np.repeat(starts, counts)
    kept, rank = order[rank < k], rank[rank < k]
    best_rows = np.full((n_queries, k), -1, dtype=np.int64)
    best_scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
    best_rows[of_query[kept], rank] = rows[kept]
    best_scores[of_query[kept], rank] = scores[kept]
    return best_rows, best_scores
