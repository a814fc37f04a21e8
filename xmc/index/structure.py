"""What every structure over a main segment does: it proposes candidates, which the kernel then scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Effort:
    """How hard a structure looks.

    Attributes:
        breadth: lists probed, or nodes kept in view (efSearch).
        fetch: candidates per wanted result.
    """

    breadth: int
    fetch: int


class Structure(ABC):
    """Proposes candidates by inner product.

    Attributes:
        name: the kind that it is.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def efforts(self, k: int) -> Iterator[Effort]:
        """Efforts for ``k`` results, each harder than the one before."""

    @abstractmethod
    def candidates(self, queries: np.ndarray, n: int, breadth: int, mask: np.ndarray | None) -> np.ndarray:
        """(n_queries, n) int64 positions, -1 where there are fewer; only where ``mask`` is True, if given."""

    @abstractmethod
    def save(self, path: Path) -> int:
        """Write the structure; its size in bytes.

        Raises:
            ResourceError: it cannot be written.
        """

    @abstractmethod
    def n_bytes(self) -> int:
        """About how large the structure is."""
