from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.rerank.made import N_OWN, random_inputs, stirred
from xmc.artifacts import load_tensors, save_tensors
from xmc.errors import ArtifactError
from xmc.rerank.head import RerankHead
from xmc.rerank.inputs import RerankInputs

T = 2  # towers


@torch.no_grad()
def scored(head: RerankHead, inputs: RerankInputs) -> Tensor:
    return head(inputs)


@pytest.mark.parametrize("t", [1, 2, 3])
def test_it_starts_as_the_first_stage(t):
    inputs, head = random_inputs(t=t), RerankHead(N_OWN + t, t)
    assert head.n_towers == t
    assert torch.equal(scored(head.train(), inputs), inputs.log_odds)
    assert torch.equal(scored(head.eval(), inputs), inputs.log_odds)


@pytest.mark.parametrize(("k", "w"), [(0, 3), (6, 0), (0, 0), (1, 1)])
def test_without_neighbours_or_windows_numbers_are_finite(k, w):
    inputs = random_inputs(k=k, w=w)
    found = scored(stirred(), inputs)
    assert found.shape == inputs.log_odds.shape
    assert found.isfinite().all()
    assert (found != inputs.log_odds).any()


def test_no_neighbours_are_as_neighbours_that_say_nothing():
    """Where nobody attends the means are zero."""
    head, inputs = stirred(), random_inputs(k=0)
    n, c = inputs.log_odds.shape
    silent = inputs._replace(
        carried=torch.zeros(n, c, 4), pairs=torch.zeros(n, c, 4, 1 + T), near=torch.zeros(n, 4, 1 + T)
    )
    assert torch.allclose(scored(head, inputs), scored(head, silent), atol=1e-5)


def test_a_document_without_windows_is_as_one_whose_windows_resemble_nothing():
    head, inputs = stirred(), random_inputs()
    bare = inputs._replace(windows=torch.zeros_like(inputs.windows))
    none = bare._replace(is_window=torch.zeros_like(inputs.is_window))
    assert torch.allclose(scored(head, bare), scored(head, none), atol=1e-5)


def test_places_without_a_window_count_for_nothing():
    head, inputs = stirred(), random_inputs()
    there = inputs.is_window[:, None, :]
    other = inputs._replace(windows=torch.where(there, inputs.windows, 0.9))
    nothing = inputs._replace(windows=torch.where(there, inputs.windows, 0.0))
    some = inputs.is_window.any(dim=1)
    assert torch.equal(scored(head, other)[some], scored(head, nothing)[some])


def permuted(inputs: RerankInputs, order: Tensor, *names: str) -> RerankInputs:
    """The neighbours of some parts in another order."""
    axes = {"carried": 2, "pairs": 2, "near": 1}
    return inputs._replace(**{name: getattr(inputs, name).index_select(axes[name], order) for name in names})


def test_the_order_of_neighbours_does_not_matter_but_whose_labels_are_whose_does():
    head, inputs = stirred(), random_inputs()
    order = torch.tensor([3, 0, 5, 1, 2, 4])
    together = permuted(inputs, order, "carried", "pairs", "near")
    assert torch.allclose(scored(head, together), scored(head, inputs), atol=1e-5)
    alone = permuted(inputs, order, "carried")
    assert (scored(head, alone) - scored(head, inputs)).abs().max() > 0.01


def test_the_order_of_windows_and_candidates_does_not_matter():
    head, inputs = stirred(), random_inputs()
    order = torch.tensor([2, 0, 1])
    turned = inputs._replace(windows=inputs.windows[..., order], is_window=inputs.is_window[:, order])
    assert torch.allclose(scored(head, turned), scored(head, inputs), atol=1e-5)
    order = torch.arange(6, -1, -1)
    names = ("place", "own", "log_odds", "carried", "pairs", "windows")
    turned = inputs._replace(**{name: getattr(inputs, name)[:, order] for name in names})
    assert torch.allclose(scored(head, turned), scored(head, inputs)[:, order], atol=1e-5)


