"""The answer that every index must give, written down again in the plainest NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xmc.index.kinds import KINDS
from xmc.index.native import load_faiss

# Every kind, as parameters of a test; one that needs a GPU is left out without one.
has_cagra = torch.cuda.is_available() and hasattr(load_faiss(), "GpuIndexCagra")
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not has_cagra, reason="needs a GPU, and FAISS with CAGRA")]
ALL_KINDS = [pytest.param(kind, marks=needs_gpu if kind == "cagra" else []) for kind in KINDS]


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.sqrt([halving_sum(row.astype(np.float64) ** 2) for row in vectors])
    return (vectors / lengths[:, None]).astype(np.float32)


def halving_sum(values: np.ndarray) -> np.floating:
    """The first half plus the second, and again; an odd middle stays for the next round."""
    values = values.copy()
    while len(values) > 1:
        half = (len(values) + 1) // 2
        values[: len(values) - half] += values[half:]
        values = values[:half]
    return values[0]


def best(
    vectors: dict[int, np.ndarray], query: np.ndarray, k: int, metric: str = "cosine"
) -> tuple[list[int], list[float]]:
    """Rows and scores of the k best of ``vectors`` by row: by score, then by row."""
    rows = sorted(vectors)
    if not rows:
        return [], []
    stored = np.stack([vectors[row] for row in rows]).astype(np.float32)
    query = query.astype(np.float32)
    if metric == "cosine":
        stored, query = unit(stored), unit(query[None])[0]
    products = stored * query
    while products.shape[1] > 1:
        half = (products.shape[1] + 1) // 2
        products[:, : products.shape[1] - half] += products[:, half:]
        products = products[:, :half]
    scores = products[:, 0].tolist()
    order = sorted(range(len(rows)), key=lambda i: (-scores[i], rows[i]))[:k]
    return [rows[i] for i in order], [scores[i] for i in order]
