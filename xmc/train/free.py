"""FreeVectors: a vector and a bias that belong to one label, improved only where a step uses them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from xmc.train.tables import RowAdam

N_SHARED = 2  # rows that make up a label's vector where rows are shared


@dataclass
class FreeStep:
    """Rows of the two tables, at ``at`` (n_rows,) and ``own_at`` (n,), that gradients flow to.

    ``vectors`` (n, dim) and ``bias`` (n,) are the labels', made of them.
    """

    at: Tensor
    rows: Tensor
    own_at: Tensor
    own: Tensor
    vectors: Tensor
    bias: Tensor


class FreeVectors:
    """Free vectors of ``n`` labels, in at most ``budget`` rows (n_rows, dim), zero at first.

    Up to ``budget`` labels, each has a row. Beyond, a label's vector is a sum of two rows drawn at random,
    weighted by two numbers of its own, so that few labels share both (hash embeddings: Svenstrup, Hansen and
    Winther, NeurIPS 2017); these begin with random signs, by which what other labels teach a row cancels out
    on average. A label's bias, and these two numbers, are its ``own`` (n, 1 or 3).
    """

    def __init__(self, n: int, dim: int, budget: int, seed: int) -> None:
        self.drawn: Tensor | None = None
        self.own = torch.zeros(n, 1)
        if n > budget:
            rng = np.random.default_rng(seed)
            self.drawn = torch.from_numpy(rng.integers(0, budget, (n, N_SHARED)))
            signs = torch.from_numpy(rng.choice(np.array([-1, 1], np.float32), (n, N_SHARED)))
            self.own = torch.cat([self.own, signs / math.sqrt(N_SHARED)], dim=1)
        self.rows = torch.zeros(min(n, budget), dim)
        self._adams = {"rows": RowAdam(self.rows), "own": RowAdam(self.own)}

    def go_on(self, rows: Tensor, own: Tensor, drawn: Tensor | None, to: np.ndarray) -> None:
        """Begin with the tables ``rows``, ``own`` and ``drawn`` of other labels, which are ``to`` (n,) here.

        -1 for labels that are not here. Where only one of both shares rows, or in tables of other sizes,
        vectors begin at zero and biases alone are taken over.
        """
        known = torch.from_numpy(np.flatnonzero(to >= 0))
        here = torch.from_numpy(to[to >= 0])
        self.own[here, 0] = own[known, 0]
        if self.drawn is None and drawn is None:
            self.rows[here] = rows[known]
        elif self.drawn is not None and drawn is not None and rows.shape == self.rows.shape:
            self.rows.copy_(rows)
            self.drawn[here], self.own[here] = drawn[known], own[known]

    def take(self, labels: Tensor) -> FreeStep:
        """What a step needs of (n,) labels, each at most once."""
        own = self.own[labels].requires_grad_(True)
        if self.drawn is None:
            rows = self.rows[labels].requires_grad_(True)
            return FreeStep(labels, rows, labels, own, rows, own[:, 0])
        at, place = torch.unique(self.drawn[labels], return_inverse=True)
        rows = self.rows[at].requires_grad_(True)
        vectors = torch.einsum("nk,nkd->nd", own[:, 1:], rows[place])
        return FreeStep(at, rows, labels, own, vectors, own[:, 0])

    def step(self, taken: FreeStep, rate: float) -> None:
        """Move what was ``taken`` by its gradient."""
        self._adams["rows"].step(taken.at, _gradient(taken.rows), rate)
        self._adams["own"].step(taken.own_at, _gradient(taken.own), rate)

    def weights(self) -> dict[str, Tensor]:
        """The two tables."""
        return {"free": self.rows, "free_own": self.own}

    def moments(self) -> dict[str, Tensor]:
        """What a checkpoint has to hold besides the weights."""
        states = {name: adam.state().items() for name, adam in self._adams.items()}
        return {f"{table}.{name}": value for table, state in states.items() for name, value in state}


def _gradient(leaf: Tensor) -> Tensor:
    return torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
