from __future__ import annotations

import pytest
import torch

from xmc.encoders.int8 import LEVELS, Int8Linear, available, quantised

pytestmark = pytest.mark.skipif(not available(), reason="torch has no 8-bit products for this processor")


def _drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("n_in", [32, 36, 384])
def test_close_to_the_exact_layer(n_in: int) -> None:
    x, weight, bias, residual = _drawn(50, n_in) + 3, _drawn(40, n_in), _drawn(40), _drawn(50, 40)
    layer, exact = Int8Linear(weight, bias), torch.nn.functional.linear(x, weight, bias)
    assert (layer(x) - exact).std() < 0.02 * exact.std()
    assert torch.equal(layer(x, residual=residual), layer(x) + residual)
    assert torch.allclose(layer(x, gelu=True), torch.nn.functional.gelu(layer(x)), atol=1e-5)


def test_a_row_has_its_result_in_any_company() -> None:
    x, layer = _drawn(70, 64), Int8Linear(_drawn(48, 64), _drawn(48))
    x[3] *= 1000  # another row's range is none of its business
    together = layer(x)
    for i in (0, 3, 69):
        assert torch.equal(layer(x[i : i + 1])[0], together[i])
    assert torch.equal(layer(x.flip(0)), together.flip(0))


def test_sums_are_those_of_integers_even_where_they_are_largest() -> None:
    weight = _drawn(64, 388)
    weight[0, :2] = 9  # two large neighbours of one sign are what overflows first
    weight[1] = 1
    weight[2] = -1
    scales, levels = quantised(weight)
    given = torch.randint(0, LEVELS + 1, (20, 388), generator=torch.Generator().manual_seed(1))
    given[0], given[1, :2] = LEVELS, LEVELS
    wanted = (given @ levels.long().T) * scales
    found = Int8Linear(weight, torch.zeros(64))._product(given.to(torch.uint8))
    assert torch.allclose(found, wanted, rtol=1e-6)


def test_rows_of_one_value_or_without_numbers() -> None:
    weight = _drawn(8, 16)
    x = torch.stack([torch.zeros(16), torch.full((16,), -2.5), torch.full((16,), float("nan")), _drawn(16)])
    x[3, 5] = float("inf")
    found, (scales, levels) = Int8Linear(weight, torch.ones(8))(x), quantised(weight)
    assert torch.equal(found[0], torch.ones(8))
    assert torch.allclose(found[1], 1 + x[1] @ (levels * scales[:, None]).T, atol=1e-4)
    assert not found[2:].isfinite().all(1).any()
