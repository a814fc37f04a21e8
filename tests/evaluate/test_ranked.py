import numpy as np
import pytest
import scipy.sparse as sp

from xmc.errors import InputError
from xmc.evaluate.ranked import Matches, Ranked, in_pairs


def test_best_first_and_ties_keep_the_order_given(ranked):
    assert ranked.rows.tolist() == [2, 3, 0, 0, 1, 4, 5]
    assert ranked.docs.tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert ranked.n_docs == 4


def test_hits_are_found(matches):
    assert matches.hit.tolist() == [True, False, True, False, True, False, False]
    assert matches.ranks.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert matches.gold_counts.tolist() == [3, 1, 0, 2]


def test_a_stored_zero_is_no_gold_label_and_a_repeated_one_counts_once():
    gold = sp.csr_matrix((np.array([0.0, 1.0, 1.0]), np.array([0, 1, 1]), np.array([0, 3])), shape=(1, 3))
    matches = Matches.build(gold, Ranked.build([0, 2], [0, 1], [2.0, 1.0]))
    assert matches.gold_labels.tolist() == [1]
    assert matches.hit.tolist() == [False, True]


def test_a_stored_zero_in_a_score_matrix_is_a_suggestion():
    scores = sp.csr_matrix((np.array([0.0, -1.0]), np.array([2, 0]), np.array([0, 2])), shape=(1, 3))
    assert Ranked.from_matrix(scores).rows.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("indptr", "rows", "scores", "message"),
    [
        ([0, 2], [1, 1], [0.5, 0.4], "label row 1 is suggested twice"),
        ([0, 0, 2], [1, 2], [0.5, np.nan], "document row 1: label row 2 has a score that is not finite"),
        ([0, 1], [1], [np.inf], "not finite"),
        ([0, 3], [1, 2], [0.5, 0.4], "indptr does not divide 2 entries"),
        ([0, 2, 1], [1], [0.5], "indptr does not divide"),
    ],
)
def test_build_refuses(indptr, rows, scores, message):
    with pytest.raises(InputError, match=message):
        Ranked.build(indptr, rows, scores)


def test_the_constructor_refuses_what_is_not_sorted_but_a_new_document_may_start_higher():
    with pytest.raises(InputError, match="better score than the one before"):
        Ranked(np.array([0, 2]), np.array([0, 1]), np.array([0.1, 0.2]))
    Ranked(np.array([0, 1, 2]), np.array([0, 1]), np.array([0.1, 0.2]))


def test_keep_moves_later_suggestions_up(ranked):
    kept = ranked.keep(ranked.rows != 3)
    assert kept.indptr.tolist() == [0, 2, 5, 6, 6]
    assert kept.rows.tolist() == [2, 0, 0, 1, 4, 5]


def test_within_keeps_ranks_and_drops_other_labels(matches):
    part = matches.within(np.array([True, False, False, False, False, True]))
    assert part.labels.tolist() == [0, 0, 5]
    assert part.ranks.tolist() == [2, 0, 0]
    assert part.gold_counts.tolist() == [1, 0, 0, 1]


def test_sizes_that_do_not_fit_are_refused(gold, ranked):
    with pytest.raises(InputError, match="suggestions for 4 documents, gold labels for 3"):
        Matches.build(gold[:3], ranked)
    with pytest.raises(InputError, match="outside 0 to 4"):
        Matches.build(gold[:, :5], ranked)


def test_pairs_of_a_million_labels_do_not_overflow():
    docs, labels = np.array([4_000_000, 4_000_000]), np.array([1_099_999, 5])
    found = in_pairs(docs, labels, np.array([4_000_000]), np.array([1_099_999]), 1_100_000)
    assert found.tolist() == [True, False]


def test_no_documents_and_no_suggestions():
    empty = Matches.build(sp.csr_matrix((0, 3)), Ranked.build([0], [], []))
    assert empty.n_docs == 0
    assert len(empty.hit) == 0
