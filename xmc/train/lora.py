"""Low-rank adapters (LoRA; Hu et al., ICLR 2022): few numbers are trained, and end up in a model's weights.

A matrix W (n_out, n_in) stays as it is and is used as W + (ALPHA / RANK) · up · down, where only ``up``
(n_out, RANK) and ``down`` (RANK, n_in) are trained. All linear layers get one, not the attention's alone,
which is nearer to training everything (Dettmers et al., NeurIPS 2023) and asks nothing of their names.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

RANK = 16
ALPHA = 32.0  # how much an adapter adds, in units of its rank: the longer the steps the larger


class LowRank(nn.Module):
    """What is added to a matrix (n_out, n_in). It is zero at first, so that training begins at the model."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        n_out, n_in = weight.shape
        rank = min(RANK, n_out, n_in)
        self.scale = ALPHA / rank
        # Drawn on the CPU, so that the same seed gives the same adapters on every device.
        down = torch.randn(rank, n_in) / n_in**0.5
        self.down = nn.Parameter(down.to(weight.device))
        self.up = nn.Parameter(torch.zeros(n_out, rank, device=weight.device))

    def forward(self, weight: Tensor) -> Tensor:
        """(n_out, n_in) the matrix that is used in the place of ``weight``."""
        return weight + self.scale * (self.up @ self.down)


def adapt(modules: Iterable[nn.Module]) -> int:
    """Give each linear layer in ``modules`` an adapter; how many layers there are. It freezes no weight."""
    parts = (part for module in modules for part in module.modules())
    layers = list(dict.fromkeys(part for part in parts if isinstance(part, nn.Linear)))  # some are shared
    for layer in layers:
        parametrize.register_parametrization(layer, "weight", LowRank(layer.weight))
    return len(layers)


def merge(model: nn.Module) -> None:
    """Put the adapters into the weights: afterwards the model is what it was before, with other numbers."""
    for layer in list(model.modules()):
        if parametrize.is_parametrized(layer, "weight"):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
