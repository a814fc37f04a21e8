"""Low-rank adapters, on tiny models of several kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.encoders.tiny import tiny_model
from xmc.encoders.dense import DenseTower
from xmc.encoders.windows import tokenise
from xmc.errors import SettingError
from xmc.train.embedder import choose_weights
from xmc.train.lora import LowRank, adapt, merge

KINDS = [
    ("BertModel", {}),
    ("XLMRobertaModel", {"max_position_embeddings": 65}),
    ("DistilBertModel", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    ("T5EncoderModel", {}),
    ("AlbertModel", {"embedding_size": 16}),  # its layers share their weights
]
TEXTS = ["air transport law", "sea fish", "annual space rocket of the sea"]


def drawn(model: torch.nn.Module) -> None:
    """As if they had been trained."""
    with torch.no_grad():
        for part in model.modules():
            if isinstance(part, LowRank):
                part.up.normal_(0, 0.1, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("kind", "config"), KINDS)
def test_adapters_begin_at_the_model_and_end_in_its_weights(tmp_path: Path, kind, config):
    tower = DenseTower.load(str(tiny_model(tmp_path / "tiny", kind, **config)), dtype="fp32", device="cpu")
    model, forward = tower.trainable()
    before = set(model.state_dict())
    windows = tower.windows(*tokenise(tower.tokenizer, TEXTS), 16)
    ids, lengths = tower.laid(windows, np.arange(len(TEXTS)))
    plain = forward.embed(ids, lengths)
    choose_weights(model, "lora")
    torch.testing.assert_close(forward.embed(ids, lengths), plain, atol=1e-6, rtol=0)
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained
    assert all(".parametrizations.weight.0." in name for name in trained)
    forward.embed(ids, lengths).sum().backward()
    reached = {name for name, weight in model.named_parameters() if weight.grad is not None}
    assert reached == {name for name in trained if not name.startswith("pooler.")}
    drawn(model)
    moved = forward.embed(ids, lengths)
    assert not torch.allclose(moved, plain, atol=1e-2)
    merge(model)
    assert set(model.state_dict()) == before
    torch.testing.assert_close(forward.embed(ids, lengths), moved, atol=1e-5, rtol=0)
    tower.save(tmp_path / "saved", model)
    again = DenseTower.load(str(tmp_path / "saved"), dtype="fp32", device="cpu")
    found = again.encode(TEXTS).vectors
    np.testing.assert_allclose(found, moved.detach().numpy(), atol=1e-4)
    assert set(load_file(tmp_path / "saved" / "model.safetensors")) <= before


def test_the_pooler_and_the_embeddings_get_none(tmp_path: Path):
    model, _ = DenseTower.load(str(tiny_model(tmp_path / "tiny")), dtype="fp32", device="cpu").trainable()
    choose_weights(model, "lora")
    adapted = {name.split(".")[0] for name, weight in model.named_parameters() if weight.requires_grad}
    assert adapted == {"encoder"}
    n_trained = sum(w.numel() for w in model.parameters() if w.requires_grad)
    assert n_trained == 2 * (4 * 16 * (32 + 32) + 2 * 16 * (32 + 64))


def test_a_layer_that_is_there_twice_gets_one_adapter():
    layer = torch.nn.Linear(4, 4)
    assert adapt([torch.nn.Sequential(layer, layer), layer]) == 1
    drawn(layer)
    whole = layer.weight.detach().clone()
    merge(layer)
    assert torch.equal(layer.weight, whole)


def test_a_model_without_linear_layers_is_refused():
    class Bag(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = object()
            self.words = torch.nn.Embedding(3, 4)

    with pytest.raises(SettingError, match=r"Bag has no linear layers; wanted some, or train\.dense=full"):
        choose_weights(Bag(), "lora")
