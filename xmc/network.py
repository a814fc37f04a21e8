"""LabelPrototypeNetwork: a label's prototype from its text, its documents and a free vector.

After PRIME (Dahiya, Ortego and Jiménez-Cabello, NAACL 2025), written from the paper. The three parts lie in
the documents' space: the text's own vector, the centroid of the label's documents, and a vector that belongs
to the label alone. Text and centroid go through a residual layer each and are weighted by gates that know how
many documents the label has; these gates stand for PRIME's self-attention over the three tokens, so that the
prototypes of all labels can be made anew at every step.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

PARTS = ("text", "centroid", "free")
RANK = 64  # width of a part's residual layer
SHRINK = 4.0  # documents at which a free vector counts half


class LabelPrototypeNetwork(nn.Module):
    """Prototypes (n, dim) and their scale. A part that is a zero row is missing, and adds nothing."""

    def __init__(self, dim: int, gates: tuple[float, float], scale: float = 20.0) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(dim, RANK) for _ in PARTS[:2])
        self.up = nn.ModuleList(nn.Linear(RANK, dim, bias=False) for _ in PARTS[:2])
        for layer in self.up:
            for weight in layer.parameters():
                nn.init.zeros_(weight)
        # By part: a constant, and a slope by log(1 + documents).
        self.gates = nn.Parameter(torch.tensor([[gate, 0.0] for gate in gates]))
        self.log_scale = nn.Parameter(torch.tensor(float(scale)).log())

    def forward(
        self,
        text: Tensor,
        centroid: Tensor,
        free: Tensor,
        frequency: Tensor,
        all_frequency: Tensor | None = None,
    ) -> Tensor:
        """(n, dim) prototypes.

        ``text``, ``centroid``: unit or zero rows; ``frequency`` (n,): documents in the centroid;
        ``all_frequency`` (n,): documents that the free vector belongs to, None: the same.
        """
        logs = torch.log1p(frequency)[:, None]
        owners = frequency if all_frequency is None else all_frequency
        others = (owners - 1).clamp(min=0)  # one document alone would be learned by heart
        out = free * (others / (others + SHRINK))[:, None]
        for i, part in enumerate((text, centroid)):
            gate = self.gates[i, 0] + self.gates[i, 1] * logs
            known = part.detach().abs().amax(dim=1, keepdim=True) > 0
            out = out + gate * known * (part + self.up[i](functional.gelu(self.down[i](part))))
        return out * self.log_scale.exp()