def test_a_document_is_scored_alike_in_any_batch():
    head, inputs = stirred(), random_inputs(n=40)
    whole = scored(head, inputs)
    for rows in (torch.tensor([7]), torch.tensor([39, 0, 5])):
        assert torch.allclose(scored(head, inputs.take(rows)), whole[rows], atol=1e-5)


def test_inputs_far_from_the_mean_are_bounded():
    head, inputs = stirred(), random_inputs()
    far, farther = (inputs._replace(own=inputs.own.sign() * size) for size in (1e6, 1e30))
    assert torch.equal(scored(head, far), scored(head, farther))


@pytest.mark.parametrize("t", [1, 3])
def test_saved_and_loaded_it_is_the_same_to_the_bit(tmp_path, t):
    head, path = stirred(t=t), tmp_path / "head.safetensors"
    head.save(path)
    again = RerankHead.load(path, N_OWN + t, t)
    assert not again.training
    inputs = random_inputs(t=t)
    assert torch.equal(scored(again, inputs), scored(head, inputs))
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def with_first(name: str, value: float) -> Callable[[dict[str, Tensor]], object]:
    def change(state: dict[str, Tensor]) -> None:
        state[name] = state[name].clone()
        state[name].view(-1)[0] = value

    return change


def with_tensor(name: str, change: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor]], object]:
    return lambda state: state.update({name: change(state[name]).contiguous()})


DAMAGES: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "NaN": with_first("pairs", float("nan")),
    "infinite": with_first("hidden.weight", float("inf")),
    "so large that a score overflows": with_first("near", 1e38),
    "large with another sign": with_first("direct.bias", -1e30),
    "a spread of zero": with_first("spread", 0.0),
    "a negative spread": with_first("spread", -1.0),
    "a spread that dividing by overflows": with_first("spread", 1e-45),
    "fewer heads": with_tensor("windows", lambda w: w[:-1]),
    "fewer towers": with_tensor("near", lambda w: w[:-1]),
    "fewer inputs": with_tensor("mean", lambda w: w[:-1]),
    "a scalar": with_tensor("out.bias", lambda w: w[0]),
    "doubles": with_tensor("out.weight", lambda w: w.double()),
    "halves": with_tensor("out.weight", lambda w: w.half()),
    "whole numbers": with_tensor("mean", lambda w: w.long()),
    "one missing": lambda state: state.pop("direct.bias"),
    "a stranger": lambda state: state.update(more=torch.zeros(1)),
    "none": lambda state: state.clear(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_name_in_one_line(tmp_path, damage):
    path = tmp_path / "head.safetensors"
    stirred().save(path)
    state = load_tensors(path)
    DAMAGES[damage](state)
    save_tensors(path, state)
    with pytest.raises(ArtifactError, match=r"head\.safetensors: ") as caught:
        RerankHead.load(path, N_OWN + T, T)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("n_own", "t"), [(N_OWN + T, T + 1), (N_OWN + T + 1, T), (N_OWN + T - 1, T - 1)])
def test_a_head_for_other_inputs_is_refused(tmp_path, n_own, t):
    stirred().save(tmp_path / "head.safetensors")
    with pytest.raises(ArtifactError, match=r"head\.safetensors: "):
        RerankHead.load(tmp_path / "head.safetensors", n_own, t)


@pytest.mark.parametrize("raw", [b"", b"\x93\xff" * 40])
def test_what_is_no_file_of_tensors_is_refused(tmp_path: Path, raw: bytes):
    (tmp_path / "head.safetensors").write_bytes(raw)
    with pytest.raises(ArtifactError, match=r"head\.safetensors: "):
        RerankHead.load(tmp_path / "head.safetensors", N_OWN + T, T)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_weights_that_are_read_make_finite_scores(tmp_path, sign):
    from xmc.rerank.head import LARGEST_WEIGHT

    head = stirred()
    for name, value in head.state_dict().items():
        if name != "spread":
            value.fill_(sign * LARGEST_WEIGHT)
    head.save(tmp_path / "head.safetensors")
    again = RerankHead.load(tmp_path / "head.safetensors", N_OWN + T, T)
    assert scored(again, random_inputs()).isfinite().all()
