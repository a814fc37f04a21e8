"""What an index refuses, by number and before anything changes."""

from __future__ import annotations

import numpy as np
import pytest

from xmc.errors import InputError
from xmc.index.kinds import make_index


@pytest.fixture
def index():
    index = make_index("exact", 3)
    index.add(np.array([2, 5]), np.eye(3, dtype=np.float32)[:2])
    return index


def refused(call, *parts):
    """The call raises an InputError, which is a ValueError too, in one line with all of the parts."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is checked below
        call()
    message = str(caught.value)
    assert isinstance(caught.value, InputError)
    assert "\n" not in message
    assert [part for part in parts if part not in message] == []


def vectors(*rows):
    return np.array(rows, dtype=np.float32)


def test_faulty_vectors_are_refused_by_row_and_nothing_is_added(index):
    many = np.ones((8, 3), dtype=np.float32)
    many[1:] = 0
    rows = np.arange(10, 18)
    refused(lambda: index.add(rows, many), "rows 11, 12, 13, 14, 15 and 2 more", "zero")
    refused(lambda: index.add(rows[:2], vectors([1, 2, 3], [1, np.nan, 0])), "row 11", "NaN or Inf")
    refused(lambda: index.add(rows[:1], vectors([np.inf, 0, 0])), "row 10", "NaN or Inf")
    refused(lambda: index.add(rows[:1], vectors([1e30, 0, 0])), "row 10", "longer than")
    refused(lambda: index.add(rows[:1], np.array([[1e300, 0, 0]])), "row 10", "NaN or Inf")
    refused(lambda: index.replace(np.array([5]), vectors([0, 0, 0])), "row 5", "zero")
    assert index.n_searchable == 2
    assert index.n_rows == 6


def test_vectors_of_another_form_are_refused(index):
    refused(lambda: index.add(np.array([7]), vectors([1, 2])), "(1, 2)", "(n, 3)")
    refused(lambda: index.add(np.array([7]), np.ones(3)), "(3,)", "(n, 3)")
    refused(lambda: index.add(np.array([7, 8]), vectors([1, 2, 3])), "2 rows but 1 vectors")
    refused(lambda: index.add(np.array([7]), np.array([["a", "b", "c"]])), "wanted floats")


def test_rows_that_do_not_fit_are_refused(index):
    one = vectors([1, 2, 3])
    refused(lambda: index.add(np.array([5]), one), "row 5", "already present", "replace")
    refused(lambda: index.add(np.array([-1]), one), "row -1", "negative")
    refused(lambda: index.add(np.array([7, 7]), vectors([1, 2, 3], [1, 2, 3])), "row 7", "more than once")
    refused(lambda: index.add(np.array([1.5]), one), "float64", "integers")
    refused(lambda: index.add(np.array([[1]]), one), "(1, 1)", "(n,)")
    refused(lambda: index.replace(np.array([3]), one), "row 3", "not in the index")
    for change in (index.retire, index.restore, index.vectors):
        refused(lambda change=change: change(np.array([2, 3, 99])), "rows 3, 99", "not in the index")
    index.retire(np.array([5]))
    refused(lambda: index.add(np.array([5]), one), "row 5", "retired", "restore")
    assert index.search(one, 9).rows.tolist() == [[2]]


def test_queries_that_cannot_be_answered_are_refused_by_number(index):
    refused(lambda: index.search(vectors([1, 0, 0], [0, 0, 0]), 1), "query 1", "zero")
    refused(lambda: index.search(vectors([np.nan, 0, 0]), 1), "query 0", "NaN")
    refused(lambda: index.search(np.zeros((7, 3)), 1), "queries 0, 1, 2, 3, 4 and 2 more")
    refused(lambda: index.search(vectors([1, 0]), 1), "(1, 2)", "(n, 3)")


@pytest.mark.parametrize("k", [-1, 1.0, True, None])
def test_k_is_a_whole_number_of_zero_or_more(index, k):
    refused(lambda: index.search(vectors([1, 0, 0]), k), "k is", "0 or more")


def test_allowed_is_a_mask_over_the_rows(index):
    query = vectors([1, 0, 0])
    refused(lambda: index.search(query, 1, np.ones(5, dtype=bool)), "5 rows", "at least 6")
    refused(lambda: index.search(query, 1, np.array([2, 5])), "int64", "booleans")
    assert index.search(query, 2, np.arange(100) == 5).rows.tolist() == [[5]]


def test_what_an_index_is_made_of_is_checked():
    refused(lambda: make_index("exact", 0), "dim is 0")
    refused(lambda: make_index("exact", 3, "dot"), "'dot'", "ip, cosine")


def test_other_number_types_and_read_only_arrays_are_taken(index):
    frozen = np.array([[0, 0, 7]], dtype=np.float16)
    frozen.flags.writeable = False
    index.add([9], frozen)
    assert index.search(frozen, 1).rows.tolist() == [[9]]
    assert index.has(np.array([9, 3, -1, 10**9])).tolist() == [True, False, False, False]
