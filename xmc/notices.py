"""What a command tells besides its result, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xmc.model import Model


def notify(lines: Iterable[str]) -> None:
    """Print each line; standard output is left to the result."""
    for line in lines:
        print(f"xmc: {line}", file=sys.stderr)


def counted(n: int, noun: str) -> str:
    """``1 label``, ``2,000 labels``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def state(model: Model) -> str:
    """How many labels and documents a model holds now."""
    n_docs = 0 if model.memory is None else len(model.memory)
    n_seen = int((model.frequency > 0).sum())
    return (
        f"{counted(len(model.labels), 'label')}, {int(model.scoreable.sum()):,} of them scoreable, "
        f"{n_seen:,} with documents; {counted(n_docs, 'document')}"
    )
