"""Products in 8-bit levels are exact in whole numbers, and what they lose is known."""

from __future__ import annotations

import pytest
import torch

from xmc.index import levels
from xmc.index.best import GROUP


@pytest.fixture(autouse=True)
def _needs_the_product():
    if not levels.available():
        pytest.skip("torch has no 8-bit product for this CPU")


@pytest.mark.parametrize("dim", [1, 6, 64, 897])
@pytest.mark.parametrize("n", [1, 70, levels.BLOCK + 3])
def test_products_are_those_of_the_levels(n, dim):
    generator = torch.Generator().manual_seed(n + dim)
    vectors, queries = torch.randn((n, dim), generator=generator), torch.randn((5, dim), generator=generator)
    made, (whole, steps) = levels.Levels(vectors), levels.rounded(queries)
    for number, at in enumerate(range(0, n, levels.BLOCK)):
        part = vectors[at : at + levels.BLOCK]
        found = made.products(levels.shifted(whole), number)
        assert found.shape == (5, GROUP * -(-len(part) // GROUP))
        off = (found[:, : len(part)] * steps - queries @ part.T).abs()
        lost = torch.linalg.vector_norm(queries - whole * steps, dim=1, keepdim=True)
        lengths = torch.linalg.vector_norm(part, dim=1)
        bound = lost * lengths + (torch.linalg.vector_norm(queries, dim=1, keepdim=True) + lost) * made.loss
        assert bool((off <= bound + 1e-4).all())
        assert float(off.max()) < 0.1 * dim**0.5 + 0.1


@pytest.mark.parametrize("dim", [4, 384, 2000])
def test_the_largest_sums_do_not_overflow(dim):
    ones = torch.ones((2, dim))
    ones[1] = -1
    found = levels.Levels(ones * levels.HIGHEST).products(levels.shifted(ones * levels.HIGHEST_OF_QUERY), 0)
    sums = levels.HIGHEST * levels.HIGHEST_OF_QUERY * dim
    assert found[:, :2].tolist() == [[sums, -sums], [-sums, sums]]


def test_tiny_vectors_lose_no_more_than_they_say():
    made = levels.Levels(torch.full((1, 8), 1e-40))
    whole, steps = levels.rounded(torch.full((1, 8), 1e-40))
    assert 0 < made.loss < 1e-38
    assert bool(torch.isfinite(made.products(levels.shifted(whole), 0) * steps).all())
