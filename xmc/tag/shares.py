"""What each part of a model adds to a label's log odds, against the average candidate of the same document.

The average candidate has the mean features of the document's candidates and stands beside the same others.
The first stage is linear in the features but for the square of the score, and a difference of squares is a
difference times a sum: so the parts add up to the difference exactly, whatever the weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmc.context import LARGEST
from xmc.context import NAMES as CONTEXT
from xmc.fit import Weights
from xmc.shortlist import KINDS, NAMES, SOURCES, Candidates
from xmc.tag.suggestions import PARTS

# Which part each of the shortlist's features belongs to.
_PART_OF = {"cosine": "words", "containment": "words", "lead": "words", "votes": "neighbours"}
_FEATURE_PARTS = [_PART_OF.get(source, source) for source in SOURCES for _ in KINDS] + ["frequency"] * 2
_SCORE, _CROWD, _SQUARE = (CONTEXT.index(name) for name in ("score", "crowd", "square"))
_BELOW = CONTEXT.index("below_best")


@dataclass(frozen=True)
class Scored:
    """The candidates of n documents as they were scored.

    ``context`` (n_candidates, len(CONTEXT)): what the first stage saw; ``log_odds`` (n_candidates,): the last
    stage's; ``trained`` (n_candidates,): the part of the prototype's score that the trained tower gives.
    """

    found: Candidates
    context: np.ndarray
    log_odds: np.ndarray
    trained: np.ndarray


def shares(weights: Weights, scored: Scored, chosen: np.ndarray) -> np.ndarray:
    """(n_chosen, len(PARTS)) float64, a row for each of the ``chosen`` (n_chosen,) candidates.

    A row sums to the candidate's log odds: ``average`` is the log odds of the document's average candidate,
    ``reranker`` what the reranker changed, and the others are differences from the average.
    """
    beside, average = weights.beside, _average(weights, scored)
    of_doc, own = scored.found.of_doc[chosen], scored.context[chosen].astype(np.float64)
    per_feature = _per_feature(weights, own, average[of_doc])
    seen = (own - average[of_doc])[:, : len(NAMES)]
    parts = {name: np.zeros(len(chosen)) for name in PARTS}
    for column, part in enumerate(_FEATURE_PARTS):
        parts[part] += per_feature[:, column] * seen[:, column]
    parts["trained"] = _trained(scored, chosen, per_feature)
    parts["prototype"] -= parts["trained"]
    parts["average"] = beside(average)[of_doc].astype(np.float64)
    parts["reranker"] = scored.log_odds[chosen] - beside(scored.context[chosen]).astype(np.float64)
    return np.stack([parts[name] for name in PARTS], axis=1)


def _average(weights: Weights, scored: Scored) -> np.ndarray:
    """(n_docs, len(CONTEXT)) what the first stage would see of each document's average candidate."""
    out = _means(scored.context.astype(np.float64), scored.found.indptr)
    first = scored.context[np.minimum(scored.found.indptr[:-1], len(scored.context) - 1)]
    slope, offset = weights.probability
    best = first[:, _SCORE] - first[:, _BELOW]
    score = slope * (out[:, : len(NAMES)] @ weights.final.weights) + offset
    out[:, _SCORE] = np.clip(score, -LARGEST, LARGEST)
    out[:, _BELOW] = out[:, _SCORE] - best
    out[:, _CROWD], out[:, _SQUARE] = first[:, _CROWD], out[:, _SCORE] ** 2
    return out


def _per_feature(weights: Weights, own: np.ndarray, average: np.ndarray) -> np.ndarray:
    """(n_chosen, len(NAMES)) how much the log odds rise for each unit of a feature above the average.

    ``own``, ``average`` (n_chosen, len(CONTEXT)): the candidates and the average ones beside them.
    """
    slope, _ = weights.probability
    final, beside = weights.final.weights, weights.beside.weights
    gap = (own - average)[:, : len(NAMES)] @ final * slope
    held = (np.abs(own[:, _SCORE]) >= LARGEST) | (np.abs(average[:, _SCORE]) >= LARGEST)
    rise = own[:, _SCORE] - average[:, _SCORE]
    # A score beyond the limit was cut: what is left of the difference is shared out in proportion.
    kept = np.divide(rise, gap, out=np.ones_like(gap), where=held & (gap != 0))
    by_score = beside[_SCORE] + beside[_BELOW] + beside[_SQUARE] * (own[:, _SCORE] + average[:, _SCORE])
    return beside[: len(NAMES)] + (by_score * kept * slope)[:, None] * final


def _trained(scored: Scored, chosen: np.ndarray, per_feature: np.ndarray) -> np.ndarray:
    """(n_chosen,) the trained tower's part of what the prototype's features give."""
    if not scored.trained.any():
        return np.zeros(len(chosen))
    kinds = _kinds(scored.context)
    features = scored.trained[:, None].astype(np.float64) * kinds
    above = features[chosen] - _means(features, scored.found.indptr)[scored.found.of_doc[chosen]]
    return (per_feature[:, : len(KINDS)] * above).sum(axis=1)


def _kinds(context: np.ndarray) -> np.ndarray:
    """(n_candidates, len(KINDS)) as `xmc.prototypes.label_kinds`, out of what the first stage saw."""
    last = [NAMES.index("seen"), NAMES.index("frequency")]
    return np.hstack([np.ones((len(context), 1)), context[:, last]])


def _means(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """(n_docs, n) mean of each document's rows of ``values`` (n_candidates, n), zero without any."""
    counts = np.diff(indptr)
    out = np.zeros((len(counts), values.shape[1]))
    full = counts > 0
    if full.any():
        out[full] = np.add.reduceat(values, indptr[:-1][full], axis=0) / counts[full, None]
    return out
