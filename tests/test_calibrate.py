from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmc.calibrate import (
    MAX_KNOTS,
    N_BINS,
    Calibrator,
    Curve,
    expected_calibration_error,
    frequency_bin,
    reliability_curve,
)
from xmc.errors import ArtifactError

DEFAULT = Calibrator.logistic(0.8, -10.5)
OF_BIN = np.array([0, 5, 20, 100])  # a frequency in each bin
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


def logistic(margin: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-margin))


def truth(scores: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """What no logistic curve for all pairs is: text-only labels lag behind, and frequent ones level off."""
    return np.where(frequency >= 50, 0.8, 1) * logistic(scores.astype(float) - 5 - 2 * (frequency == 0))


def pairs(n: int, seed: int = 0) -> Pairs:
    rng = np.random.default_rng(seed)
    scores, frequency = rng.normal(0, 4, n).astype(np.float32), rng.choice(OF_BIN, n)
    return scores, rng.random(n) < truth(scores, frequency), frequency


@st.composite
def any_pairs(draw: st.DrawFn) -> Pairs:
    """Few pairs, tied scores, scores far apart, and right pairs anywhere."""
    n = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    scores = rng.normal(0, 1, n) * draw(st.sampled_from([1e-3, 1.0, 30.0, 1e4]))
    if draw(st.booleans()):
        scores = np.round(scores)
    return scores.astype(np.float32), rng.random(n) < draw(st.floats(0, 1)), rng.choice(OF_BIN, n)


def test_bins_are_those_of_labels_without_few_some_and_many_documents():
    assert frequency_bin(np.array([0, 1, 9, 10, 49, 50, 10**6])).tolist() == [0, 1, 1, 2, 2, 3, 3]


def test_a_logistic_curve_is_met_between_its_knots():
    scores = np.linspace(-60, 60, 1001).astype(np.float32)
    found = Calibrator.logistic(0.7, -2.0)(scores, np.resize(OF_BIN, 1001))
    assert found == pytest.approx(logistic(0.7 * scores.astype(float) - 2), abs=1e-3)
    assert found.dtype == np.float32


@pytest.mark.parametrize("slope", [0.0, -1.0, float("nan")])
def test_a_logistic_curve_that_does_not_rise_is_refused(slope):
    with pytest.raises(ValueError, match="slope"):
        Calibrator.logistic(slope, 0.0)


@given(any_pairs())
@settings(max_examples=60, deadline=None)
def test_a_higher_score_is_never_less_probable_and_nothing_is_certain(case):
    fitted = Calibrator.fit(*case, DEFAULT)
    around = np.concatenate([case[0] + step for step in (-1e6, -1, -1e-3, 0, 1e-3, 1, 1e6)])
    around = np.sort(np.concatenate([around, *(c.scores for c in fitted.curves)]).astype(np.float32))
    for frequency in OF_BIN:
        found = fitted(around, np.full(len(around), frequency))
        assert (np.diff(found) >= 0).all()
        assert found.min() > 0
        assert found.max() < 1


@given(any_pairs())
@settings(max_examples=60, deadline=None)
def test_knots_are_few_and_sorted(case):
    for curve in Calibrator.fit(*case, DEFAULT).curves:
        assert 1 <= len(curve.scores) == len(curve.probabilities) <= MAX_KNOTS
        assert (np.diff(curve.scores) > 0).all()
        assert (np.diff(curve.probabilities) >= 0).all()


def test_many_pairs_need_no_more_knots():
    assert max(len(c.scores) for c in Calibrator.fit(*pairs(100_000), DEFAULT).curves) <= MAX_KNOTS


def test_probabilities_are_the_true_ones_in_every_bin():
    fitted = Calibrator.fit(*pairs(60_000), DEFAULT)
    scores = np.linspace(-2, 10, 50).astype(np.float32)
    for frequency in OF_BIN:
        each = np.full(50, frequency)
        assert np.abs(fitted(scores, each) - truth(scores, each)).mean() < 0.02
        assert fitted(scores, each) == pytest.approx(truth(scores, each), abs=0.15)


def test_the_long_tail_of_wrong_pairs_is_not_overrated():
    fitted = Calibrator.fit(*pairs(60_000), DEFAULT)
    scores, _, frequency = pairs(50_000, seed=1)
    tail = scores < 0
    assert fitted(scores, frequency)[tail].mean() == pytest.approx(
        truth(scores, frequency)[tail].mean(), rel=0.3
    )


def test_fitted_pairs_are_right_as_often_as_expected():
    scores, right, frequency = pairs(20_000)
    found = Calibrator.fit(scores, right, frequency, DEFAULT)(scores, frequency)
    for b in range(N_BINS):
        chosen = frequency_bin(frequency) == b
        assert found[chosen].sum() == pytest.approx(right[chosen].sum(), rel=0.05)


def test_better_calibrated_than_one_logistic_curve():
    scores, right, frequency = pairs(60_000, seed=1)
    close = scores > 0
    errors = [
        expected_calibration_error(calibrator(scores, frequency)[close], right[close])
        for calibrator in (Calibrator.fit(*pairs(60_000), DEFAULT), Calibrator.logistic(1.0, -6.0))
    ]
    assert errors[0] < 0.01 < errors[1]


def test_a_bin_without_pairs_has_the_common_curve_and_with_few_stays_near_it():
    scores, right, frequency = pairs(20_000)
    some = np.flatnonzero(frequency > 0)
    few = np.append(some, np.flatnonzero((frequency == 0) & (scores > 4) & ~right)[:2])
    at = np.linspace(-2, 10, 30).astype(np.float32)
    none, near, full = (
        Calibrator.fit(scores[p], right[p], frequency[p], DEFAULT)(at, np.zeros(30, int))
        for p in (some, few, np.arange(20_000))
    )
    pooled = Calibrator.fit(scores[some], right[some], np.full(len(some), 5), DEFAULT)(at, np.zeros(30, int))
    assert none == pytest.approx(pooled, abs=1e-6)
    assert 0.0 < np.abs(near - none).max() < 0.3
    assert np.abs(near - none).mean() < np.abs(full - none).mean()
    assert len(np.unique(near)) == 30


def test_different_scores_are_not_tied():
    fitted = Calibrator.fit(*pairs(20_000), DEFAULT)
    scores = np.linspace(-4, 12, 200).astype(np.float32)
    assert (np.diff(fitted(scores, np.full(200, 20))) > 0).all()


@pytest.mark.parametrize(
    "right",
    [np.zeros(0, bool), np.zeros(5, bool), np.ones(5, bool)],
    ids=["no pair", "none right", "all right"],
)
def test_without_right_and_wrong_pairs_the_default_stays(right):
    assert Calibrator.fit(np.arange(len(right)), right, np.arange(len(right)), DEFAULT) is DEFAULT


def test_scores_that_say_nothing_give_the_share_that_is_right():
    right = np.arange(1000) % 4 == 0
    noise = np.random.default_rng(0).normal(-30, 1, 1000)
    for scores in (np.full(1000, 3.0), noise, -right.astype(np.float64)):
        found = Calibrator.fit(scores, right, np.full(1000, 5), DEFAULT)(scores, np.full(1000, 5))
        assert found.mean() == pytest.approx(0.25, abs=0.02)


def test_the_order_of_the_pairs_does_not_matter():
    scores, right, frequency = pairs(3000)
    scores = np.round(scores)
    other = np.random.default_rng(0).permutation(3000)
    at = np.linspace(-5, 9, 50)
    found = Calibrator.fit(scores, right, frequency, DEFAULT)(at, np.resize(OF_BIN, 50))
    again = Calibrator.fit(scores[other], right[other], frequency[other], DEFAULT)(at, np.resize(OF_BIN, 50))
    assert found == pytest.approx(again, abs=1e-4)


def test_no_scores_give_no_probabilities():
    assert DEFAULT(np.zeros(0, np.float32), np.zeros(0, int)).shape == (0,)


@given(any_pairs())
@settings(max_examples=30, deadline=None)
def test_saved_and_read(case):
    fitted = Calibrator.fit(*case, DEFAULT)
    again = Calibrator.from_json(json.loads(json.dumps(fitted.to_json())), "calibration.json")
    for mine, other in zip(fitted.curves, again.curves, strict=True):
        assert (mine.scores == other.scores).all()
        assert (mine.probabilities == other.probabilities).all()


GOOD = {"scores": [0.0, 1.0], "probabilities": [0.2, 0.4]}


@pytest.mark.parametrize(
    "curve",
    [
        None,
        [],
        {},
        {"scores": [0.0, 1.0]},
        GOOD | {"more": []},
        {"scores": [], "probabilities": []},
        GOOD | {"scores": [0.0]},
        GOOD | {"scores": "01"},
        GOOD | {"scores": [0.0, "1"]},
        GOOD | {"scores": [0.0, True]},
        GOOD | {"scores": [0.0, None]},
        GOOD | {"scores": [0.0, float("nan")]},
        GOOD | {"scores": [0.0, float("inf")]},
        GOOD | {"scores": [0.0, 1e300]},
        GOOD | {"scores": [1.0, 0.0]},
        GOOD | {"scores": [1.0, 1.0]},
        GOOD | {"probabilities": [0.4, 0.2]},
        GOOD | {"probabilities": [0.0, 0.2]},
        GOOD | {"probabilities": [0.2, 1.0]},
        GOOD | {"probabilities": [0.2, float("nan")]},
        GOOD | {"probabilities": [[0.2], [0.4]]},
        {"scores": list(map(float, range(MAX_KNOTS + 1))), "probabilities": [0.5] * (MAX_KNOTS + 1)},
    ],
)
def test_what_no_curve_was_saved_as_is_refused(curve):
    with pytest.raises(ArtifactError, match=r"calibration\.json: the calibration"):
        Calibrator.from_json([GOOD, GOOD, GOOD, curve], "calibration.json")


@pytest.mark.parametrize("saved", [None, {}, "", [], [GOOD] * (N_BINS - 1), [GOOD] * (N_BINS + 1), 1.0])
def test_what_no_calibration_was_saved_as_is_refused(saved: Any):
    with pytest.raises(ArtifactError, match=r"calibration\.json: the calibration"):
        Calibrator.from_json(saved, "calibration.json")


def test_one_knot_is_a_level_curve():
    curve = Curve.of(np.array([3.0]), np.array([0.25]))
    assert curve(np.array([-9.0, 3, 9])).tolist() == [0.25] * 3


def test_reliability_by_hand():
    probabilities = np.array([0.9, 0.1, 0.2, 0.7], np.float32)
    found = reliability_curve(probabilities, np.array([True, False, True, True]), n_bins=2)
    assert found.mean_probability == pytest.approx([0.15, 0.8])
    assert found.share_right.tolist() == [0.5, 1.0]
    assert found.n_pairs.tolist() == [2, 2]
    error = expected_calibration_error(probabilities, np.array([True, False, True, True]), n_bins=2)
    assert error == pytest.approx((0.35 + 0.2) / 2)


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=40), st.integers(1, 15))
def test_bins_hold_every_pair_once_and_equal_probabilities_together(case, n_bins):
    probabilities = np.array([p for p, _ in case], float) / 7
    right = np.array([r for _, r in case], bool)
    found = reliability_curve(probabilities, right, n_bins)
    again = reliability_curve(probabilities[::-1], right[::-1], n_bins)
    assert found.n_pairs.sum() == len(case)
    assert len(found.n_pairs) <= n_bins
    assert (np.diff(found.mean_probability) > 0).all()
    assert (found.share_right * found.n_pairs).sum() == pytest.approx(right.sum())
    assert found.share_right.tolist() == again.share_right.tolist()


def test_bins_of_different_probabilities_have_equal_mass():
    counts = reliability_curve(np.linspace(0.1, 0.9, 100), np.zeros(100, bool), 15).n_pairs
    assert len(counts) == 15
    assert set(counts) <= {6, 7}


def test_true_probabilities_have_no_error_and_none_have_no_number():
    probabilities = np.random.default_rng(0).random(50_000)
    right = np.random.default_rng(1).random(50_000) < probabilities
    assert expected_calibration_error(probabilities, right) < 0.01
    assert expected_calibration_error(probabilities**2, right) > 0.1
    assert np.isnan(expected_calibration_error(np.zeros(0), np.zeros(0, bool)))
