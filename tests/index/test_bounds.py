"""No coarse score may lie further from the kernel's than the bound says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xmc.index.bounds import threshold
from xmc.index.kernel import pair_scores
from xmc.index.segment import Segment


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dim", [1, 7, 384, 2000])
@pytest.mark.parametrize("n_queries", [1, 3, 40])
@pytest.mark.parametrize("scale", [1.0, 1e-25, 1e15])
def test_the_threshold_keeps_every_row_of_the_true_top_k(dtype, dim, n_queries, scale):
    rng = np.random.default_rng(dim + n_queries)
    rows = torch.from_numpy((scale * (rng.standard_normal((300, dim)) + 2)).astype(np.float32))
    queries = torch.from_numpy((rng.standard_normal((n_queries, dim)) + 1).astype(np.float32))
    segment = Segment(rows)
    coarse = (queries.to(dtype) @ segment.coarse(dtype).T).float()
    of_query, at = np.divmod(np.arange(n_queries * 300), 300)
    exact = pair_scores(queries, lambda p: rows[torch.from_numpy(p)].numpy(), of_query, at)
    exact = torch.from_numpy(exact).view(n_queries, 300)
    for k in (1, 10, 300):
        kth = coarse.topk(k).values[:, -1].numpy()
        least = torch.from_numpy(threshold(queries, kth, dtype, segment.longest, segment.loss))
        true_top = exact >= exact.topk(k).values[:, -1:]
        assert bool((coarse >= least[:, None])[true_top].all())


def test_lowered_matmul_precision_widens_the_bound():
    queries, kth = torch.ones(1, 4), np.ones(1, dtype=np.float32)
    usual = threshold(queries, kth, torch.float32, 1.0, 0.0)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert threshold(queries, kth, torch.float32, 1.0, 0.0) < usual - 0.01
    finally:
        torch.set_float32_matmul_precision(before)
