from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.rerank.made import N_OWN, Made
from xmc.rerank.fitting import scores
from xmc.rerank.head import RerankHead
from xmc.rerank.inputs import N_BEST, rerank_inputs
from xmc.rerank.run import merged, rescored
from xmc.shortlist import SOURCES, Candidates

FLOATS = st.floats(-30, 30, width=32)


def candidates(counts: list[int]) -> Candidates:
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Candidates(indptr, np.arange(indptr[-1]), np.zeros((indptr[-1], len(SOURCES)), np.float32), None)


def best_places(found: Candidates, log_odds: np.ndarray, n_best: int) -> np.ndarray:
    """(n_docs, n_best) each document's best candidates, then -1."""
    out = np.full((len(found.indptr) - 1, n_best), -1)
    for doc, (first, last) in enumerate(zip(found.indptr[:-1], found.indptr[1:], strict=True)):
        best = sorted(sorted(range(first, last), key=lambda i: -log_odds[i])[:n_best])
        out[doc, : len(best)] = best
    return out


@given(st.data())
def test_what_was_scored_again_is_in_place_and_above_the_others_whose_order_stays(data):
    counts = data.draw(st.lists(st.integers(0, 8), max_size=6))
    found, n_best = candidates(counts), data.draw(st.integers(1, 5))
    log_odds = data.draw(hnp.arrays(np.float32, sum(counts), elements=FLOATS))
    place = best_places(found, log_odds, n_best)
    values = data.draw(hnp.arrays(np.float32, place.shape, elements=FLOATS))
    cut = data.draw(st.integers(0, len(place)))
    given_log_odds = log_odds.copy()
    out = merged(log_odds, found, [(place[:cut], values[:cut]), (place[cut:], values[cut:])])
    assert (log_odds == given_log_odds).all()
    assert out.dtype == np.float32
    assert np.isfinite(out).all()
    for doc, mine in enumerate(place):
        there = mine[mine >= 0]
        assert (out[there] == values[doc][mine >= 0]).all()
        others = np.setdiff1d(np.arange(found.indptr[doc], found.indptr[doc + 1]), there)
        assert (out[others] <= log_odds[others]).all()
        if len(others):
            assert out[others].max() < out[there].min()
        order = others[np.argsort(log_odds[others], kind="stable")]
        assert (np.diff(out[order]) >= 0).all()


def test_others_that_the_head_overtakes_keep_their_distances():
    found, log_odds = candidates([4]), np.array([-1, 3, -3, 2], np.float32)
    out = merged(log_odds, found, [(np.array([[1, 3]]), np.array([[-5, 1]], np.float32))])
    assert out.tolist() == pytest.approx([-5, -5, -7, 1])
    assert out[0] < out[1]


def test_others_that_are_below_already_stay_as_they_are():
    found, log_odds = candidates([3, 2]), np.array([-9, 3, 2, 1, 0], np.float32)
    again = np.array([[1, 2], [3, 4]]), np.array([[5, -2], [0, 1]], np.float32)
    assert merged(log_odds, found, [again]).tolist() == [-9, 5, -2, 0, 1]


def test_without_candidates_or_documents():
    none = np.zeros(0, np.float32)
    empty = np.full((2, 3), -1), np.zeros((2, 3), np.float32)
    assert merged(none, candidates([0, 0]), [empty]).shape == (0,)
    assert merged(none, candidates([]), []).shape == (0,)


def test_rescored_are_the_scores_of_the_head_for_the_best_and_the_first_stage_for_the_others():
    made = Made(n_docs=70)
    head = RerankHead(N_OWN + 3, 3).eval()
    head.out.weight.data.fill_(0.3)
    head.direct.weight.data.fill_(0.1)
    given_parts = made.found, made.own, made.log_odds, made.encoded, made.shortlister
    out = rescored(head, made.log_odds, made.found, rerank_inputs(*given_parts))
    inputs = made.inputs()
    wanted, place = scores(head, inputs), inputs.place
    assert out[place[place >= 0]] == pytest.approx(wanted[place >= 0].numpy(), abs=1e-5)
    counts = np.diff(made.found.indptr)
    for doc in np.flatnonzero(counts > N_BEST):
        mine = np.arange(made.found.indptr[doc], made.found.indptr[doc + 1])
        others = np.setdiff1d(mine, place[doc])
        assert out[others].max() < out[place[doc]].min()


def test_a_head_that_adds_nothing_changes_nothing():
    made = Made(n_docs=5)
    given_parts = made.found, made.own, made.log_odds, made.encoded, made.shortlister
    out = rescored(RerankHead(N_OWN + 3, 3).eval(), made.log_odds, made.found, rerank_inputs(*given_parts))
    assert (out == made.log_odds).all()
