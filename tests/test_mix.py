from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc import mix
from xmc.errors import ArtifactError
from xmc.mix import Mix, _decoupled, fit_mix, fit_probability, pull_towards_prior

NAMES = ("a", "b", "c")
PRIOR = Mix.of(NAMES, a=1.0)


def cut(of_doc: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each document starts, and the number of each pair's document."""
    new = np.r_[True, of_doc[1:] != of_doc[:-1]]
    return np.flatnonzero(new), np.cumsum(new) - 1


def naive_loss(scores: np.ndarray, gold: np.ndarray, of_doc: np.ndarray) -> float:
    losses = []
    for i in np.flatnonzero(gold):
        wrong = scores[(of_doc == of_doc[i]) & ~gold]
        losses.append(np.log(np.exp(wrong - scores[i]).sum() + 1))
    return float(np.mean(losses))


def problem(seed: int, n_docs: int = 30, n_candidates: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    of_doc = np.repeat(np.arange(n_docs), n_candidates)
    gold = rng.random(len(of_doc)) < 0.3
    features = rng.standard_normal((len(of_doc), 3)).astype(np.float32)
    features[gold, 1] += 2
    return features, gold, of_doc


def test_scores_are_summed_pair_by_pair():
    rng = np.random.default_rng(0)
    features, mix = rng.standard_normal((50, 3)).astype(np.float32), Mix(NAMES, rng.standard_normal(3))
    assert mix(features) == pytest.approx(features @ mix.weights, abs=1e-5)
    assert mix(features[7:8])[0] == mix(features)[7]
    assert mix(features).dtype == np.float32
    assert mix(features[:0]).shape == (0,)


@given(st.integers(0, 50), st.floats(0.1, 20))
def test_loss_is_the_decoupled_softmax(seed, spread):
    _, gold, of_doc = problem(seed, 6, 5)
    gold[::5], gold[1::5] = True, False
    scores = np.random.default_rng(seed).standard_normal(30) * spread
    assert _decoupled(scores, gold, *cut(of_doc))[0] == pytest.approx(naive_loss(scores, gold, of_doc))


@given(st.integers(0, 50))
def test_slope_agrees_with_finite_differences(seed):
    _, gold, of_doc = problem(seed, 4, 5)
    gold[::5], gold[1::5] = True, False
    scores, step = np.random.default_rng(seed).standard_normal(20) * 3, 1e-6
    slope = _decoupled(scores, gold, *cut(of_doc))[1]
    for i in range(len(scores)):
        moved = np.eye(20)[i] * step
        above, below = (_decoupled(scores + s * moved, gold, *cut(of_doc))[0] for s in (1, -1))
        assert slope[i] == pytest.approx((above - below) / (2 * step), abs=1e-6)


def test_scores_far_apart_overflow_nothing():
    gold, of_doc = np.array([True, True, False, False]), np.zeros(4, int)
    loss, slope = _decoupled(np.array([2000.0, -2000, 0, -1500]), gold, *cut(of_doc))
    assert loss == pytest.approx(1000)
    assert slope.tolist() == pytest.approx([0, -0.5, 0.5, 0])


def test_the_fit_finds_what_tells_gold_labels():
    features, gold, of_doc = problem(1, 200)
    fitted = fit_mix(features, gold, of_doc, PRIOR)
    assert fitted.names == NAMES
    assert fitted.weights[1] > 1.5
    assert abs(fitted.weights[2]) < 0.3
    assert naive_loss(fitted(features), gold, of_doc) < naive_loss(PRIOR(features), gold, of_doc) / 2


def test_the_fit_is_at_a_minimum():
    features, gold, of_doc = problem(2)
    features[:, 2] *= 1000
    fitted = fit_mix(features, gold, of_doc, PRIOR)
    has_both = np.array([0 < gold[of_doc == doc].sum() < 8 for doc in of_doc])
    spread = features[has_both].astype(float).std(axis=0)
    strength = pull_towards_prior(int(gold[has_both].sum()))

    def objective(weights: np.ndarray) -> float:
        pull = ((weights - PRIOR.weights) * spread) ** 2
        chosen = has_both
        return naive_loss(features[chosen] @ weights, gold[chosen], of_doc[chosen]) + strength * pull.sum()

    best = objective(fitted.weights)
    for column in range(3):
        for step in (-0.05, 0.05):
            assert objective(fitted.weights + np.eye(3)[column] * step / spread[column]) > best


@pytest.mark.parametrize(
    "gold",
    [np.zeros(6, bool), np.ones(6, bool), np.array([1, 1, 1, 0, 0, 0], bool)],
    ids=["no gold label", "no wrong candidate", "no document with both"],
)
def test_without_anything_to_learn_from_the_prior_stays(gold):
    features, of_doc = np.ones((6, 3), np.float32), np.array([0, 0, 0, 1, 1, 1])
    assert fit_mix(features, gold, of_doc, PRIOR) is PRIOR
    assert fit_mix(features[:0], gold[:0], of_doc[:0], PRIOR) is PRIOR


def test_features_that_never_vary_keep_their_prior_weight():
    features, gold, of_doc = problem(3)
    features[:, 0] = 5
    assert fit_mix(features, gold, of_doc, PRIOR).weights[0] == pytest.approx(1, abs=1e-3)


def test_a_stronger_pull_stays_nearer_to_the_prior(monkeypatch):
    features, gold, of_doc = problem(4)
    weak = fit_mix(features, gold, of_doc, PRIOR).weights
    monkeypatch.setattr(mix, "STRENGTH", 10.0)
    strong = fit_mix(features, gold, of_doc, PRIOR).weights
    assert np.linalg.norm(strong - PRIOR.weights) < np.linalg.norm(weak - PRIOR.weights) / 5


def test_documents_may_be_any_ascending_numbers():
    features, gold, of_doc = problem(5)
    assert fit_mix(features, gold, of_doc * 7 + 3, PRIOR).weights == pytest.approx(
        fit_mix(features, gold, of_doc, PRIOR).weights
    )


def test_saved_and_read():
    mix = Mix(NAMES, np.array([1.5, -2e-9, 0.0]))
    again = Mix.from_json(NAMES, json.loads(json.dumps(mix.to_json())), "weights.json")
    assert again.names == NAMES
    assert (again.weights == mix.weights).all()


@pytest.mark.parametrize(
    "saved",
    [None, [], {}, {"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0, "c": "1"}, {"a": 1.0, "b": 1.0, "c": True}]
    + [{"a": 1.0, "b": 1.0, "c": value} for value in (float("nan"), float("inf"), 1e300, 10**400, None)],
)
def test_what_no_mix_was_saved_as_is_refused(saved):
    with pytest.raises(ArtifactError, match=r"weights\.json: the fitted weights"):
        Mix.from_json(NAMES, saved, "weights.json")


def probability(scores: np.ndarray, curve: tuple[float, float]) -> np.ndarray:
    return 1 / (1 + np.exp(-(curve[0] * scores + curve[1])))


def test_probabilities_are_calibrated():
    rng = np.random.default_rng(0)
    scores = rng.normal(10, 4, 20_000)
    gold = rng.random(len(scores)) < probability(scores, (0.7, -6.0))
    assert fit_probability(scores.astype(np.float32), gold) == pytest.approx((0.7, -6.0), abs=0.25)


def test_separable_pairs_give_no_endless_slope():
    scores = np.array([-1.0, -2, -3, 4, 5])
    found = probability(scores, fit_probability(scores, scores > 0))
    assert (np.diff(found[np.argsort(scores)]) > 1e-6).all()
    assert found[3:].min() > 0.6
    assert found.max() < 0.9
    assert found[:3].max() < 0.4


@pytest.mark.parametrize(
    ("scores", "gold"),
    [([], []), ([1, 2], [True, True]), ([1, 2], [False, False]), ([1, 2, 3, 4], [True, True, False, False])],
)
def test_without_anything_to_learn_from_scores_become_probabilities_as_they_are(scores, gold):
    assert fit_probability(np.array(scores, np.float32), np.array(gold, bool)) == (1.0, 0.0)


def test_the_fewer_gold_labels_the_stronger_the_pull():
    features, gold, of_doc = problem(1, 200)
    few = of_doc < 10
    near, far = (fit_mix(features[rows], gold[rows], of_doc[rows], PRIOR) for rows in (few, slice(None)))
    assert np.abs(near.weights - PRIOR.weights).sum() < np.abs(far.weights - PRIOR.weights).sum()
