"""Ranking metrics against values worked out by hand (the case stands in worked_case) and scikit-learn."""

import math

import numpy as np
import pytest
from sklearn.metrics import ndcg_score
from worked_case import gold_matrix, ranked_of

from xmc.evaluate.metrics import ndcg, precision, psndcg, psp, r_precision, recall
from xmc.evaluate.ranked import Matches, Ranked

LOG3 = 1 / math.log2(3)  # the discount of the second place


@pytest.mark.parametrize(
    ("metric", "k", "expected"),
    [
        # Documents 0, 1 and 3 have gold labels; document 2 is left out of every mean.
        (precision, 1, (1 + 0 + 0) / 3),
        (precision, 3, (2 / 3 + 1 / 3 + 0) / 3),
        (precision, 5, (2 / 5 + 1 / 5 + 0) / 3),  # only 3 are suggested: the other two slots are misses
        (recall, 1, (1 / 3 + 0 + 0) / 3),
        (recall, 3, (2 / 3 + 1 + 0) / 3),
        (recall, 5, (2 / 3 + 1 + 0) / 3),
        (r_precision, 1, (1 / 1 + 0 + 0) / 3),
        (r_precision, 2, (1 / 2 + 1 / 1 + 0) / 3),
        (r_precision, 5, (2 / 3 + 1 + 0) / 3),
        (ndcg, 1, (1 + 0 + 0) / 3),
        # Document 0 hits in places 1 and 3, the third counting 1 / log2(4); ideally in 1, 2 and 3.
        (ndcg, 3, ((1 + 0.5) / (1 + LOG3 + 0.5) + LOG3 / 1 + 0) / 3),
        (ndcg, 5, ((1 + 0.5) / (1 + LOG3 + 0.5) + LOG3 / 1 + 0) / 3),
    ],
)
def test_worked_out_by_hand(matches, metric, k, expected):
    assert metric(matches, k).value == pytest.approx(expected, abs=1e-12)


def test_propensity_scores_worked_out_by_hand(matches):
    weights = np.array([1.0, 2, 3, 4, 5, 6])
    # k = 1: the hit c weighs 3. The best are c (3), b (2) and f (6).
    assert psp(matches, 1, weights).value == pytest.approx(3 / 11)
    # k = 3: hits c + a, and b. The best: a + b + c, b, and d + f.
    assert psp(matches, 3, weights).value == pytest.approx((4 + 2) / (6 + 2 + 10))
    found = (3 + 1 * 0.5) + 2 * LOG3
    best = (3 + 2 * LOG3 + 1 * 0.5) + 2 + (6 + 4 * LOG3)
    assert psndcg(matches, 3, weights).value == pytest.approx(found / best)


def test_by_bin_worked_out_by_hand(matches):
    zero = matches.within(np.array([False, False, True, True, False, False]))  # c and d
    # Document 0 has the gold label c, found; document 3 has d, not found; document 1 has neither.
    assert recall(zero, 1).value == pytest.approx((1 + 0) / 2)
    assert precision(zero, 3).value == pytest.approx((1 / 3 + 0) / 2)
    frequent = matches.within(np.array([True, False, False, False, False, True]))  # a and f
    # a stands in place 3 among all labels, and so in its bin: R@1 is 0 and nDCG@3 gains 1 / log2(4).
    assert recall(frequent, 1).value == 0
    assert ndcg(frequent, 3).value == pytest.approx((0.5 + 0) / 2)


def test_equal_weights_make_psp_a_ratio_of_plain_hits(matches):
    assert psp(matches, 3, np.ones(6)).value == pytest.approx(3 / (3 + 1 + 2))


def test_nothing_to_measure_is_nan():
    m = Matches.build(gold_matrix([[], []], 3), ranked_of([[(0, 1.0)], []]))
    for metric in (precision, recall, r_precision, ndcg):
        assert math.isnan(metric(m, 3).value)
    assert math.isnan(psp(m, 3, np.ones(3)).value)


@pytest.mark.parametrize("k", [1, 3, 5, 10])
def test_ndcg_is_that_of_scikit_learn(k):
    rng = np.random.default_rng(7)
    truth = rng.random((40, 30)) < 0.15
    truth[:, 0] |= ~truth.any(axis=1)  # scikit-learn counts a document without gold as 0, we leave it out
    scores = rng.permuted(np.tile(np.arange(30.0), (40, 1)), axis=1)
    ranked = Ranked.build(np.arange(41) * 30, np.tile(np.arange(30), 40), scores.ravel())
    ours = ndcg(Matches.build(gold_matrix([np.flatnonzero(row) for row in truth], 30), ranked), k).value
    assert ours == pytest.approx(ndcg_score(truth, scores, k=k), abs=1e-12)
