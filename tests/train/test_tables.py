from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from xmc.train import tables
from xmc.train.tables import TINY, BagTable, RowAdam

QUICK = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 10_000)


def batches(seed: int, n_rows: int, dim: int, n: int = 3) -> list[tuple[sp.csr_matrix, Tensor]]:
    """Features and gradients of whole numbers, so that their sums are exact, and often zero."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        n_docs = rng.integers(1, 6)
        values = rng.integers(-2, 3, (n_docs, n_rows)) * (rng.random((n_docs, n_rows)) < 0.4)
        gradient = rng.integers(-3, 4, (n_docs, dim))
        found.append((sp.csr_matrix(values.astype(np.float32)), torch.from_numpy(gradient).float()))
    return found


def drawn(n_rows: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(n_rows, dim, generator=torch.Generator().manual_seed(seed))


def adagrad(rows: Tensor, squares: Tensor, features: sp.csr_matrix, gradient: Tensor, rate: float) -> None:
    """One step for all rows, without any sparsity."""
    slopes = torch.from_numpy(features.toarray()).double().T @ gradient.double()
    squares += slopes.square().mean(dim=1)
    rows -= rate * slopes / (squares.sqrt() + TINY)[:, None]


@QUICK
@given(seeds, st.integers(1, 12), st.integers(1, 4), st.integers(1, 14))
def test_steps_are_those_of_dense_row_wise_adagrad(seed, n_rows, dim, chunk):
    start = drawn(n_rows, dim, seed)
    table, rows, squares = BagTable(start.clone()), start.double(), torch.zeros(n_rows).double()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "CHUNK", chunk)
        for features, gradient in batches(seed, n_rows, dim):
            table.step(features, gradient, 0.3)
            adagrad(rows, squares, features, gradient, 0.3)
    assert torch.allclose(table.rows.double(), rows, atol=1e-4)
    assert torch.allclose(table.squares.double(), squares, rtol=1e-5)


@QUICK
@given(seeds)
def test_rows_without_a_feature_stay_bit_identical(seed):
    start = drawn(12, 3, seed)
    table, (features, gradient) = BagTable(start.clone()), batches(seed, 12, 3, 1)[0]
    table.step(features, gradient, 0.3)
    unused = np.flatnonzero(np.diff(features.tocsc().indptr) == 0)
    assert torch.equal(table.rows[unused], start[unused])
    assert not table.squares[unused].any()


def test_a_first_step_goes_by_the_rate_downhill():
    table = BagTable(torch.zeros(2, 2))
    table.step(sp.csr_matrix(np.array([[0, 5]], np.float32)), torch.tensor([[3.0, 0.0]]), 0.1)
    assert table.rows.tolist() == [[0, 0], pytest.approx([-0.1 * 2**0.5, 0])]


def test_the_given_tensor_itself_is_improved_and_the_batch_is_not():
    rows, (features, gradient) = drawn(12, 3), batches(0, 12, 3, 1)[0]
    before = rows.clone(), features.copy(), gradient.clone()
    table = BagTable(rows)
    table.step(features, gradient, 0.3)
    assert table.rows is rows
    assert not torch.equal(rows, before[0])
    assert (features != before[1]).nnz == 0
    assert torch.equal(gradient, before[2])


def test_the_squares_are_all_that_going_on_needs():
    first, second = batches(3, 12, 3, 2)
    one = BagTable(drawn(12, 3))
    one.step(*first, 0.3)
    other = BagTable(one.rows.clone(), one.squares.clone())
    one.step(*second, 0.2)
    other.step(*second, 0.2)
    assert torch.equal(one.rows, other.rows)
    assert torch.equal(one.squares, other.squares)


def test_the_number_of_rows_at_a_time_changes_nothing(monkeypatch):
    found = []
    for chunk in (1, 7, 1000):
        monkeypatch.setattr(tables, "CHUNK", chunk)
        table = BagTable(drawn(100, 8))
        for features, gradient in batches(1, 100, 8):
            table.step(features, gradient, 0.3)
        found.append(table.rows)
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert torch.allclose(found[0], found[2], atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 5), (0, 5), (2, 0)], ids=["no feature", "no document", "no row"])
def test_a_batch_without_features_moves_nothing(shape):
    start = drawn(shape[1], 3)
    table = BagTable(start.clone())
    table.step(sp.csr_matrix(shape, dtype=np.float32), torch.ones(shape[0], 3), 0.3)
    assert torch.equal(table.rows, start)


def test_a_feature_of_no_weight_moves_nothing():
    start = drawn(2, 3)
    table = BagTable(start.clone())
    table.step(sp.csr_matrix((np.zeros(1, np.float32), [1], [0, 1]), (1, 2)), torch.ones(1, 3), 0.3)
    assert torch.equal(table.rows, start)


def test_every_row_used_at_every_step_is_adam():
    start = drawn(5, 3)
    table, parameter = RowAdam(start.clone()), torch.nn.Parameter(start.clone())
    adam = torch.optim.Adam([parameter], betas=(0.9, 0.99))
    for step in range(20):
        gradient, rate = drawn(5, 3, step), 0.1 / (step + 1)
        table.step(torch.arange(5), gradient, rate)
        parameter.grad, adam.param_groups[0]["lr"] = gradient, rate
        adam.step()
    assert torch.allclose(table.rows, parameter, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seeds, st.floats(0, 0.99), st.floats(0.5, 0.999))
def test_each_row_is_adam_over_the_steps_that_use_it(seed, beta, other):
    rng, start = np.random.default_rng(seed), drawn(4, 2, seed)
    table, own = RowAdam(start.clone(), (beta, other)), [torch.nn.Parameter(row.clone()) for row in start]
    adams = [torch.optim.Adam([row], lr=0.1, betas=(beta, other)) for row in own]
    for step in range(6):
        at, gradient = rng.permutation(4)[: rng.integers(0, 5)], drawn(4, 2, seed + step)
        table.step(torch.from_numpy(at), gradient[at], 0.1)
        for row in at:
            own[row].grad = gradient[row].clone()
            adams[row].step()
    assert torch.allclose(table.rows, torch.stack(list(own)), atol=1e-3)


def everything(table: RowAdam) -> dict[str, Tensor]:
    return table.state() | {"rows": table.rows}


def test_rows_that_are_not_used_stay_bit_identical():
    start = drawn(4, 3)
    table = RowAdam(start.clone())
    table.step(torch.arange(4), drawn(4, 3, 1), 0.1)
    before = {name: value.clone() for name, value in everything(table).items()}
    table.step(torch.tensor([3, 1]), torch.ones(2, 3), 0.1)
    for name, value in everything(table).items():
        assert torch.equal(value[[0, 2]], before[name][[0, 2]])
        assert not torch.equal(value[[1, 3]], before[name][[1, 3]])


def test_the_rows_and_the_state_are_all_that_going_on_needs():
    one = RowAdam(drawn(4, 3))
    one.step(torch.tensor([2, 0]), drawn(2, 3, 1), 0.1)
    other = RowAdam(one.rows.clone())
    for name, value in other.state().items():
        value.copy_(one.state()[name])
    for table in (one, other):
        table.step(torch.tensor([2, 3]), drawn(2, 3, 2), 0.1)
    assert torch.equal(one.rows, other.rows)


def test_the_given_rows_themselves_are_improved_and_the_gradient_is_not():
    rows, gradient = drawn(4, 3), drawn(2, 3, 1)
    table, before = RowAdam(rows), gradient.clone()
    table.step(torch.tensor([0, 1]), gradient, 0.1)
    assert table.rows is rows
    assert not torch.equal(rows, drawn(4, 3))
    assert torch.equal(gradient, before)
