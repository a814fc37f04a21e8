"""Search over parts finds to the bit what the index itself finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from xmc.index.base import IndexInputError
from xmc.index.kinds import make_index
from xmc.index.sharded import ShardedSearch

N, DIM = 700, 12


def drawn(n, seed=0):
    """Rounded, so that scores tie; every third vector is one of ten."""
    rng = np.random.default_rng(seed)
    vectors = np.round(rng.standard_normal((n, DIM)), 1).astype(np.float32) + np.float32(0.05)
    vectors[::3] = vectors[np.arange(0, n, 3) % 10]
    return vectors


@pytest.fixture(scope="module", params=["ip", "cosine"])
def index(request):
    """Rows in no order with gaps, some retired, some replaced, some in the tail, some taken out."""
    rows = np.random.default_rng(1).permutation(3 * N)[:N]
    index = make_index("exact", DIM, request.param)
    index.add(rows[:600], drawn(600))
    index.compact()
    index.add(rows[600:], drawn(N - 600, 2))
    index.replace(rows[50:90], drawn(40, 3))
    index.retire(rows[100:150])
    index.remove(rows[200:210])
    return index


def assert_same(found, wanted):
    assert np.array_equal(found.rows, wanted.rows)
    assert np.array_equal(found.scores, wanted.scores)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7])
@pytest.mark.parametrize("k", [0, 1, 64, 640, 1000])
@pytest.mark.parametrize("n_queries", [1, 50])
def test_parts_find_what_the_whole_finds(index, n_parts, k, n_queries):
    sharded, queries = ShardedSearch(index, ["cpu"] * n_parts), drawn(n_queries, 4)
    assert_same(sharded.search(queries, k), index.search(queries, k))
    allowed = np.arange(index.n_rows) % 5 == 0
    assert_same(sharded.search(queries, k, allowed), index.search(queries, k, allowed))


def test_more_parts_than_labels_and_none():
    index = make_index("exact", DIM)
    assert ShardedSearch(index, ["cpu"] * 3).search(drawn(2), 5).rows.shape == (2, 0)
    index.add(np.array([4, 2]), drawn(2))
    assert_same(ShardedSearch(index, ["cpu"] * 3).search(drawn(2), 5), index.search(drawn(2), 5))


def test_faulty_questions_are_refused_as_by_an_index(index):
    sharded = ShardedSearch(index, ["cpu", "cpu"])
    with pytest.raises(IndexInputError, match="query 1: zero"):
        sharded.search(np.stack([np.ones(DIM), np.zeros(DIM)]), 3)
    with pytest.raises(IndexInputError, match="k is -1"):
        sharded.search(drawn(1), -1)
    with pytest.raises(IndexInputError, match="no devices"):
        ShardedSearch(index, [])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_parts_on_gpus_find_what_the_cpu_finds(index):
    devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())] * 2
    assert_same(ShardedSearch(index, devices).search(drawn(300, 4), 64), index.search(drawn(300, 4), 64))
