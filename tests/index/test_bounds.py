"""No coarse score may lie further from the kernel's than the bound says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xmc.index import levels
from xmc.index.bounds import threshold
from xmc.index.kernel import pair_scores
from xmc.index.segment import Segment


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("dim", [1, 7, 384, 2000])
@pytest.mark.parametrize("n_queries", [1, 3, 40])
@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e15])
def test_the_threshold_keeps_every_row_of_the_true_top_k(dtype, dim, n_queries, scale):
    rng = np.random.default_rng(dim + n_queries)
    rows = torch.from_numpy((scale * (rng.standard_normal((300, dim)) + 2)).astype(np.float32))
    queries = torch.from_numpy((rng.standard_normal((n_queries, dim)) + 1).astype(np.float32))
    coarse, asked, longest, loss = coarse_scores(rows, queries, dtype)
    of_query, at = np.divmod(np.arange(n_queries * 300), 300)
    exact = pair_scores(queries, lambda p: rows[torch.from_numpy(p)].numpy(), of_query, at)
    exact = torch.from_numpy(exact).view(n_queries, 300)
    for k in (1, 10, 300):
        kth = exact.gather(1, coarse.topk(k).indices).amin(dim=1).numpy()
        least = torch.from_numpy(threshold(queries, asked, kth, dtype, longest, loss))
        true_top = exact >= exact.topk(k).values[:, -1:]
        assert bool((coarse >= least[:, None])[true_top].all())


def coarse_scores(rows, queries, dtype):
    """The scores, the queries as they were rounded, the longest vector, and the most that a vector lost."""
    segment = Segment(rows)
    if dtype != torch.int8:
        asked, vectors = queries.to(dtype), segment.coarse(dtype)
        return (asked @ vectors.T).float(), asked, segment.longest, segment.loss
    segment.coarse(torch.float32)
    whole, steps = levels.rounded(queries)
    made = segment.levels()
    coarse = made.products(levels.shifted(whole), 0)[:, : len(rows)] * steps
    return coarse, whole * steps, segment.longest, made.loss


def test_lowered_matmul_precision_widens_the_bound():
    queries, kth = torch.ones(1, 4), np.ones(1, dtype=np.float32)
    usual = threshold(queries, queries, kth, torch.float32, 1.0, 0.0)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        lowered = threshold(queries, queries, kth, torch.float32, 1.0, 0.0)
        assert lowered < usual - 0.005
    finally:
        torch.set_float32_matmul_precision(before)
