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
    The other candidates of a document move down together as far as it takes to stay below these.
    """
    out, least = log_odds.astype(np.float32), np.full(len(found.indptr) - 1, np.inf, np.float32)
    is_other, start = np.ones(len(out), bool), 0
    for place, values in again:
        there = place >= 0
        out[place[there]], is_other[place[there]] = values[there], False
        least[start : start + len(place)] = np.where(there, values, np.inf).min(axis=1, initial=np.inf)
        start += len(place)
    others, of_doc = np.flatnonzero(is_other), found.of_doc[is_other]
    highest = np.full(len(least), -np.inf, np.float32)
    np.maximum.at(highest, of_doc, out[others])
    drop = np.maximum(highest - least, 0)
    below = np.nextafter(least, np.float32(-np.inf))  # rounding may leave the highest on a level with it
    out[others] = np.minimum(out[others] - drop[of_doc], below[of_doc])
    return out
