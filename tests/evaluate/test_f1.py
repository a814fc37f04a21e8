"""F1 against values worked out by hand (the case stands in worked_case) and scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import f1_score
from worked_case import gold_matrix, ranked_of

from xmc.evaluate.f1 import best_threshold, first, from_score, label_counts, macro_f1, micro_f1
from xmc.evaluate.ranked import Matches, Ranked


def test_micro_f1_worked_out_by_hand(matches):
    assert micro_f1(matches, first(matches, 1)).value == pytest.approx(2 * 1 / (3 + 6))  # c, a, f: c hits
    assert micro_f1(matches, first(matches, 5)).value == pytest.approx(2 * 3 / (7 + 6))
    assert micro_f1(matches, from_score(matches, 0.7)).value == pytest.approx(2 * 3 / (5 + 6))


def test_best_threshold_worked_out_by_hand(matches):
    # from .9: 2/(1+6); .8: 4/(3+6) = .444; .7: 6/(5+6) = .545; .6: 6/(6+6); .2: 6/(7+6)
    assert best_threshold(matches) == 0.7


def test_of_equally_good_thresholds_the_highest_is_taken_and_ties_are_kept_together():
    m = Matches.build(gold_matrix([[0], [1]], 2), ranked_of([[(0, 0.9), (1, 0.5)], [(1, 0.5)]]))
    # from .9: 2/(1+2) = 2/3; from .5 all three: 4/(3+2) = .8; the hit at .5 alone would give 1
    assert best_threshold(m) == 0.5
    equal = Matches.build(gold_matrix([[0], []], 2), ranked_of([[(0, 0.9)], []]))
    assert best_threshold(equal) == 0.9


def test_macro_f1_worked_out_by_hand(matches):
    # At 1: a 0, b 0, c 1, d 0, f 0 (f is suggested for a document without gold); e never occurs in gold.
    assert macro_f1(matches, first(matches, 1)).value == pytest.approx(1 / 5)
    # At 3: a 2/(2+1), b 2/(1+2), c 1, d 0 of one, f 0 of one.
    assert macro_f1(matches, first(matches, 3)).value == pytest.approx((2 / 3 + 2 / 3 + 1) / 5)


def test_bins_count_their_own_gold_and_suggestions(matches):
    zero = matches.within(np.array([False, False, True, True, False, False]))  # c and d
    assert micro_f1(zero, first(zero, 3)).value == pytest.approx(2 * 1 / (2 + 2))
    assert macro_f1(zero, first(zero, 3)).value == pytest.approx((1 + 0) / 2)
    assert micro_f1(zero, first(zero, 1)).value == pytest.approx(2 * 1 / (1 + 2))  # d is second in its list


def test_no_suggestions_and_no_gold():
    none = Matches.build(gold_matrix([[1]], 2), ranked_of([[]]))
    assert best_threshold(none) is None
    assert micro_f1(none, first(none, 5)).value == 0
    empty = Matches.build(gold_matrix([[]], 2), ranked_of([[]]))
    assert math.isnan(micro_f1(empty, first(empty, 5)).value)
    assert math.isnan(macro_f1(empty, first(empty, 5)).value)


def test_label_counts(matches):
    counts = label_counts(matches, 5)
    assert counts.gold.tolist() == [1, 2, 1, 1, 0, 1]
    assert counts.suggested.tolist() == [2, 1, 1, 1, 1, 1]
    assert counts.hits.tolist() == [1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_f1_is_that_of_scikit_learn(average):
    rng = np.random.default_rng(3)
    truth, scores = rng.random((60, 25)) < 0.1, rng.random((60, 25))
    ranked = Ranked.build(np.arange(61) * 25, np.tile(np.arange(25), 60), scores.ravel())
    m = Matches.build(gold_matrix([np.flatnonzero(row) for row in truth], 25), ranked)
    metric = {"micro": micro_f1, "macro": macro_f1}[average]
    occurring = np.flatnonzero(truth.any(axis=0)) if average == "macro" else None
    by_score = f1_score(truth, scores >= 0.8, average=average, labels=occurring, zero_division=0)
    assert metric(m, from_score(m, 0.8)).value == pytest.approx(by_score, abs=1e-6)
    top = scores >= np.sort(scores, axis=1)[:, [-5]]
    at_5 = f1_score(truth, top, average=average, labels=occurring, zero_division=0)
    assert metric(m, first(m, 5)).value == pytest.approx(at_5, abs=1e-6)
