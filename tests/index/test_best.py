"""The best scores gathered block by block are those of all blocks at once, in whatever order they come."""

from __future__ import annotations

import pytest
import torch

from xmc.index.best import GROUP, RunningBest


def blocks(scores, width, used):
    """Blocks of ``width`` columns, of which the first ``used`` hold scores and the rest -inf."""
    for start in range(0, scores.shape[1], used):
        at = torch.arange(start, min(start + used, scores.shape[1]))
        block = torch.full((len(scores), width), -torch.inf, dtype=scores.dtype)
        block[:, : len(at)] = scores[:, at]
        yield at, block


def assert_best(scores, n_best, width=GROUP, used=GROUP):
    best = RunningBest(len(scores), n_best, scores.dtype, scores.device)
    for at, block in blocks(scores, width, used):
        best.add(at, block)
    values, positions = best.finish()
    assert torch.equal(values, scores.topk(min(n_best, scores.shape[1])).values)
    assert torch.equal(scores.gather(1, positions), values)
    assert all(len(set(row)) == len(row) for row in positions.tolist())


@pytest.mark.parametrize("n_best", [1, 7, 100, 700, 2000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_random_scores(n_best, dtype):
    scores = torch.randn((9, 1500), generator=torch.Generator().manual_seed(1)).to(dtype)
    assert_best(scores, n_best)
    assert_best(scores, n_best, 4 * GROUP, 3 * GROUP + 5)


@pytest.mark.parametrize("descending", [False, True])
def test_scores_that_come_worst_first_or_best_first(descending):
    scores = (
        torch.randn((3, 3000), generator=torch.Generator().manual_seed(2)).sort(descending=descending).values
    )
    assert_best(scores, 50)


def test_equal_scores_and_scores_that_do_not_count():
    scores = torch.ones((2, 600))
    scores[:, :400] = -torch.inf
    scores[1, 500:] = 2
    assert_best(scores, 150)


def test_without_blocks_nothing_is_best():
    values, positions = RunningBest(4, 10, torch.float32, torch.device("cpu")).finish()
    assert values.shape == positions.shape == (4, 0)


def test_all_that_waits_for_one_query():
    """Its scores rise from block to block, those of the others fall."""
    scores = torch.randn((5, 20 * GROUP), generator=torch.Generator().manual_seed(3))
    scores = scores.sort(descending=True).values
    scores[2] = scores[2].flip(0)
    assert_best(scores, 3)
    assert_best(scores, 40, 2 * GROUP, 2 * GROUP)
