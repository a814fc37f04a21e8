from __future__ import annotations

import math

import pytest
import torch

from xmc.train.free import FreeVectors
from xmc.train.tables import RowAdam

DIM, BUDGET = 5, 40


def filled(n: int, seed: int = 0, budget: int = BUDGET) -> FreeVectors:
    free = FreeVectors(n, DIM, budget, seed)
    free.rows.copy_(torch.randn(free.rows.shape, generator=torch.Generator().manual_seed(seed)))
    return free


def every(free: FreeVectors) -> torch.Tensor:
    return torch.arange(len(free.own))


@pytest.mark.parametrize("n", [0, 1, BUDGET])
def test_up_to_the_budget_each_label_has_a_row(n):
    free = filled(n)
    taken = free.take(every(free))
    assert free.rows.shape == (n, DIM)
    assert free.own.shape == (n, 1)
    assert torch.equal(taken.vectors, free.rows)
    assert not taken.bias.any()


@pytest.mark.parametrize("n", [BUDGET + 1, 1000, 20_000])
def test_beyond_the_budget_the_rows_and_their_moments_do_not_grow(n):
    free = filled(n)
    assert free.rows.shape == (BUDGET, DIM)
    moments = free.moments()
    assert moments["rows.first"].shape == moments["rows.second"].shape == (BUDGET, DIM)
    per_label = sum(value.numel() for value in [free.own, *moments.values()] if len(value) == n) / n
    assert per_label == 10  # a bias and two weights, each with two moments, and one count


def test_shared_vectors_are_weighted_sums_of_the_rows_that_were_drawn():
    free = filled(300)
    assert free.drawn is not None
    taken = free.take(torch.tensor([7, 250]))
    for i, label in enumerate([7, 250]):
        first, second = free.rows[free.drawn[label]]
        assert torch.allclose(taken.vectors[i], free.own[label, 1] * first + free.own[label, 2] * second)
    assert free.own[:, 1:].abs().unique().tolist() == pytest.approx([math.sqrt(0.5)])
    assert 0.4 < float((free.own[:, 1:] > 0).float().mean()) < 0.6


def test_most_labels_that_share_rows_have_vectors_of_their_own():
    free = filled(300)
    assert len(free.take(every(free)).vectors.unique(dim=0)) > 250


def test_a_row_that_several_labels_share_learns_from_all_of_them():
    free = filled(300)
    taken = free.take(every(free))
    taken.vectors.sum().backward()
    assert free.drawn is not None
    assert taken.rows.grad is not None
    wanted = torch.zeros(BUDGET).index_add_(0, free.drawn.flatten(), free.own[:, 1:].flatten())
    assert taken.at.tolist() == list(range(BUDGET))
    assert torch.allclose(taken.rows.grad, wanted[:, None].expand(-1, DIM), atol=1e-5)


@pytest.mark.parametrize("n", [BUDGET, 300])
def test_only_what_is_used_moves(n):
    free = filled(n)
    labels = torch.tensor([3, 8])
    before = {name: value.clone() for name, value in free.weights().items()}
    taken = free.take(labels)
    (taken.vectors.square().sum() + taken.bias.sum()).backward()
    free.step(taken, 0.1)
    moved = {
        name: torch.nonzero((value != before[name]).any(dim=1)) for name, value in free.weights().items()
    }
    used = labels if free.drawn is None else free.drawn[labels].unique()
    assert moved["free"].flatten().tolist() == used.tolist()
    assert moved["free_own"].flatten().tolist() == labels.tolist()


def test_without_sharing_a_step_is_adam_s():
    free, rows = filled(BUDGET), filled(BUDGET).rows
    adam, at = RowAdam(rows), torch.tensor([0, 5])
    for _ in range(3):
        taken = free.take(at)
        taken.vectors.square().sum().backward()
        adam.step(at, 2 * rows[at], 0.1)
        free.step(taken, 0.1)
    assert torch.allclose(free.rows, rows)


def test_a_step_without_gradients_moves_nothing():
    free = filled(300)
    before = free.rows.clone()
    free.step(free.take(torch.tensor([1, 2])), 0.1)
    assert torch.equal(free.rows, before)


def test_the_same_seed_draws_the_same_rows_and_another_one_others():
    one, same, other = (FreeVectors(300, DIM, BUDGET, seed).drawn for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_more_labels_than_rows_can_be_told_apart():
    """Each of 300 labels learns signs of its own out of 160 rows, and gets most of them right."""
    torch.manual_seed(0)
    free, targets = FreeVectors(300, 8, 160, 0), torch.randn(300, 8).sign()
    for _ in range(300):
        taken = free.take(every(free))
        (taken.vectors - targets).square().sum().backward()
        free.step(taken, 0.02)
    right = (free.take(every(free)).vectors.sign() == targets).float().mean()
    assert right > 0.75
