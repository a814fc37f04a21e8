from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from xmc.network import SHRINK, LabelPrototypeNetwork

DIM, SCALE, GATES = 6, 20.0, (0.7, 0.3)
QUICK = settings(max_examples=40, deadline=None)
frequencies = st.lists(st.integers(0, 10_000), min_size=5, max_size=5).map(torch.Tensor)


def fresh() -> LabelPrototypeNetwork:
    torch.manual_seed(0)
    return LabelPrototypeNetwork(DIM, GATES, SCALE)


def trained(seed: int = 0) -> LabelPrototypeNetwork:
    """A network whose every weight was drawn."""
    network, generator = fresh(), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return network


def parts(n: int = 5, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Unit texts and centroids, and free vectors."""
    text, centroid, free = torch.randn(3, n, DIM, generator=torch.Generator().manual_seed(seed))
    return functional.normalize(text, dim=1), functional.normalize(centroid, dim=1), free


def owned(frequency: Tensor) -> Tensor:
    """The share of a free vector that counts."""
    others = (frequency - 1).clamp(min=0)
    return (others / (others + SHRINK))[:, None]


@QUICK
@given(frequencies)
def test_starts_as_the_sum_of_the_parts_by_their_gates(frequency):
    text, centroid, free = parts()
    wanted = GATES[0] * text + GATES[1] * centroid + owned(frequency) * free
    assert torch.allclose(fresh()(text, centroid, free, frequency), SCALE * wanted, atol=1e-4)


@QUICK
@given(frequencies, st.integers(0, 1000))
def test_missing_parts_add_nothing(frequency, seed):
    network, (text, centroid, free) = trained(seed), parts()
    none = torch.zeros_like(text)
    alone = [network(*p, frequency) for p in ((text, none, none), (none, centroid, none), (none, none, free))]
    assert torch.allclose(sum(alone), network(text, centroid, free, frequency), rtol=1e-3, atol=1e-3)
    assert torch.allclose(alone[2], owned(frequency) * free * network.log_scale.exp(), rtol=1e-4)
    assert not network(none, none, none, frequency).any()


def test_a_missing_part_is_missing_row_by_row():
    network, (text, centroid, free) = trained(), parts()
    frequency = torch.arange(5.0)
    without = centroid.clone()
    without[2] = 0
    found, whole = network(text, without, free, frequency), network(text, centroid, free, frequency)
    rest = [0, 1, 3, 4]
    assert torch.equal(found[rest], whole[rest])
    assert not torch.equal(found[2], whole[2])


@pytest.mark.parametrize("n_docs", [0.0, 1.0])
def test_a_free_vector_does_not_count_where_it_would_be_learned_by_heart(n_docs):
    network, (text, centroid, free) = trained(), parts()
    frequency = torch.full((5,), n_docs)
    assert torch.equal(network(text, centroid, free, frequency), network(text, centroid, -free, frequency))


@QUICK
@given(st.integers(1, 10**6))
def test_a_free_vector_counts_the_more_the_more_documents_share_it(n_docs):
    _, _, free = parts(2)
    none, frequency = torch.zeros(2, DIM), torch.tensor([n_docs, n_docs + 1.0])
    shares = fresh()(none, none, free[:1].expand(2, -1), frequency) / (SCALE * free[0])
    assert (shares[0] < 1).all()
    assert (shares[0] <= shares[1]).all()


def test_a_free_vector_counts_half_at_some_documents():
    none, (_, _, free) = torch.zeros(5, DIM), parts()
    found = fresh()(none, none, free, torch.full((5,), SHRINK + 1))
    assert torch.allclose(found, SCALE * free / 2)


@QUICK
@given(frequencies, frequencies)
def test_the_free_vector_s_documents_may_be_others_than_the_centroid_s(frequency, owners):
    network, (text, centroid, free) = trained(), parts()
    none = torch.zeros_like(free)
    rest = network(text, centroid, none, frequency)
    wanted = rest + owned(owners) * free * network.log_scale.exp()
    assert torch.allclose(network(text, centroid, free, frequency, owners), wanted, rtol=1e-3, atol=1e-3)


def test_a_gate_may_change_with_the_documents():
    network, (text, centroid, _) = fresh(), parts(2)
    with torch.no_grad():
        network.gates.copy_(torch.tensor([[1.0, -0.5], [0.0, 2.0]]))
    none, frequency = torch.zeros(2, DIM), torch.tensor([0.0, torch.e - 1])
    found = network(text, centroid, none, frequency)
    assert torch.allclose(found[0], SCALE * text[0])
    assert torch.allclose(found[1], SCALE * (0.5 * text[1] + 2 * centroid[1]), atol=1e-5)


def test_a_label_s_prototype_does_not_depend_on_the_others():
    network, frequency = trained(), torch.arange(5.0)
    whole = network(*parts(), frequency)
    for i in range(5):
        one = network(*(part[i : i + 1] for part in parts()), frequency[i : i + 1])
        assert torch.allclose(one[0], whole[i], rtol=1e-4, atol=1e-4)


def test_everything_is_learned():
    network = fresh()
    inputs = [part.requires_grad_() for part in parts()]
    out = network(*inputs, torch.arange(5.0))
    out.square().sum().backward()
    grown = {
        name for name, value in network.named_parameters() if value.grad is not None and value.grad.any()
    }
    assert {"up.0.weight", "up.1.weight", "gates", "log_scale"} <= grown
    assert all(part.grad is not None and part.grad.any() for part in inputs)
    assert not inputs[2].grad[:2].any()


def test_no_labels_have_no_prototypes():
    assert fresh()(*(torch.zeros(0, DIM),) * 3, torch.zeros(0)).shape == (0, DIM)
