"""Fits, on documents held out for it or given for it, every weight that an untrained model needs.

The held-out documents are taken out of the memory and out of the centroids, so labels that only they carry
compete as labels without documents; where that are too few, some labels are hidden besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from xmc.calibration import Calibration, is_gold
from xmc.context import UNFITTED, context_features
from xmc.encoders.dual import DualEncoder, Encoded
from xmc.index.base import LabelIndex
from xmc.index.exact import ExactIndex
from xmc.index.matcher import LabelMatcher
from xmc.linear import LinearLabels
from xmc.memory import DocumentMemory
from xmc.mix import Mix, fit_logistic, fit_mix, fit_probability
from xmc.prototypes import DEFAULT as DEFAULT_PROTOTYPE
from xmc.prototypes import DEFAULT_TRAINED, LabelParts
from xmc.rerank.cross import CrossEncoder
from xmc.rerank.fitting import fit_reranker
from xmc.rerank.head import RerankHead
from xmc.rerank.inputs import RerankInputs, rerank_inputs
from xmc.rerank.run import merged, rescored
from xmc.shortlist import DEFAULT, DEFAULT_WORDS, Candidates, Shortlister
from xmc.stages import stage

MAX_HELD_OUT = 4000
HELD_OUT_SHARE = 0.2
FEW_NEW = 500
HIDDEN_SHARE = 0.05
ENOUGH = 1000  # held-out documents for weights of linear scores
BLOCK = 10_000  # documents read at a time
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
# Slope and offset of the probability of a score where no documents are there to fit them.
DEFAULT_PROBABILITY = (0.8, -10.5)


@dataclass(frozen=True)
class Weights:
    """All that is fitted: two mixes, slope and offset of the final one's log odds, ``beside``, the weights of
    a candidate beside the others; the reranker; the calibration.

    The last two are None where too little was held out to fit them, the reranker also where it is no better.
    """

    prototype: Mix
    final: Mix
    probability: tuple[float, float]
    beside: Mix = UNFITTED
    reranker: RerankHead | None = None
    calibration: Calibration | None = None

    def score(
        self, found: Candidates, frequency: np.ndarray, encoded: Encoded, shortlister: Shortlister
    ) -> np.ndarray:
        """(n_candidates,) float32 log odds that each candidate is right.

        ``frequency`` (n_labels,) documents of each label; ``shortlister``: what found the candidates of the
        documents ``encoded``.
        """
        context = self.context(found, frequency)
        log_odds = self.beside(context)
        if self.reranker is None:
            return log_odds
        return rescored(
            self.reranker, log_odds, found, rerank_inputs(found, context, log_odds, encoded, shortlister)
        )

    def context(self, found: Candidates, frequency: np.ndarray) -> np.ndarray:
        """(n_candidates, n) what the first stage sees; ``frequency`` (n_labels,) documents of each label."""
        features = found.mix_features(frequency)
        slope, offset = self.probability
        return context_features(features, slope * self.final(features) + offset, found.indptr)

    def widened(self, n_labels: int) -> Weights:
        """The same weights for a label set that has grown to ``n_labels``."""
        calibration = None if self.calibration is None else self.calibration.widened(n_labels)
        return replace(self, calibration=calibration)

    @classmethod
    def unfitted(cls, encoder: DualEncoder) -> Weights:
        """What to score with where there are too few documents to fit on."""
        final = DEFAULT if encoder.dense_dim else DEFAULT_WORDS
        prototype = DEFAULT_PROTOTYPE if encoder.trained is None else DEFAULT_TRAINED
        return cls(prototype, final, DEFAULT_PROBABILITY)


def held_out(n_docs: int, seed: int, n_dev: int = 0, known: np.ndarray | None = None) -> np.ndarray:
    """(n_docs,) bool: the documents that the fit is measured on.

    A random share of all, or the last ``n_dev`` where these are given for it; ``MAX_HELD_OUT`` at most.
    ``known`` (n_docs,) bool: those that were learned from before, which cannot judge; where that leaves few,
    up to half of the others do, ``FEW_NEW`` at most.
    """
    chosen, among = np.zeros(n_docs, bool), np.arange(n_docs - (n_dev or n_docs), n_docs)
    n_least = 0
    if known is not None:
        among = among[~known[among]]
        n_least = min(FEW_NEW, len(among) // 2)
    n = min(MAX_HELD_OUT, len(among) if n_dev else max(n_least, int(len(among) * HELD_OUT_SHARE)))
    chosen[among[np.random.default_rng(seed).permutation(len(among))[:n]]] = True
    return chosen


def with_duplicates(held: np.ndarray, words: np.ndarray) -> np.ndarray:
    """(n_docs,) bool: ``held`` and all that have the words of a held-out document.

    A document that found itself among its neighbours would teach that the nearest one knows all.
    ``words`` (n_docs, dim): the lexical vectors; zero ones are nobody's duplicates. Only ``held`` where no
    document would be left.
    """
    wanted = {row.tobytes() for row in np.asarray(words[np.flatnonzero(held)]) if row.any()}
    out = held.copy()
    for start in range(0, len(out), BLOCK):
        block = np.asarray(words[start : start + BLOCK])
        out[start : start + BLOCK] |= [row.tobytes() in wanted for row in block]
    return held if out.all() else out


def without_held_out(gold: sp.csr_matrix, held: np.ndarray, named: np.ndarray, seed: int) -> sp.csr_matrix:
    """(n_docs, n_labels) the gold labels that the fit may know: not of ``held`` documents, nor hidden ones.

    Where held-out documents bring few labels that no other document has, the weights would learn that such
    labels are never right. So random labels among the ``named`` (n_labels,) are hidden from all documents,
    until ``HIDDEN_SHARE`` of the held-out gold labels can be found by name alone.
    """
    in_held = np.bincount(gold[held].indices, minlength=gold.shape[1])
    seen = np.bincount(gold[~held].indices, minlength=gold.shape[1]) > 0
    missing = HIDDEN_SHARE * in_held.sum() - in_held[~seen].sum()
    order = np.random.default_rng(seed).permutation(np.flatnonzero((in_held > 0) & seen & named))
    hidden = order[np.cumsum(in_held[order]) <= missing]
    known = np.ones(gold.shape[1], bool)
    known[hidden] = False
    rest = gold.multiply(~held[:, None]).tocsr()
    rest.data[~known[rest.indices]] = 0
    rest.eliminate_zeros()
    return rest


def fit_share(encoder: DualEncoder, towers: np.ndarray, labels: sp.csr_matrix, held: np.ndarray) -> float:
    """The dense tower's share of the similarity with which neighbours vote best for held-out documents.

    ``towers`` (n_docs, dim) unit tower vectors, ``labels`` (n_docs, n_labels), ``held`` (n_docs,) bool.
    """
    if not encoder.dense_dim or held.sum() < 20:
        return encoder.share
    rows = np.flatnonzero(held)[:300]
    rest = np.flatnonzero(~held)[:20_000]
    left, right = np.asarray(towers[rows]), np.asarray(towers[rest])
    cut, end = encoder.dense_dim, encoder.untrained_dim
    dense, words = left[:, :cut] @ right[:, :cut].T, left[:, cut:end] @ right[:, cut:end].T
    gold = (labels[rows] @ labels[rest].T).toarray() > 0
    quality = [_first_right(share * dense + (1 - share) * words, gold) for share in SHARES]
    return SHARES[int(np.argmax(quality))]


def fit_trained_share(
    encoder: DualEncoder, towers: np.ndarray, labels: sp.csr_matrix, held: np.ndarray
) -> float:
    """The trained tower's share, chosen like the dense tower's; ``towers`` holds all three towers."""
    rows, rest = np.flatnonzero(held)[:300], np.flatnonzero(~held)[:20_000]
    if encoder.trained is None or len(rows) < 20:
        return encoder.trained_share
    left, right, cut = np.asarray(towers[rows]), np.asarray(towers[rest]), encoder.untrained_dim
    shares = encoder.share, 1 - encoder.share
    scale = np.sqrt(np.repeat(shares, [encoder.dense_dim, encoder.lexical.dim])).astype(np.float32)
    untrained = (left[:, :cut] * scale) @ (right[:, :cut] * scale).T
    trained = left[:, cut:] @ right[:, cut:].T
    gold = (labels[rows] @ labels[rest].T).toarray() > 0
    quality = [_first_right(share * trained + (1 - share) * untrained, gold) for share in SHARES]
    return SHARES[int(np.argmax(quality))]


def _first_right(similarity: np.ndarray, gold: np.ndarray, k: int = 10) -> float:
    """Share of the ``k`` nearest documents that have a label in common."""
    near = np.argpartition(-similarity, min(k, similarity.shape[1] - 1), axis=1)[:, :k]
    return float(np.take_along_axis(gold, near, axis=1).mean())


# From candidates, their log odds and which are right (n_candidates,) to a cross-encoder, None where there is
# none, and (n_candidates,) log odds as documents get that it was not fitted on.
FitCross = Callable[[Candidates, np.ndarray, np.ndarray], tuple[CrossEncoder | None, np.ndarray]]


class Fitted(NamedTuple):
    """The weights, with the classifiers that they were fitted with and the cross-encoder, or None."""

    weights: Weights
    linear: LinearLabels | None = None
    cross: CrossEncoder | None = None


@dataclass(frozen=True)
class FitTask:
    """The held-out documents (``encoded``, ``gold``), in random order, and the model without them.

    ``active`` (n_labels,) bool: labels that may be suggested; ``work``: a directory for large arrays;
    ``hidden`` (n_labels,) bool: labels whose documents the fit does not know of, None: no label; ``learn``:
    gives the labels' classifiers as an index over the labels suggests, None: there are none; ``read``: fits
    a cross-encoder, None: there is none.
    """

    encoder: DualEncoder
    encoded: Encoded
    gold: sp.csr_matrix
    parts: LabelParts
    matcher: LabelMatcher | None
    memory: DocumentMemory
    among: np.ndarray
    active: np.ndarray
    work: Path
    seed: int = 0
    hidden: np.ndarray | None = None
    learn: Callable[[LabelIndex], LinearLabels] | None = None
    read: FitCross | None = None

    def fit(self) -> Fitted:
        """Prototype mix first, then with its candidates everything else, each upon the one before."""
        start = Weights.unfitted(self.encoder)
        if not self.gold.nnz:
            return Fitted(start)
        prototype = self._few()._prototype_mix(start.prototype)
        shortlister = self._shortlister(prototype)
        linear = self.learn(shortlister.index) if self.learn else None
        shortlister = replace(shortlister, linear=linear)
        with stage("fit: candidates"):
            found = shortlister.candidates(self.encoded)
        right = self._right(found)
        weights = self._linear(found, right, replace(start, prototype=prototype))
        context = weights.context(found, self.parts.frequency)
        head, log_odds = self._reranked(found, context, weights.beside(context), right, shortlister)
        cross = None
        if self.read is not None:
            cross, log_odds = self.read(found, log_odds, right)
        pairs = found.of_doc, found.rows, log_odds
        with stage("fit: calibration"):
            calibration = Calibration.fit(pairs, self.gold, self.parts.frequency, self.seed, self.hidden)
        return Fitted(replace(weights, reranker=head, calibration=calibration), linear, cross)

    def _few(self) -> FitTask:
        """The task with so many documents as weights of linear scores need."""
        rows = np.arange(min(len(self.encoded.lexical), ENOUGH))
        return replace(self, encoded=self.encoded.take(rows), gold=self.gold[rows])

    @stage("fit: weights")
    def _prototype_mix(self, start: Mix) -> Mix:
        """How to mix the labels' parts, fitted on the candidates that ``start`` finds."""
        found = self._shortlister(start).candidates(self.encoded)
        features = self.parts.pair_features(self.encoded.towers, found.of_doc, found.rows)
        return fit_mix(features, self._right(found), found.of_doc, start)

    @stage("fit: weights")
    def _linear(self, found: Candidates, right: np.ndarray, start: Weights) -> Weights:
        """The first stage's weights, fitted on the first ``ENOUGH`` documents."""
        few = slice(int(found.indptr[min(len(found.indptr) - 1, ENOUGH)]))
        features = found.mix_features(self.parts.frequency)[few]
        final = fit_mix(features, right[few], found.of_doc[few], start.final)
        weights = replace(start, final=final, probability=fit_probability(final(features), right[few]))
        context = weights.context(found, self.parts.frequency)[few]
        return replace(weights, beside=fit_logistic(context, right[few], UNFITTED))

    def _reranked(
        self,
        found: Candidates,
        context: np.ndarray,
        log_odds: np.ndarray,
        right: np.ndarray,
        shortlister: Shortlister,
    ) -> tuple[RerankHead | None, np.ndarray]:
        """The reranker, and (n_candidates,) log odds as documents get that it was not fitted on."""
        if not right.any():
            return None, log_odds
        with stage("fit: candidates"):
            inputs = RerankInputs.concat(
                list(rerank_inputs(found, context, log_odds, self.encoded, shortlister))
            )
        place = inputs.place.numpy()
        with stage("fit: reranker"):
            fitted = fit_reranker(inputs, torch.from_numpy(right[place] & (place >= 0)), self.seed)
        if fitted is None:
            return None, log_odds
        return fitted.head, merged(log_odds, found, [(place, fitted.unseen.numpy())])

    def _right(self, found: Candidates) -> np.ndarray:
        """(n_candidates,) bool: gold."""
        return is_gold(self.gold, found.of_doc, found.rows)

    def _shortlister(self, mix: Mix) -> Shortlister:
        """What finds candidates with the labels' prototypes mixed so."""
        pieces = self.parts.folded(mix, self.encoder.scale, self.active)
        index = ExactIndex.written(self.work / "fitted.npy", self.encoder.dim + 1, "ip", pieces)
        scoreable = index.has(np.arange(len(self.parts)))
        return Shortlister(self.encoder, index, self.matcher, self.memory, scoreable, self.among)
