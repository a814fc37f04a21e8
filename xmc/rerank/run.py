"""Applies the reranker to candidates."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xmc.rerank.fitting import scores
from xmc.rerank.head import RerankHead
from xmc.rerank.inputs import RerankInputs
from xmc.shortlist import Candidates


def rescored(
    head: RerankHead, log_odds: np.ndarray, found: Candidates, blocks: Iterable[RerankInputs]
) -> np.ndarray:
    """(n_candidates,) float32 log odds, the best candidates' by the head; ``log_odds``: the first stage's."""
    return merged(log_odds, found, ((block.place.numpy(), scores(head, block).numpy()) for block in blocks))


def merged(
    log_odds: np.ndarray, found: Candidates, again: Iterable[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """(n_candidates,) float32 ``log_odds`` with those that were scored ``again`` in their place.

    ``again``: which candidates (n, c), -1 for none, and their log odds (n, c), for all documents in order.
    A candidate that was not scored again stays below its document's that were.
    """
    out, start = log_odds.astype(np.float32), 0
    for place, values in again:
        there = place >= 0
        lowest = np.where(there, values, np.inf).min(axis=1, initial=np.inf)
        stop = start + len(place)
        span = slice(found.indptr[start], found.indptr[stop])
        limit = np.repeat(lowest, np.diff(found.indptr[start : stop + 1]))
        out[span] = np.minimum(out[span], limit)
        out[place[there]] = values[there]
        start = stop
    return out
