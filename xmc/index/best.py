"""The best coarse scores of each query, gathered block by block without sorting the blocks.

Sorting costs as much as the matrix product that made the scores. But once a query has as many candidates as
it keeps, few scores of a block exceed the worst of them. The largest score of each group of columns, which is
cheap to find, shows where these are.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# Columns that are looked at together; blocks of scores are a multiple of it wide.
GROUP = 64
# Where more than this share of groups has such a score, all scores are compared.
MANY_GROUPS = 0.25
# Scores that may wait, were there as many for each query as for the one with most.
WAITING = 2**22


class RunningBest:
    """The ``n_best`` best scores of each of n queries among the blocks that were added, and their positions.

    What was found since the last merge waits beside them; it is merged when the columns seen have doubled, so
    that the worst score kept stays a good bar, or when much waits.
    """

    def __init__(self, n_queries: int, n_best: int, dtype: torch.dtype, device: torch.device) -> None:
        self.n_best = n_best
        self._scores = torch.empty((n_queries, 0), dtype=dtype, device=device)
        self._positions = torch.empty((n_queries, 0), dtype=torch.int64, device=device)
        self._waiting: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        self._n_waiting = torch.zeros(n_queries, dtype=torch.int64, device=device)
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
        most = max(2 * self.n_best, WAITING // len(scores))
        if self._n_seen >= 2 * self._n_merged or int(self._n_waiting.max()) >= most:
            self._merge()

    def finish(self) -> tuple[Tensor, Tensor]:
        """(n, n') scores in descending order and their positions, n' = n_best or what there was."""
        self._merge()
        return self._scores, self._positions

    def _collect(self, at: Tensor, scores: Tensor) -> None:
        """Let the scores wait that exceed the worst one kept."""
        query, place = _above(scores, self._scores[:, -1:])
        values = scores.view(-1).index_select(0, query * scores.shape[1] + place)
        # Hits come query by query; each gets its place behind what waits for its query already.
        counts = torch.bincount(query, minlength=len(scores))
        first = counts.cumsum(0) - counts - self._n_waiting
        nth = torch.arange(len(query), device=query.device) - first[query]
        self._waiting.append((query, nth, at[place], values))
        self._n_waiting += counts

    def _merge(self) -> None:
        self._n_merged = self._n_seen
        if not self._waiting:
            return
        query, nth, positions, values = (torch.cat(part) for part in zip(*self._waiting, strict=True))
        shape = (len(self._scores), int(self._n_waiting.max()))
        wide = values.new_full(shape, -torch.inf)
        wide_positions = positions.new_zeros(shape)
        wide[query, nth], wide_positions[query, nth] = values, positions
        self._waiting = []
        self._n_waiting.zero_()
        self._keep(wide, wide_positions)

    def _keep(self, scores: Tensor, positions: Tensor) -> None:
        """The best of what is kept and of (n, m) more; also puts few candidates in order."""
        scores = torch.cat((self._scores, scores), dim=1)
        positions = torch.cat((self._positions, positions), dim=1)
        self._scores, kept = scores.topk(min(self.n_best, scores.shape[1]))
        self._positions = positions.gather(1, kept)
        self._n_merged = self._n_seen


def _above(scores: Tensor, bar: Tensor) -> tuple[Tensor, Tensor]:
    """Query by query where (n, w) scores exceed the (n, 1) bar, as rows and columns."""
    groups = scores.view(len(scores), -1, GROUP)
    hit = groups.amax(dim=2) > bar
    if int(torch.count_nonzero(hit)) > MANY_GROUPS * hit.numel():
        return _where(scores > bar)
    query, group = _where(hit)
    which, place = _where(groups[query, group] > bar[query])
    return query[which], group[which] * GROUP + place


def _where(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of what is True in a (n, m) mask, row by row; NumPy finds few among many faster."""
    if mask.device.type != "cpu":
        query, place = mask.nonzero(as_tuple=True)
        return query, place
    at = torch.from_numpy(np.flatnonzero(mask.numpy()))
    query = at // mask.shape[1]
    return query, at - query * mask.shape[1]
