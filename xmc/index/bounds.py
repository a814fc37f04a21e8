"""How far a coarse score can lie from the kernel's, and so which rows cannot be among the best.

For a query and every vector |c - s| <= e holds, c being the coarse score of a matrix product in fp32, bf16
or 8-bit levels and s the score of the fixed-order kernel. Where k rows have s >= S, every row of the true
top k has s >= S too, and so c >= S - e. A coarse score that is itself rounded is off by another share of
itself.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

# Lengths that enter a bound are rounded themselves; this much more covers it.
SLACK = 1.001
# Below this length, squares in fp32 may be taken for zero.
SQUARES_FIT = 1e-12
# The share of itself by which a score is off that is written in this type (bf16 has 8
# significant bits; scores from levels are fp32, multiplied by two scales).
_OUTPUT_ROUNDING = {torch.float32: 0.0, torch.bfloat16: 2.0**-8 * SLACK, torch.int8: 2.0**-22}


def longest_of(vectors: Tensor) -> float:
    """An upper bound on the lengths of (n, dim) vectors, n > 0."""
    longest = float(torch.linalg.vector_norm(vectors, dim=1).max())
    if longest < SQUARES_FIT:
        longest = float(torch.linalg.vector_norm(vectors.double(), dim=1).max())
    return longest * SLACK


def threshold(
    queries: Tensor, rounded: Tensor, kth: np.ndarray, dtype: torch.dtype, longest: float, loss: float
) -> np.ndarray:
    """(n,) float32: the coarse score that every row of the true top k reaches.

    Args:
        queries: (n, dim) float32.
        rounded: (n, dim) the queries as the coarse product took them.
        kth: (n,) float32, which k rows reach by the kernel.
        dtype: the type of the coarse product; int8 for levels.
        longest: no stored vector is longer.
        loss: no stored vector lost more length when it was rounded to ``dtype``.
    """
    low = kth.astype(np.float64) - _error(queries.cpu().numpy(), rounded.cpu().float().numpy(), longest, loss)
    low -= _OUTPUT_ROUNDING[dtype] * np.abs(low)
    return np.nextafter(low.astype(np.float32), np.float32(-np.inf))


def _error(queries: np.ndarray, rounded: np.ndarray, longest: float, loss: float) -> np.ndarray:
    """(n,) float64: the bound e, before the coarse score itself is rounded."""
    dim = queries.shape[1]
    exact = queries.astype(np.float64)
    length = np.linalg.norm(exact, axis=1) * SLACK
    query_loss = np.linalg.norm(exact - rounded, axis=1) * SLACK
    rounding = query_loss * longest + (length + query_loss) * loss
    subnormal = dim * 2.0**-125 * (1 + length) * (1 + longest)  # may be taken for zero
    return _summing_error(dim) * (length + query_loss) * (longest + loss) + rounding + subnormal


def _summing_error(dim: int) -> float:
    """How far two fp32 sums of ``dim`` products in any two orders differ, as a share of both lengths."""
    share = 2.0**-24 * (dim + 2 * math.log2(dim) + 8)
    if torch.get_float32_matmul_precision() != "highest":
        share += 2.0**-7 * SLACK  # products may round their factors to bf16 or TF32
    return share
