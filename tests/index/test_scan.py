"""Exact search gives the same bits whatever the blocks, the coarse type and the threads are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.index import brute_force
from xmc.index import scan
from xmc.index.kinds import make_index

N, DIM = 3000, 24


@pytest.fixture(scope="module")
def index():
    """Clusters, so that scores lie close, with 500 identical rows and a part that came later."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((N, DIM)).astype(np.float32) * 0.02 + rng.standard_normal(DIM).astype(
        np.float32
    )
    rows[100:600] = rows[100]
    index = make_index("exact", DIM)
    index.add(np.arange(0, N, 2), rows[::2])
    index.compact()
    index.add(np.arange(1, N, 2), rows[1::2])
    return index


@pytest.fixture(scope="module")
def queries(index):
    """The first three are the direction of the 500 identical rows."""
    near = index.vectors(np.array([100, 100, 100, 7, 8]))
    rng = np.random.default_rng(1)
    return np.concatenate((near, rng.standard_normal((45, DIM)).astype(np.float32)))


@pytest.fixture(scope="module")
def answer(index, queries):
    return index.search(queries, 30)


def assert_same(found, wanted):
    assert np.array_equal(found.rows, wanted.rows)
    assert np.array_equal(found.scores, wanted.scores)


def test_it_is_the_brute_force_answer(index, queries, answer):
    stored = dict(enumerate(index.vectors(np.arange(N))))
    assert answer.rows[0].tolist() == list(range(100, 130))
    for i in range(0, 50, 7):
        query = brute_force.unit(queries[i : i + 1])[0]
        assert answer.rows[i].tolist() == brute_force.best(stored, query, 30, "ip")[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("block", [64, 5000, 2**25])
def test_blocks_and_coarse_type_do_not_matter(index, queries, answer, monkeypatch, dtype, block):
    monkeypatch.setattr(scan, "CPU_SCORES", block)
    monkeypatch.setattr(scan, "DENSE_SCORES", block)
    monkeypatch.setattr(scan, "coarse_dtype", lambda device: dtype)
    use_levels_at_once(monkeypatch)
    assert_same(index.search(queries, 30), answer)


def use_levels_at_once(monkeypatch):
    for name in ("MIN_QUERIES_LEVELS", "QUERIES_PAY_LEVELS", "MIN_VECTORS_LEVELS"):
        monkeypatch.setattr(scan, name, 0)


@pytest.mark.parametrize("retired", [0, 5, 3900])
def test_levels_are_made_when_they_pay_and_change_nothing(monkeypatch, retired):
    """Spread vectors, of which few stand near each query: the coarse pass settles most queries itself."""
    rng = np.random.default_rng(5)
    rows, queries = (rng.standard_normal((n, 64)).astype(np.float32) for n in (8000, 300))
    monkeypatch.setattr(scan, "MIN_VECTORS_LEVELS", 5000)
    monkeypatch.setattr(scan, "coarse_dtype", lambda device: torch.int8)
    index = make_index("exact", 64)
    index.add(np.arange(7000), rows[:7000])
    index.compact()
    index.add(np.arange(7000, 8000), rows[7000:])
    index.retire(np.arange(0, 2 * retired, 2))
    first = index.search(queries, 20)
    assert not index._store.main.has_levels
    assert_same(index.search(queries, 20), first)
    assert index._store.main.has_levels
    assert_same(index.search(queries[::-1], 20), type(first)(first.rows[::-1], first.scores[::-1]))


def test_threads_do_not_matter(index, queries, answer):
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            assert_same(index.search(queries, 30), answer)
    finally:
        torch.set_num_threads(before)


def test_a_mask_gives_the_same_as_an_index_of_the_allowed(index, queries):
    for every in (2, 3, 40):
        allowed = np.arange(N) % every == 0
        rows = np.flatnonzero(allowed)
        small = make_index("exact", DIM, "ip")
        small.add(rows, index.vectors(rows))
        unit = brute_force.unit(queries)
        assert_same(index.search(queries, 30, allowed), small.search(unit, 30))


def test_far_more_results_than_a_block_holds(index, queries, monkeypatch):
    monkeypatch.setattr(scan, "CPU_SCORES", 2**14)
    found = index.search(queries[:20], N)
    assert (np.sort(found.rows, axis=1) == np.arange(N)).all()
    assert (np.diff(found.scores, axis=1) <= 0).all()


@pytest.mark.parametrize("best_in_tail", [False, True])
def test_segments_smaller_than_the_shortlist_are_merged_in_order(best_in_tail):
    """Main and tail together hold fewer rows than are wanted: nothing is cut, and all is sorted."""
    rows = np.array([[2.0, 2.0, 2.0], [2.0, 2.0, 1.0]])
    index = make_index("exact", 3)
    index.add(np.array([0]), rows[:1])
    index.compact()
    index.add(np.array([1]), rows[1:])
    query, wanted = (rows[1:], [[1, 0]]) if best_in_tail else (rows[:1], [[0, 1]])
    assert index.search(query, 2).rows.tolist() == wanted
    assert index.search(query, 5).rows.tolist() == wanted
