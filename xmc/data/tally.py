"""Counts of a stream: lengths with exact quantiles, repeats by hash, kinds with first examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

N_EXAMPLES = 3


class Lengths:
    """How often each length occurred; there are few different ones, so that quantiles are exact."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, lengths: Iterable[int]) -> None:
        """Take more lengths."""
        self._counts.update(lengths)

    def summary(self) -> dict[str, float]:
        """Mean, least, median, 90th and 99th percentile and most; {} where there is none."""
        if not self._counts:
            return {}
        values = np.array(sorted(self._counts))
        counts = np.array([self._counts[int(value)] for value in values])
        upto = np.cumsum(counts)

        def at(share: float) -> int:
            return int(values[np.searchsorted(upto, share * upto[-1])])

        mean = float((values * counts).sum() / upto[-1])
        return {
            "mean": round(mean, 2),
            "min": int(values[0]),
            "median": at(0.5),
            "p90": at(0.9),
            "p99": at(0.99),
            "max": int(values[-1]),
        }


class Hashes:
    """The hashes of what passed by, 8 bytes each: sorted runs, each at least twice as long as the next.

    Two different ones of n are equal with probability n^2 / 2^65: 3e-8 for a million.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def has(self, hashes: np.ndarray) -> np.ndarray:
        """(n,) bool: which hashes passed by before."""
        seen = np.zeros(len(hashes), dtype=bool)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            seen |= run[at] == hashes
        return seen

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Take more; (n,) bool: which passed by before, here or earlier in ``hashes`` itself."""
        new, first = np.unique(hashes, return_index=True)
        seen = self.has(hashes)
        again = np.ones(len(hashes), dtype=bool)
        again[first] = False
        run = new[~seen[first]]
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        if len(run):
            self._runs.append(run)
        return seen | again


def hashes(values: Sequence[object]) -> np.ndarray:
    """(n_values,) int64 hashes, good within this process."""
    return np.fromiter(map(hash, values), dtype=np.int64, count=len(values))


class Findings:
    """Kinds of things that were found, each with its count and first examples."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.examples: dict[str, list[str]] = {}

    def add(self, kind: str, example: str, n: int = 1) -> None:
        """Count ``n`` more of a kind."""
        self.counts[kind] = self.counts.get(kind, 0) + n
        shown = self.examples.setdefault(kind, [])
        if len(shown) < N_EXAMPLES:
            shown.append(example)

    def add_where(self, kind: str, mask: np.ndarray, names: Sequence[str]) -> None:
        """Count every place where ``mask`` holds, named by ``names``."""
        for i in np.flatnonzero(mask).tolist():
            self.add(kind, names[i])

    def to_json(self) -> dict[str, Any]:
        """Count and examples of each kind."""
        return {kind: {"n": n, "examples": self.examples[kind]} for kind, n in self.counts.items()}

    def lines(self) -> list[str]:
        """``texts with soft hyphens: 17 (d1, d2, d3, ...)``, most frequent first."""
        return [self._line(kind, n) for kind, n in sorted(self.counts.items(), key=lambda item: -item[1])]

    def _line(self, kind: str, n: int) -> str:
        examples = self.examples[kind]
        more = ", ..." if n > len(examples) else ""
        return f"{kind}: {n:,} ({', '.join(examples)}{more})"
