"""What a command tells besides its result, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def notify(lines: Iterable[str]) -> None:
    """Print each line; standard output is left to the result."""
    for line in lines:
        print(f"xmc: {line}", file=sys.stderr)
