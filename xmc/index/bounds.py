"""How far a coarse score can lie from the kernel's, and so which rows cannot be among the best.

For a query and every vector |c - s| <= e holds, c being the coarse score of a matrix product in fp32 or bf16
and s the score of the fixed-order kernel. With C the k-th best coarse score, k rows have s >= C - e; so a
row of the true top k has s >= C - e too, and c >= C - 2e. A coarse score that is itself written in bf16 is
off by another share of itself, at both steps.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Lengths that enter a bound are rounded themselves; this much more covers it.
SLACK = 1.001
# The share of itself by which a score is off that is written in this type (bf16 has 8 significant bits).
_OUTPUT_ROUNDING = {torch.float32: 0.0, torch.bfloat16: 2.0**-8 * SLACK}


def longest_of(vectors: Tensor) -> float:
    """An upper bound on the lengths of (n, dim) vectors, n > 0."""
    return float(torch.linalg.vector_norm(vectors.double(), dim=1).max()) * SLACK


def threshold(queries: Tensor, kth: Tensor, dtype: torch.dtype, longest: float, loss: float) -> Tensor:
    """(n,) float32: the coarse score that every row of the true top k reaches.

    Args:
        queries: (n, dim) float32.
        kth: (n,) coarse score of the k-th best candidate.
        dtype: the type of the coarse product.
        longest: no stored vector is longer.
        loss: no stored vector lost more length when it was rounded to ``dtype``.
    """
    output = _OUTPUT_ROUNDING[dtype]
    at_least = kth.double() - output * kth.double().abs()
    low = at_least - 2 * _error(queries.double(), dtype, longest, loss)
    low -= output * low.abs()
    return torch.nextafter(low.float(), torch.full_like(kth, -torch.inf))


def _error(queries: Tensor, dtype: torch.dtype, longest: float, loss: float) -> Tensor:
    """(n,) float64: the bound e, before the coarse score itself is rounded."""
    dim = queries.shape[1]
    length = torch.linalg.vector_norm(queries, dim=1) * SLACK
    query_loss = torch.linalg.vector_norm(queries - queries.to(dtype).double(), dim=1) * SLACK
    rounding = query_loss * longest + (length + query_loss) * loss
    subnormal = dim * 2.0**-125 * (1 + length) * (1 + longest)  # may be taken for zero
    return _summing_error(dim) * length * longest + rounding + subnormal


def _summing_error(dim: int) -> float:
    """How far two fp32 sums of ``dim`` products in any two orders differ, as a share of both lengths."""
    share = 2.0**-24 * (dim + 2 * math.log2(dim) + 8)
    if torch.get_float32_matmul_precision() != "highest":
        share += 2.0**-7 * SLACK  # products may round their factors to bf16 or TF32
    return share
