"""The best coarse scores of each query, gathered block by block without sorting the blocks.

Sorting costs as much as the matrix product that made the scores. But once a query has as many candidates as
it keeps, few scores of a block exceed the worst of them. The largest score of each group of columns, which is
cheap to find, shows where these are.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Columns that are looked at together; blocks of scores are a multiple of it wide.
GROUP = 64


class RunningBest:
    """The ``n_best`` best scores of each of n queries among the blocks that were added, and their positions.

    What was found since the last merge waits beside them; it is merged when the columns seen have doubled, so
    that the worst score kept stays a good bar, or when as much waits as is kept.
    """

    def __init__(self, n_queries: int, n_best: int, dtype: torch.dtype, device: torch.device) -> None:
        self.n_best = n_best
        self._scores = torch.empty((n_queries, 0), dtype=dtype, device=device)
        self._positions = torch.empty((n_queries, 0), dtype=torch.int64, device=device)
        self._waiting: list[tuple[Tensor, Tensor, Tensor]] = []
        self._n_waiting = 0
        self._n_seen = 0
        self._n_merged = 0

    def add(self, at: Tensor, scores: Tensor) -> None:
        """A block: (m,) positions and (n, w) scores, w >= m a multiple of ``GROUP``, -inf from m on."""
        self._n_seen += len(at)
        if self._scores.shape[1] < self.n_best:
            values, places = scores[:, : len(at)].topk(min(self.n_best, len(at)))
            self._keep(values, at[places])
            return
        self._collect(at, scores)
        if self._n_seen >= 2 * self._n_merged or self._n_waiting >= self._scores.numel():
            self._merge()

    def finish(self) -> tuple[Tensor, Tensor]:
        """(n, n') scores in descending order and their positions, n' = n_best or what there was."""
        self._merge()
        return self._scores, self._positions

    def _collect(self, at: Tensor, scores: Tensor) -> None:
        """Let the scores wait that exceed the worst one kept."""
        bar = self._scores[:, -1]
        groups = scores.view(len(scores), -1, GROUP)
        query, group = (groups.amax(dim=2) > bar[:, None]).nonzero(as_tuple=True)
        values = groups[query, group]
        hit, place = (values > bar[query, None]).nonzero(as_tuple=True)
        self._waiting.append((query[hit], at[group[hit] * GROUP + place], values[hit, place]))
        self._n_waiting += len(hit)

    def _merge(self) -> None:
        self._n_merged = self._n_seen
        if not self._n_waiting:
            return
        query, positions, values = (torch.cat(part) for part in zip(*self._waiting, strict=True))
        self._waiting, self._n_waiting = [], 0
        order = values.argsort(descending=True, stable=True)
        by_query = query.to(torch.int16 if len(self._scores) < 2**15 else torch.int64)[order]
        order = order[by_query.argsort(stable=True)]
        counts = torch.bincount(query, minlength=len(self._scores))
        first = counts.cumsum(0) - counts
        query = query[order]
        place = torch.arange(len(query), device=query.device) - first[query]
        # All may wait for one query; of its best only so many can be kept, and room for more is not made.
        order, query, place = (part[place < self.n_best] for part in (order, query, place))
        shape = (len(counts), min(self.n_best, int(counts.max())))
        wide = values.new_full(shape, -torch.inf)
        wide_positions = positions.new_zeros(shape)
        wide[query, place], wide_positions[query, place] = values[order], positions[order]
        self._keep(wide, wide_positions)

    def _keep(self, scores: Tensor, positions: Tensor) -> None:
        """The best of what is kept and of (n, m) more; also puts few candidates in order."""
        scores = torch.cat((self._scores, scores), dim=1)
        positions = torch.cat((self._positions, positions), dim=1)
        self._scores, kept = scores.topk(min(self.n_best, scores.shape[1]))
        self._positions = positions.gather(1, kept)
        self._n_merged = self._n_seen
