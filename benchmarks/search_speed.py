"""Speed of label search, as ratios against a bare matrix product with top-k in the same run.

    python benchmarks/search_speed.py [--rows N] [--dim D] [--queries Q] [-k K] [--rounds R] [--seed S]

Vectors are drawn around random centres, so that they are no easier than real ones: nearest rows of a query
lie close together. The rounds of all contestants are interleaved; the best round of each counts. A ratio below
1 means faster than the bare product. Absolute times depend on the machine and on what else runs there.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from xmc.index.kinds import make_index


def main() -> None:
    options = parse()
    rng = np.random.default_rng(options.seed)
    centres = rng.standard_normal((64, options.dim), dtype=np.float32)
    rows = drawn(rng, centres, options.rows)
    queries = drawn(rng, centres, options.queries)
    index = make_index("exact", options.dim)
    index.add(np.arange(options.rows), rows)
    labels, asked = torch.from_numpy(index.vectors(np.arange(options.rows))), torch.from_numpy(queries)
    half = torch.rand(options.rows).numpy() < 0.5
    tasks: dict[str, Callable[[], object]] = {
        "bare product and top-k, fp32": lambda: (asked @ labels.T).topk(options.k),
        "exact": lambda: index.search(queries, options.k),
        "exact, half of the rows allowed": lambda: index.search(queries, options.k, half),
        "exact, one row in a hundred allowed": lambda: index.search(
            queries, options.k, np.arange(options.rows) % 100 == 0
        ),
    }
    best = timed(tasks, options.rounds)
    bare = best["bare product and top-k, fp32"]
    print(
        f"{options.queries} queries x {options.rows} rows x {options.dim}, k={options.k}, "
        f"{torch.get_num_threads()} threads, best of {options.rounds} rounds"
    )
    for name, seconds in best.items():
        print(f"{name:40} {seconds:8.3f} s  ratio {seconds / bare:5.2f}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed of label search against a bare matrix product.")
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
