"""Speed of label search, as ratios against a bare matrix product with top-k in the same run.

    python benchmarks/search_speed.py [--kinds hnsw ivf_flat ...] [--rows N] [--dim D] [--queries Q] [-k K]

Vectors are drawn around random centres, so that the nearest rows of a query lie close together. The rounds of
all contestants are interleaved and the best round of each counts; a ratio below 1 is faster than the bare
product. Absolute times depend on the machine and on what else runs there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from xmc.index.base import LabelIndex
from xmc.index.fitting import ANN_KINDS
from xmc.index.kinds import make_index


def main() -> None:
    options = parse()
    rng = np.random.default_rng(options.seed)
    centres = rng.standard_normal((64, options.dim), dtype=np.float32)
    vectors, queries = drawn(rng, centres, options.rows), drawn(rng, centres, options.queries)
    labels, asked, k = torch.from_numpy(vectors), torch.from_numpy(queries), options.k
    indexes = {kind: built(kind, vectors, queries) for kind in ["exact", *options.kinds]}
    half, few = np.arange(options.rows) % 2 == 0, np.arange(options.rows) % 100 == 0
    tasks: dict[str, Callable[[], object]] = {
        "bare product and top-k, fp32": lambda: (asked @ labels.T).topk(k),
        "exact, every 2nd row allowed": lambda: indexes["exact"].search(queries, k, half),
        "exact, every 100th row allowed": lambda: indexes["exact"].search(queries, k, few),
    }
    tasks |= {kind: partial(index.search, queries, k) for kind, index in indexes.items()}
    best = timed(tasks, options.rounds)
    wanted = indexes["exact"].search(queries, k).scores[:, -1:]
    print(f"{len(queries)} queries x {vectors.shape[0]} rows x {vectors.shape[1]}, k={k}, ", end="")
    print(f"{torch.get_num_threads()} threads, best of {options.rounds} rounds")
    for name, seconds in best.items():
        print(
            f"{name:32} {seconds:8.3f} s  ratio {seconds / best['bare product and top-k, fp32']:5.2f}", end=""
        )
        recall = np.mean(indexes[name].search(queries, k).scores >= wanted) if name in indexes else np.nan
        print(f"  recall {recall:.3f}" if name in indexes else "")


def built(kind: str, vectors: np.ndarray, queries: np.ndarray) -> LabelIndex:
    """The index over the vectors, tuned on the queries."""
    index = make_index(kind, vectors.shape[1])
    index.add(np.arange(len(vectors)), vectors)
    index.compact(queries)
    return index


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed of label search against a bare matrix product.")
    parser.add_argument("--kinds", nargs="*", default=[], choices=ANN_KINDS)
    parser.add_argument("--rows", type=int, default=78_741)
    parser.add_argument("--dim", type=int, default=896)
    parser.add_argument("--queries", type=int, default=700)
    parser.add_argument("-k", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def drawn(rng: np.random.Generator, centres: np.ndarray, n: int) -> np.ndarray:
    """(n, dim) unit vectors around the centres."""
    noise = rng.standard_normal((n, centres.shape[1]), dtype=np.float32)
    vectors = noise + centres[rng.integers(len(centres), size=n)]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def timed(tasks: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of each task's best round, after one round that is not counted."""
    best = dict.fromkeys(tasks, float("inf"))
    for task in tasks.values():
        task()
    for _ in range(rounds):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


if __name__ == "__main__":
    main()
