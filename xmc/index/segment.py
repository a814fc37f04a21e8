"""A run of vectors by position, and its coarse copy for the first pass of exact search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from xmc.index.bounds import longest_of
from xmc.index.levels import Levels

# Vectors measured and rounded at a time: 4,096 × 1,000 values in float64 are 32 MB.
BLOCK_VECTORS = 4_096


class Segment:
    """Vectors at positions 0..n-1, (n, dim) float32; it may start out as a read-only memory map.

    Attributes:
        longest: no vector that :meth:`coarse` covers is longer.
        loss: no vector lost more than this length when :meth:`coarse` rounded it.
        asked: how many queries of batches were asked of it.
        plans: what searches learned about the work they need, by what was searched for.
    """

    def __init__(self, vectors: Tensor) -> None:
        self._data = vectors
        self._n = len(vectors)
        self._coarse = vectors[:0]
        self._n_rounded = 0
        self._n_measured = 0
        self.longest = 0.0
        self.loss = 0.0
        self.asked = 0
        self.plans: dict[tuple[int, int, torch.dtype], Any] = {}
        self._levels: Levels | None = None

    def __len__(self) -> int:
        return self._n

    @property
    def vectors(self) -> Tensor:
        """(n, dim) float32: a view, not to be written to."""
        return self._data[: self._n]

    def append(self, vectors: Tensor) -> None:
        """Put the (m, dim) vectors at the end; room grows by doubling."""
        end = self._n + len(vectors)
        if end > len(self._data):
            self._data = _grown(self._data, self._n, end)
        self._data[self._n : end] = vectors
        self._n = end

    def put(self, positions: Tensor, vectors: Tensor) -> None:
        """Overwrite the vectors at the (m,) positions; only for vectors that came by :meth:`append`."""
        self._data[positions] = vectors
        if len(positions):
            first = int(positions.min())
            self._n_rounded = min(self._n_rounded, first)
            self._n_measured = min(self._n_measured, first)

    def levels(self) -> Levels:
        """The vectors in 8-bit levels, made once: only for a segment that does not change any more."""
        if self._levels is None:
            self._levels = Levels(self.vectors)
        return self._levels

    @property
    def has_levels(self) -> bool:
        """Whether :meth:`levels` has made them."""
        return self._levels is not None

    def coarse(self, dtype: torch.dtype) -> Tensor:
        """(n, dim) of ``dtype``: the vectors rounded, with ``longest`` and ``loss`` up to date.

        float32 takes no memory of its own; another dtype is the same one in all of a segment's life.
        """
        for block in _blocks(self._n_measured, self._n):
            self.longest = max(self.longest, longest_of(self._data[block]))
        self._n_measured = self._n
        if dtype == torch.float32:
            return self.vectors
        if len(self._coarse) < self._n:
            self._make_room(dtype)
        return self._rounded()

    def _make_room(self, dtype: torch.dtype) -> None:
        room = torch.empty(self._data.shape, dtype=dtype, device=self._data.device)
        room[: self._n_rounded] = self._coarse[: self._n_rounded]
        self._coarse = room

    def _rounded(self) -> Tensor:
        """The coarse copy after what is new was rounded into it."""
        for block in _blocks(self._n_rounded, self._n):
            vectors = self._data[block]
            self._coarse[block] = vectors
            self.loss = max(self.loss, longest_of(vectors - self._coarse[block].float()))
        self._n_rounded = self._n
        return self._coarse[: self._n]


def _blocks(start: int, end: int) -> Iterator[slice]:
    for at in range(start, end, BLOCK_VECTORS):
        yield slice(at, min(at + BLOCK_VECTORS, end))


def _grown(data: Tensor, n_used: int, n_wanted: int) -> Tensor:
    grown = torch.empty((max(n_wanted, 2 * n_used), data.shape[1]), dtype=data.dtype, device=data.device)
    grown[:n_used] = data[:n_used]
    return grown
