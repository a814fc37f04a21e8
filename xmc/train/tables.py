"""Tables of vectors too large to be touched whole at every step, and how some of their rows are improved."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

CHUNK = 4096  # rows at a time: few enough for the processor's cache
TINY = 1e-8


class BagTable:
    """Embeddings (n_rows, dim) with Adagrad of one step size a row (Duchi et al., JMLR 2011; row-wise after
    Naumov et al., DLRM, 2019): one number of state a row, and rows without a gradient are not touched.
    """

    def __init__(self, rows: Tensor, squares: Tensor | None = None) -> None:
        self.rows = rows
        self.squares = torch.zeros(len(rows)) if squares is None else squares

    def step(self, features: sp.csr_matrix, gradient: Tensor, rate: float) -> None:
        """Move the embeddings of a batch's (n, n_rows) features by the gradient (n, dim) of its bags."""
        by_row = features.tocsc()
        used = np.flatnonzero(np.diff(by_row.indptr))
        bounds = np.append(by_row.indptr[used], by_row.nnz).astype(np.int64)
        docs, values = torch.from_numpy(by_row.indices.astype(np.int64)), torch.from_numpy(by_row.data)
        for first in range(0, len(used), CHUNK):
            chunk = bounds[first : first + CHUNK + 1]
            mine = slice(int(chunk[0]), int(chunk[-1]))
            slopes = functional.embedding_bag(
                docs[mine],
                gradient,
                torch.from_numpy(chunk[:-1] - chunk[0]),
                mode="sum",
                per_sample_weights=values[mine],
            )
            self._move(torch.from_numpy(used[first : first + CHUNK]), slopes, rate)

    def _move(self, at: Tensor, slopes: Tensor, rate: float) -> None:
        squares = self.squares[at] + torch.linalg.vector_norm(slopes, dim=1).square_() / slopes.shape[1]
        self.squares[at] = squares
        slopes.mul_((-rate / (squares.sqrt() + TINY))[:, None])
        self.rows.index_copy_(0, at, self.rows.index_select(0, at).add_(slopes))


class RowAdam:
    """Rows (n_rows, dim) with Adam (Kingma & Ba, ICLR 2015), whose moments move only where rows are used."""

    def __init__(self, rows: Tensor, betas: tuple[float, float] = (0.9, 0.99)) -> None:
        self.rows, self.betas = rows, betas
        self.first, self.second = torch.zeros_like(rows), torch.zeros_like(rows)
        self.uses = torch.zeros(len(rows))

    def step(self, at: Tensor, gradient: Tensor, rate: float) -> None:
        """Move the rows ``at`` (n,), each at most once, by their gradient (n, dim)."""
        uses = self.uses[at] + 1
        first = self.first[at].lerp_(gradient, 1 - self.betas[0])
        second = self.second[at].lerp_(gradient.square(), 1 - self.betas[1])
        self.uses[at], self.first[at], self.second[at] = uses, first, second
        grown = (second / (1 - self.betas[1] ** uses)[:, None]).sqrt_().add_(TINY)
        move = first / (1 - self.betas[0] ** uses)[:, None] / grown
        self.rows.index_add_(0, at, move, alpha=-rate)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint has to hold besides the rows."""
        return {"first": self.first, "second": self.second, "uses": self.uses}
