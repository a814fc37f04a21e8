"""Label search on a GPU: exact search here and by FAISS in fp16, inverted lists, CAGRA. One JSON line.

    python benchmarks/gpu.py [--rows 1000000] [--dim 384] [--queries 8192] [-k 100]

Vectors are drawn around random centres. What the installed FAISS cannot do on a GPU is named and left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from xmc.index.fitting import n_lists
from xmc.index.kinds import make_index
from xmc.index.native import load_faiss

MOST = 2048  # results and lists of a query that FAISS allows on a GPU
CENTRES = 2000


def main() -> None:
    options = parse()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py: no CUDA device here")
    vectors, queries = drawn(options.rows, options.dim, 0), drawn(options.queries, options.dim, 1)
    faiss: Any = load_faiss()
    row: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    row |= {"faiss": faiss.__version__} | vars(options)
    index = make_index("exact", options.dim, "ip", device="cuda")
    index.add(np.arange(len(vectors)), vectors)
    index.compact()
    row["exact_qps"] = qps(lambda: index.search(queries, options.k), len(queries))
    wanted = index.search(queries, options.k).rows
    if not getattr(faiss, "get_num_gpus", lambda: 0)():
        row["left_out"] = "FAISS: the installed one has no GPU support"
    else:
        row |= by_faiss(faiss, vectors, queries, options.k, wanted)
    print(json.dumps(row))


def by_faiss(
    faiss: Any, vectors: np.ndarray, queries: np.ndarray, k: int, wanted: np.ndarray
) -> dict[str, Any]:
    """Build seconds, queries a second and recall of FAISS's kinds on the GPU."""
    found: dict[str, Any] = {}
    resources = faiss.StandardGpuResources()
    dim, metric, k = vectors.shape[1], faiss.METRIC_INNER_PRODUCT, min(k, MOST)
    lists = n_lists(len(vectors))
    flat = faiss.GpuIndexFlatConfig()
    flat.useFloat16 = True
    makers: dict[str, Callable[[], Any]] = {
        "flat_fp16": lambda: faiss.GpuIndexFlat(resources, dim, metric, flat),
        "ivf_flat": lambda: faiss.GpuIndexIVFFlat(resources, dim, lists, metric),
    }
    if hasattr(faiss, "GpuIndexCagra"):
        makers["cagra"] = lambda: faiss.GpuIndexCagra(resources, dim, metric)
    for name, make in makers.items():
        start, index = time.perf_counter(), make()
        index.train(vectors)
        if name != "cagra":  # which takes its vectors when it is trained
            index.add(vectors)
        found[f"{name}_build_s"] = time.perf_counter() - start
        for breadth in (16, 64, 256) if name == "ivf_flat" else (0,):
            if breadth:
                index.nprobe = min(breadth, MOST, lists)
            label = f"{name}_{breadth}" if breadth else name
            found[f"{label}_qps"] = qps(lambda index=index: index.search(queries, k), len(queries))  # type: ignore[misc]
            rows = index.search(queries, k)[1]
            found[f"{label}_recall"] = float(
                np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(rows, wanted, strict=True)])
            )
    return found


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
    return parser.parse_args()


if __name__ == "__main__":
    main()
