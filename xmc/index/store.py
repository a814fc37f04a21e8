"""Which vector belongs to which row: the bookkeeping under every index kind.

Vectors lie at positions. The first ``len(main)`` are the main segment, as it was loaded or compacted; what
changed since lies in the tail. A row's vector can move to another position, a row never changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from xmc.index.base import refuse
from xmc.index.kernel import Vectors, take
from xmc.index.segment import Segment


class VectorStore:
    """Vectors of rows, some of them retired."""

    def __init__(
        self,
        main: Tensor | Segment,
        row_at: np.ndarray,
        retired_rows: np.ndarray,
        tail: Tensor | None = None,
    ) -> None:
        """A store over (n_main, dim) ``main`` and (n_tail, dim) ``tail``.

        ``row_at`` is (n_main + n_tail,), -1 where a newer vector took the place.
        """
        self.main = main if isinstance(main, Segment) else Segment(main)
        self.tail = Segment(self.main.vectors[:0].clone() if tail is None else tail)
        self.row_at = row_at
        self.n_rows = int(row_at.max(initial=-1)) + 1
        self._position_of = np.full(self.n_rows, -1, dtype=np.int64)
        current = np.flatnonzero(row_at >= 0)
        self._position_of[row_at[current]] = current
        self._retired = np.zeros(self.n_rows, dtype=bool)
        self._retired[retired_rows] = True
        self._live: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.row_at)

    @property
    def device(self) -> torch.device:
        """Where the vectors lie."""
        return self.main.vectors.device

    @property
    def live(self) -> np.ndarray:
        """(n_positions,) bool: where the current vector of a row that is not retired lies."""
        if self._live is None:
            self._live = self.row_at >= 0
            self._live[self._live] = ~self._retired[self.row_at[self._live]]
        return self._live

    @property
    def retired_rows(self) -> np.ndarray:
        """The retired rows, ascending."""
        return np.flatnonzero(self._retired)

    def has(self, rows: np.ndarray) -> np.ndarray:
        """(n,) bool: which of the (n,) rows have a vector."""
        found = np.zeros(len(rows), dtype=bool)
        known = (rows >= 0) & (rows < self.n_rows)
        found[known] = self._position_of[rows[known]] >= 0
        return found

    def add(self, rows: np.ndarray, vectors: Tensor, adopt: bool = False) -> None:
        """Append the (n, dim) vectors of (n,) new rows; ``adopt``: nobody else will write to them."""
        present = rows[self.has(rows)]
        away = present[self._retired[present]]
        refuse(away, "retired, so present; restore brings it back, replace gives it a new vector")
        refuse(present, "already present; replace gives it a new vector")
        self._make_room(int(rows.max(initial=-1)) + 1)
        if adopt and not len(self):
            self.main = Segment(vectors)
        else:
            self.tail.append(vectors)
        self._place(rows)

    def replace(self, rows: np.ndarray, vectors: Tensor) -> None:
        """Give (n,) present rows new (n, dim) vectors; those in the main segment move to the tail."""
        positions = self.positions(rows)
        in_tail = positions >= len(self.main)
        put = torch.from_numpy(positions[in_tail] - len(self.main)).to(self.device)
        self.tail.put(put, vectors[torch.from_numpy(in_tail)])
        self.row_at[positions[~in_tail]] = -1
        self.tail.append(vectors[torch.from_numpy(~in_tail)])
        self._place(rows[~in_tail])

    def set_retired(self, rows: np.ndarray, retired: bool) -> None:
        """Retire or restore the (n,) present rows."""
        self.positions(rows)
        self._retired[rows] = retired
        self._live = None

    def remove(self, rows: np.ndarray) -> None:
        """Take the vectors of (n,) present rows out; their places stay empty until :meth:`compacted`."""
        self.row_at[self.positions(rows)] = -1
        self._position_of[rows] = -1
        self._retired[rows] = False
        self._live = None

    def positions(self, rows: np.ndarray) -> np.ndarray:
        """(n,) int64: where the current vectors of the (n,) rows lie; refuses rows without a vector."""
        refuse(rows[~self.has(rows)], "not in the index; add gives it a vector")
        return self._position_of[rows]

    def take(self, positions: np.ndarray) -> Vectors:
        """(n, dim): a copy of the vectors at the (n,) positions."""
        n_main = len(self.main)
        if not len(self.tail):
            return take(self.main.vectors, positions)
        if not n_main:
            return take(self.tail.vectors, positions)
        in_main = positions < n_main
        taken: Any = take(self.tail.vectors, np.where(in_main, 0, positions - n_main))
        taken[in_main] = take(self.main.vectors, positions[in_main])
        return taken

    def compacted(self) -> VectorStore:
        """The same rows and vectors: main are the live ones, tail the retired, each ascending by row."""
        rows = np.flatnonzero(self._position_of >= 0)
        if not len(self.tail) and not self._retired.any() and np.array_equal(rows, self.row_at):
            return VectorStore(self.main, rows, rows[:0])
        away = self._retired[rows]
        main, tail = (
            torch.as_tensor(self.take(self._position_of[part])) for part in (rows[~away], rows[away])
        )
        return VectorStore(main, np.concatenate((rows[~away], rows[away])), rows[away], tail)

    def copy(self) -> VectorStore:
        """A store that can be changed without changing this one; the main segment is shared."""
        return VectorStore(self.main, self.row_at.copy(), self.retired_rows, self.tail.vectors.clone())

    def renumbered(self, rows: np.ndarray) -> VectorStore:
        """A store in which the vectors of the (n,) rows belong to rows 0..n-1; it holds no others."""
        held = np.flatnonzero(self.has(rows))
        main = torch.as_tensor(self.take(self.positions(rows[held])))
        return VectorStore(main, held, np.flatnonzero(np.isin(rows, self.retired_rows)))

    def _place(self, rows: np.ndarray) -> None:
        """Take up the (n,) rows of vectors that were put at the end."""
        self._position_of[rows] = np.arange(len(self.row_at), len(self.row_at) + len(rows))
        self.row_at = np.concatenate((self.row_at, rows))
        self._live = None

    def _make_room(self, n_rows: int) -> None:
        if n_rows > self.n_rows:
            more = n_rows - self.n_rows
            self._position_of = np.concatenate((self._position_of, np.full(more, -1, dtype=np.int64)))
            self._retired = np.concatenate((self._retired, np.zeros(more, dtype=bool)))
            self.n_rows = n_rows
