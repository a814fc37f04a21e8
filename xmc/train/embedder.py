"""The model that is trained: token windows to vectors with gradients, in bounded memory.

A contrastive step wants many documents at once, and its gradients need the activations of all their windows.
Beyond ``KEPT`` tokens these are computed again, chunk by chunk, once the gradients of the vectors are known:
gradient caching (Gao et al., RepL4NLP 2021), here by ``torch``'s checkpoints. The gradients stay the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xmc.encoders.dense import DenseTower
from xmc.encoders.windows import batches
from xmc.errors import SettingError
from xmc.train.lora import adapt

BUDGET = 4096  # tokens that go through the model at once
KEPT = 16_384  # tokens of a step whose activations are all kept at once


class Embedder:
    """The weights of a tower in fp32, those among them that are trained, and the pass through them.

    Args:
        tower: what is trained; it stays as it is itself.
        how: see :func:`choose_weights`.
        seed: of the weights that no file has.
    """

    def __init__(self, tower: DenseTower, how: str, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # adapters; a pooler that is not used
            self.model, self._forward = tower.trainable()
            choose_weights(self.model, how)
        self.weights = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        self.device, self._bf16 = self._forward.device, tower.dtype == "bf16"
        self._dim = tower.dim

    def __call__(self, ids: np.ndarray, lengths: np.ndarray, part: int = 0, n_parts: int = 1) -> Tensor:
        """(n_windows, dim) unit vectors of windows of ``lengths`` tokens, end to end in ``ids``.

        Of ``n_parts`` equal parts only one is computed; the vectors of the others are zero.
        """
        windows, widths = np.split(ids, np.cumsum(lengths)[:-1]), self._forward.widths(lengths)
        budget = min(BUDGET, -(-int(widths.sum()) // n_parts))
        chunks = list(batches(widths, budget, True))[part::n_parts]
        vectors = torch.zeros(len(lengths), self._dim, device=self.device)
        if not chunks:
            return vectors
        keep = sum(widths[rows].sum() for rows in chunks) <= KEPT
        found = [
            self._vectors(np.concatenate([windows[i] for i in rows]), lengths[rows], keep) for rows in chunks
        ]
        places = torch.from_numpy(np.concatenate(chunks)).to(self.device)
        return vectors.index_copy(0, places, torch.cat(found))

    def _vectors(self, ids: np.ndarray, lengths: np.ndarray, keep: bool) -> Tensor:
        # As tensors, so that torch sees the device whose random state a second pass has to begin with.
        padded = self._forward.padded(ids, lengths)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16):
            if keep:
                return self._forward.vectors(*padded)
            return checkpoint(self._forward.vectors, *padded, use_reentrant=False)


def choose_weights(model: Any, how: str) -> None:
    """Mark the weights that are trained: all, those of the upper half of the layers, or adapters, made here.

    Raises:
        SettingError: there are no linear layers to adapt.
    """
    layers = layers_of(model)
    if how == "full" or (how == "last" and layers is None):
        model.requires_grad_(True)
        return
    model.requires_grad_(False)
    if how == "lora":
        if not adapt(layers or [model]):
            raise SettingError(
                f"train.dense=lora: {type(model).__name__} has no linear layers; "
                "wanted some, or train.dense=full"
            )
        return
    assert layers is not None
    for layer in layers[len(layers) // 2 :]:
        layer.requires_grad_(True)


def layers_of(model: Any) -> nn.ModuleList | None:
    """The list of a transformer's layers, None where its configuration does not tell how many there are."""
    n_layers = getattr(model.config, "num_hidden_layers", None)
    lists = (module for module in model.modules() if isinstance(module, nn.ModuleList))
    return next((module for module in lists if len(module) == n_layers), None)
