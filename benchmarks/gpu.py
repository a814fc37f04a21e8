"""Label search on GPUs: exact on one and on all, FAISS's flat in fp16, inverted lists, CAGRA. One JSON line.

    python benchmarks/gpu.py [--rows 1000000] [--dim 384] [--queries 8192] [-k 100] [--seconds 420]

Vectors are drawn around random centres. What the installed FAISS cannot do on a GPU, or what failed, is named
and left out, and so is what would begin after ``--seconds``. FAISS's indexes go to their CPU form, which is
searched once more: a machine without a GPU must find as much.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from xmc.index.exact import ExactIndex
from xmc.index.fitting import n_lists
from xmc.index.native import load_faiss
from xmc.index.sharded import ShardedSearch

MOST = 2048  # results and lists of a query that FAISS allows on a GPU
CENTRES = 2000
ON_CPU = 64  # queries that the CPU form is asked


def main() -> None:
    options, start = parse(), time.perf_counter()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py: no CUDA device here")
    vectors, queries = drawn(options.rows, options.dim, 0), drawn(options.queries, options.dim, 1)
    faiss: Any = load_faiss()
    row: dict[str, Any] = {"device": torch.cuda.get_device_name(), "gpus": torch.cuda.device_count()}
    row |= {"torch": torch.__version__, "faiss": faiss.__version__} | vars(options)
    found, wanted = exact(vectors, queries, options.k)
    row |= found
    if not getattr(faiss, "get_num_gpus", lambda: 0)():
        row["left_out"] = {"faiss": "the installed one has no GPU support"}
    else:
        row |= by_faiss(faiss, vectors, queries, wanted, start + options.seconds)
    print(json.dumps(row | {"seconds_in_all": time.perf_counter() - start}))


def exact(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[dict[str, Any], np.ndarray]:
    """Queries a second of exact search on one GPU and on all; the (n_queries, k) rows that it finds."""
    index = ExactIndex(vectors.shape[1], "ip", "cuda")
    index.add(np.arange(len(vectors)), vectors)
    index.compact()
    found: dict[str, Any] = {"exact_qps": qps(lambda: index.search(queries, k), len(queries))}
    wanted = index.search(queries, k)
    sharded = ShardedSearch(index, [f"cuda:{i}" for i in range(torch.cuda.device_count())])
    found["sharded_qps"] = qps(lambda: sharded.search(queries, k), len(queries))
    again = sharded.search(queries, k)
    same = np.array_equal(again.rows, wanted.rows) and np.array_equal(again.scores, wanted.scores)
    return found | {"sharded_is_same": same}, wanted.rows


def by_faiss(
    faiss: Any, vectors: np.ndarray, queries: np.ndarray, wanted: np.ndarray, end: float
) -> dict[str, Any]:
    """Build seconds, queries a second and recall of FAISS's kinds on the GPU; ``left_out`` says why not."""
    found: dict[str, Any] = {"left_out": {}}
    for name, make in makers(faiss, vectors).items():
        if time.perf_counter() > end:
            found["left_out"][name] = "there was no time left"
            continue
        try:
            found |= measured(faiss, name, make, vectors, queries, wanted)
        except (RuntimeError, AttributeError, TypeError) as error:  # of one kind; the others still count
            found["left_out"][name] = " ".join(str(error).split())[:200]
    return found


def makers(faiss: Any, vectors: np.ndarray) -> dict[str, Callable[[], Any]]:
    """How each kind's empty index is made on the GPU."""
    resources, dim, metric = faiss.StandardGpuResources(), vectors.shape[1], faiss.METRIC_INNER_PRODUCT
    flat = faiss.GpuIndexFlatConfig()
    flat.useFloat16 = True
    lists = n_lists(len(vectors))
    found: dict[str, Callable[[], Any]] = {
        "flat_fp16": lambda: faiss.GpuIndexFlat(resources, dim, metric, flat),
        "ivf_flat": lambda: faiss.GpuIndexIVFFlat(resources, dim, lists, metric),
    }
    if hasattr(faiss, "GpuIndexCagra"):
        found["cagra"] = lambda: faiss.GpuIndexCagra(resources, dim, metric)
    return found


def measured(
    faiss: Any,
    name: str,
    make: Callable[[], Any],
    vectors: np.ndarray,
    queries: np.ndarray,
    wanted: np.ndarray,
) -> dict[str, Any]:
    """What one kind takes to build, and how it searches on the GPU and in its CPU form."""
    start, index, found = time.perf_counter(), make(), {}
    index.train(vectors)
    if name != "cagra":  # which takes its vectors when it is trained
        index.add(vectors)
    found[f"{name}_build_s"] = time.perf_counter() - start
    k = min(wanted.shape[1], MOST)
    for breadth in (16, 64, 256) if name == "ivf_flat" else (0,):
        if breadth:
            index.nprobe = min(breadth, MOST, n_lists(len(vectors)))
        label = f"{name}_{breadth}" if breadth else name
        search = partial(index.search, queries, k)
        found[f"{label}_qps"] = qps(search, len(queries))
        found[f"{label}_recall"] = recall(search()[1], wanted)
    few = queries[:ON_CPU]
    found[f"{name}_recall_as_cpu_form"] = recall(
        faiss.index_gpu_to_cpu(index).search(few, k)[1], wanted[:ON_CPU]
    )
    return found


def recall(rows: np.ndarray, wanted: np.ndarray) -> float:
    """Share of the wanted rows that were found, of as many as were asked for."""
    k = rows.shape[1]
    pairs = zip(rows, wanted[:, :k], strict=True)
    return float(np.mean([len(np.intersect1d(found, best)) / k for found, best in pairs]))


def qps(search: Callable[[], object], n: int) -> float:
    """Queries a second in the best of three rounds, after one that is not counted."""
    search()
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        search()
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    return n / best


def drawn(n: int, dim: int, seed: int) -> np.ndarray:
    """(n, dim) unit vectors around the same centres."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((CENTRES, dim), dtype=np.float32)
    vectors = rng.standard_normal((n, dim), dtype=np.float32) + centres[rng.integers(CENTRES, size=n)]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Label search on a GPU.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=8192)
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=420, help="after which no further kind is begun")
    return parser.parse_args()


if __name__ == "__main__":
    main()
