"""What went worst: documents and labels that a person should look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xmc.evaluate.evaluation import Evaluation
from xmc.evaluate.metrics import ndcg
from xmc.evaluate.ranked import Matches

K = 5  # documents are judged by nDCG@5, as labels are by their first 5 places


def quality(m: Matches) -> np.ndarray:
    """(n_docs,) nDCG@5 of each document; NaN without gold labels."""
    score = ndcg(m, K)
    return np.divide(score.top, score.bottom, out=np.full(m.n_docs, np.nan), where=score.bottom > 0)


def worst_documents(m: Matches, n: int) -> list[int]:
    """Rows of at most ``n`` documents with gold labels and nDCG@5 below 1, the lowest first.

    Equal ones: those whose first suggestion has the highest score, so that the surest mistakes come first.
    """
    score = quality(m)
    surest = np.full(m.n_docs, -np.inf)
    first = m.ranks == 0
    surest[m.docs[first]] = m.scores[first]
    order = np.lexsort((-surest, np.nan_to_num(score, nan=1.0)))
    return [int(row) for row in order[:n] if score[row] < 1]


class DocumentView(NamedTuple):
    """One document: ``gold`` label rows with their rank from 0 (-1: not suggested), best first, and the
    best ``suggested`` label rows with score and whether they are right.
    """

    row: int
    quality: float
    gold: list[tuple[int, int]]
    suggested: list[tuple[int, float, bool]]


def document_views(m: Matches, rows: Sequence[int]) -> list[DocumentView]:
    """The documents at ``rows``."""
    score = quality(m)
    return [_view(m, row, float(score[row])) for row in rows]


def _view(m: Matches, row: int, score: float) -> DocumentView:
    at = slice(*np.searchsorted(m.docs, [row, row + 1]))
    wanted = m.gold_labels[slice(*np.searchsorted(m.gold_docs, [row, row + 1]))].tolist()
    rank_of = dict(zip(m.labels[at].tolist(), m.ranks[at].tolist(), strict=True))
    gold = [(label, rank_of.get(label, -1)) for label in wanted]
    best = zip(m.labels[at].tolist(), m.scores[at].tolist(), m.hit[at].tolist(), strict=True)
    return DocumentView(row, score, sorted(gold, key=lambda g: (g[1] < 0, g[1])), list(best)[:K])


def most_missed(e: Evaluation, n: int) -> list[int]:
    """Rows of at most ``n`` labels that are gold most often without being among the first 5."""
    return _largest(e.labels.gold - e.labels.hits, n)


def most_mistaken(e: Evaluation, n: int) -> list[int]:
    """Rows of at most ``n`` labels that are most often among the first 5 without being gold."""
    return _largest(e.labels.suggested - e.labels.hits, n)


def _largest(counts: np.ndarray, n: int) -> list[int]:
    return [int(row) for row in np.argsort(-counts, kind="stable")[:n] if counts[row] > 0]
