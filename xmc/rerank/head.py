"""RerankHead: candidates attend over the document's neighbours and windows; one score each.

Cross-attention over retrieved documents after Chalkidis and Kementchedjhieva (Findings of ACL 2023): a
candidate's prototype is the query; a neighbour's key is its vector beside the mean prototype of its labels,
and its value says whether it carries the candidate, how near its labels are and how near it is itself. The
vectors of documents and prototypes share a space already, so queries and keys meet by their cosines in each
tower, weighted for each head, instead of by learned maps: there are a thousand documents to learn from.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from xmc.artifacts import load_tensors, save_tensors
from xmc.encoders.trained import load_state
from xmc.errors import ArtifactError
from xmc.rerank.inputs import RerankInputs

N_HEADS = 4
N_HIDDEN = 32
DROPOUT = 0.1
LARGEST = 6.0  # spreads from the mean beyond which an input counts no more
SHARPNESS = (4.0, 16.0)  # of the heads' attention by similarity, at first: from wide to narrow
LEAST_SPREAD = 1e-3  # an input that hardly varies tells nothing
LARGEST_WEIGHT = 1e9  # a saved one beyond it was not fitted here, and could overflow a score


class RerankHead(nn.Module):
    """Adds to the first stage's log odds what attention finds; ``n_own``, ``n_towers`` as in the inputs."""

    mean: Tensor
    spread: Tensor

    def __init__(self, n_own: int, n_towers: int) -> None:
        super().__init__()
        sharp = torch.linspace(*SHARPNESS, N_HEADS)
        near = torch.randn(1 + n_towers, N_HEADS)
        self.near = nn.Parameter(torch.cat([near[:1] + sharp, near[1:]]))
        self.pairs = nn.Parameter(torch.randn(1 + n_towers, N_HEADS))
        self.windows = nn.Parameter(sharp.clone())
        self.register_buffer("mean", torch.zeros(n_own))
        self.register_buffer("spread", torch.ones(n_own))
        n_inputs = n_own + 4 * N_HEADS
        self.hidden = nn.Linear(n_inputs, N_HIDDEN)
        self.out = nn.Linear(N_HIDDEN, 1)
        self.direct = nn.Linear(n_inputs, 1)
        for layer in (self.out, self.direct):  # so that it starts as the first stage
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    @property
    def n_towers(self) -> int:
        """How many towers it was made for."""
        return len(self.near) - 1

    def forward(self, inputs: RerankInputs) -> Tensor:
        """(n, c) log odds."""
        own = ((inputs.own - self.mean) / self.spread).clamp(-LARGEST, LARGEST)
        seen = torch.cat([own, *self._neighbours(inputs), self._windows(inputs)], dim=2)
        inner = nn.functional.dropout(nn.functional.gelu(self.hidden(seen)), DROPOUT, self.training)
        return inputs.log_odds + (self.out(inner) + self.direct(seen))[..., 0]

    def _neighbours(self, inputs: RerankInputs) -> list[Tensor]:
        """Three of (n, c, N_HEADS): attention's mean of what the neighbours say."""
        logits = inputs.pairs @ self.pairs + (inputs.near @ self.near)[:, None]
        attention = logits.softmax(dim=2)
        values = (inputs.carried, inputs.pairs[..., 0], inputs.near[:, None, :, 0])
        return [(attention * value[..., None]).sum(dim=2) for value in values]

    def _windows(self, inputs: RerankInputs) -> Tensor:
        """(n, c, N_HEADS) attention's mean similarity to the windows, zero without any."""
        logits = inputs.windows[..., None] * self.windows
        logits = logits.masked_fill(~inputs.is_window[:, None, :, None], -1e4)
        return (logits.softmax(dim=2) * inputs.windows[..., None]).sum(dim=2)

    def save(self, path: Path) -> None:
        """Write the weights."""
        save_tensors(path, dict(self.state_dict()))

    @classmethod
    def load(cls, path: Path, n_own: int, n_towers: int) -> RerankHead:
        """Read what ``save`` wrote. Raises ArtifactError where it is not for so many inputs."""
        head = cls(n_own, n_towers)
        load_state(head, load_tensors(path), path)
        if not (head.spread >= LEAST_SPREAD).all():
            raise ArtifactError(f"{path}: spread holds numbers below {LEAST_SPREAD:g}; rebuild the model")
        if any((value.abs() > LARGEST_WEIGHT).any() for value in head.state_dict().values()):
            raise ArtifactError(f"{path}: holds weights above {LARGEST_WEIGHT:g}; rebuild the model")
        return head.eval()
