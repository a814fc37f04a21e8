"""Mix: a linear score over a few features of (document, label) pairs, fitted on held-out documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xmc.errors import ArtifactError

STRENGTH = 1e-3  # of the pull towards the prior, in units of the loss per gold label
ENOUGH = 50  # right pairs from which a logistic regression of so many features is worth a try
FEW = 1000  # right pairs at which that pull is twice what it is with many
FEW_BESIDE = 20_000  # the same of the logistic regression, whose prior is fitted to the same documents
LARGEST = 1e12  # a saved weight beyond it was not fitted here, and could overflow a score


@dataclass(frozen=True)
class Mix:
    """``score = features @ weights``, names and weights in the order of the features."""

    names: tuple[str, ...]
    weights: np.ndarray

    @classmethod
    def of(cls, names: tuple[str, ...], **weights: float) -> Mix:
        """A mix with some weights given by name, the others zero."""
        return cls(names, np.array([weights.get(name, 0.0) for name in names]))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """(n_pairs,) float32 scores of (n_pairs, n_features); summed in a fixed order, pair by pair."""
        score = np.zeros(len(features), np.float64)
        for column, weight in enumerate(self.weights):
            score += features[:, column].astype(np.float64) * weight
        return score.astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """A plain form to save."""
        return dict(zip(self.names, map(float, self.weights), strict=True))

    @classmethod
    def from_json(cls, names: tuple[str, ...], saved: Any, where: object) -> Mix:
        """Read ``to_json`` again. Raises ArtifactError where names or values are not the expected ones."""
        good = isinstance(saved, dict) and set(saved) == set(names)
        values = [saved[name] for name in names] if good else []
        if not good or not are_weights(values):
            raise ArtifactError(
                f"{where}: the fitted weights are not those of this version; rebuild the model"
            )
        return cls(names, np.array(values, np.float64))


def are_weights(values: list[Any]) -> bool:
    """Whether all values, as read from JSON, are numbers of a size that weights have."""
    return all(isinstance(v, float) and abs(v) <= LARGEST for v in values)


def fit_mix(features: np.ndarray, gold: np.ndarray, of_doc: np.ndarray, prior: Mix) -> Mix:
    """Fit by decoupled softmax: each gold label against its document's wrong candidates (DEXML, ICLR 2024).

    ``features`` (n_pairs, n_features), ``gold`` (n_pairs,) bool, ``of_doc`` (n_pairs,) ascending. The
    weights are drawn towards ``prior``, the more the fewer gold labels there are; without any they are its.
    """
    from scipy.optimize import minimize

    useful = _useful(gold, of_doc)
    if not useful.any():
        return prior
    gold, of_doc = gold[useful], of_doc[useful]
    scaled, spread = _scaled(features[useful])
    start, strength = prior.weights * spread, pull_towards_prior(int(gold.sum()))
    starts = np.flatnonzero(np.r_[True, of_doc[1:] != of_doc[:-1]])
    group = np.cumsum(np.r_[0, of_doc[1:] != of_doc[:-1]])

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slope = _decoupled(scaled @ weights, gold, starts, group)
        pull = weights - start
        return loss + strength * pull @ pull, slope @ scaled + 2 * strength * pull

    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return Mix(prior.names, found.x / spread)


def pull_towards_prior(n_right: int, few: int = FEW) -> float:
    """How strongly weights are drawn to the prior, in units of the loss per gold label.

    ``few``: right pairs at which the pull is twice what it is with many.
    """
    return STRENGTH * (1 + few / n_right)


def _scaled(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features in units of their spread, so that one pull suits all weights, and that spread."""
    wide = features.astype(np.float64)
    spread = wide.std(axis=0)
    spread[spread < 1e-9] = 1.0
    return wide / spread, spread


def _useful(gold: np.ndarray, of_doc: np.ndarray) -> np.ndarray:
    """Pairs of documents that have a gold label and a wrong candidate among their pairs."""
    n = int(of_doc.max(initial=-1)) + 1
    right = np.bincount(of_doc, gold, n)
    return ((right > 0) & (right < np.bincount(of_doc, minlength=n)))[of_doc]


def _decoupled(
    scores: np.ndarray, gold: np.ndarray, starts: np.ndarray, group: np.ndarray
) -> tuple[float, np.ndarray]:
    """Loss per gold label and its slope by score; ``starts`` and ``group`` cut the pairs into documents.

    Every document has a wrong pair. Nothing here overflows, whatever the scores.
    """
    wrong = np.where(gold, -np.inf, scores)
    highest = np.maximum.reduceat(wrong, starts)
    grown = np.exp(wrong - highest[group])
    total = np.add.reduceat(grown, starts)
    margin = scores - (highest + np.log(total))[group]
    missed = np.where(gold, np.exp(-np.logaddexp(0, margin)), 0.0)  # 1 - the share of a gold label
    slope = grown / total[group] * np.add.reduceat(missed, starts)[group] - missed
    return np.logaddexp(0, -margin[gold]).sum() / gold.sum(), slope / gold.sum()


def fit_logistic(features: np.ndarray, right: np.ndarray, prior: Mix) -> Mix:
    """Weights of log odds by logistic regression, drawn towards ``prior``, the more the fewer are right.

    ``features`` (n_pairs, n_features), ``right`` (n_pairs,) bool.
    With too few right pairs, or no wrong one: the prior.
    """
    from scipy.optimize import minimize

    n_right = int(right.sum())
    if n_right < ENOUGH or right.all():
        return prior
    scaled, spread = _scaled(features)
    start = prior.weights * spread
    strength = pull_towards_prior(n_right, FEW_BESIDE)

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin, pull = scaled @ weights, weights - start
        loss = np.logaddexp(0, margin).sum() - margin[right].sum()
        slope = scaled.T @ (np.exp(-np.logaddexp(0, -margin)) - right)
        return loss / n_right + strength * pull @ pull, slope / n_right + 2 * strength * pull

    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return Mix(prior.names, found.x / spread)


def fit_probability(scores: np.ndarray, gold: np.ndarray) -> tuple[float, float]:
    """Slope and offset that turn scores into probabilities by a logistic curve (Platt 1999).

    The targets are Platt's, a little inside 0 and 1, so that pairs that a threshold separates do not give an
    endless slope. Without both right and wrong pairs, or where more score means less often right: (1, 0).
    """
    from scipy.optimize import minimize

    if not len(gold) or gold.all() or not gold.any():
        return 1.0, 0.0
    scores, n_right, n_wrong = scores.astype(np.float64), gold.sum(), (~gold).sum()
    target = np.where(gold, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        margin = x[0] * scores + x[1]
        slope = np.exp(-np.logaddexp(0, -margin)) - target
        loss = (np.logaddexp(0, margin) - target * margin).mean()
        return loss, np.array([(slope * scores).mean(), slope.mean()])

    found = minimize(objective, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B").x
    return (float(found[0]), float(found[1])) if found[0] > 0 else (1.0, 0.0)
