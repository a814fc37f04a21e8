"""Every kind of label index keeps the same contract, and exact search keeps it to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.index import brute_force
from xmc.index.fitting import ANN_KINDS, points_needed
from xmc.index.kinds import load_index, make_index

DIM = 8


def drawn(n, seed=0, dim=DIM):
    """Vectors that share some coordinates, so that some scores tie exactly."""
    rng = np.random.default_rng(seed)
    return np.round(rng.standard_normal((n, dim)), 1).astype(np.float32) + np.float32(0.05)


@pytest.fixture(scope="module", params=brute_force.ALL_KINDS)
def built(request):
    """An index with its main structure, and its vectors by row; not to be changed."""
    return build(request.param)


def build(kind, metric="cosine"):
    n = max(500, points_needed(kind) + 10) if kind in ANN_KINDS else 500
    rows = np.random.default_rng(1).permutation(3 * n)[:n]
    vectors = drawn(n)
    index = make_index(kind, DIM, metric, recall=0.9, strict=True)
    index.add(rows, vectors)
    index.compact()
    return index, dict(zip(rows.tolist(), vectors, strict=True))


def exact_rows(vectors, queries, k):
    return [brute_force.best(vectors, query, k)[0] for query in queries]


def test_it_is_built_as_asked(built):
    index, vectors = built
    assert index.built_as == ("exact" if index.kind == "auto" else index.kind)
    assert index.notice == ""
    assert index.n_searchable == len(vectors)
    assert index.n_rows == max(vectors) + 1


@pytest.mark.parametrize("k", [1, 10, 64])
def test_shortlists_are_ordered_without_repeats_and_scored_by_the_kernel(built, k):
    index, vectors = built
    queries = drawn(40, seed=2)
    found = index.search(queries, k)
    assert found.rows.dtype == np.int64
    assert found.scores.dtype == np.float32
    assert found.rows.shape == found.scores.shape == (40, k)
    for query, rows, scores in zip(queries, found.rows, found.scores, strict=True):
        listed = {row: vectors[row] for row in rows.tolist()}
        assert len(listed) == k
        assert brute_force.best(listed, query, k) == (rows.tolist(), scores.tolist())


def test_recall_reaches_what_was_asked_for(built):
    index, vectors = built
    queries = drawn(40, seed=2)
    found = index.search(queries, 10).rows
    wanted = exact_rows(vectors, queries, 10)
    overlap = [len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), wanted, strict=True)]
    assert np.mean(overlap) >= (1.0 if index.built_as == "exact" else 0.8)


def test_answers_do_not_depend_on_the_batch(built):
    index, _ = built
    queries = drawn(70, seed=3)
    whole = index.search(queries, 12)
    for size in (1, 7, 33):
        parts = [index.search(queries[start : start + size], 12) for start in range(0, 70, size)]
        assert np.array_equal(np.concatenate([part.rows for part in parts]), whole.rows)
        assert np.array_equal(np.concatenate([part.scores for part in parts]), whole.scores)


def test_only_allowed_rows_are_returned(built):
    index, vectors = built
    queries = drawn(20, seed=4)
    for every in (2, 3, 50):
        allowed = np.arange(index.n_rows + 5) % every == 0
        found = index.search(queries, 9, allowed)
        n_allowed = sum(row % every == 0 for row in vectors)
        assert found.rows.shape == (20, min(9, n_allowed))
        assert allowed[found.rows].all()
    assert index.search(queries, 9, np.zeros(index.n_rows, dtype=bool)).rows.shape == (20, 0)


def test_few_allowed_rows_are_found_exactly(built):
    index, vectors = built
    queries = drawn(20, seed=4)
    allowed = np.arange(index.n_rows) % 50 == 0
    listed = {row: vector for row, vector in vectors.items() if row % 50 == 0}
    assert index.search(queries, 9, allowed).rows.tolist() == exact_rows(listed, queries, 9)


def test_more_results_than_rows_gives_every_row_once(built):
    index, vectors = built
    found = index.search(drawn(2, seed=5), len(vectors) + 10).rows
    assert found.shape == (2, len(vectors))
    assert all(sorted(rows) == sorted(vectors) for rows in found.tolist())


def test_no_results_or_no_queries_give_empty_shortlists(built):
    index, _ = built
    assert index.search(drawn(3), 0).rows.shape == (3, 0)
    assert index.search(np.zeros((0, DIM), np.float32), 5).rows.shape == (0, 5)


@pytest.mark.parametrize("kind", brute_force.ALL_KINDS)
def test_changes_count_at_once_and_after_compaction(kind):
    index, vectors = build(kind)
    retired, replaced = sorted(vectors)[:3], sorted(vectors)[3:6]
    query = drawn(1, seed=6)
    new_row = index.n_rows + 3
    index.retire(np.array(retired))
    index.replace(np.array(replaced), np.repeat(query, 3, axis=0))
    index.add(np.array([new_row]), query)
    for _ in range(2):
        found = index.search(query, 50).rows[0].tolist()
        assert found[:4] == [*replaced, new_row]
        assert not set(found) & set(retired)
        assert index.n_searchable == len(vectors) - 2
        index.compact()
    index.restore(np.array(retired))
    back = np.stack([vectors[row] for row in retired])
    assert [row in found for row, found in zip(retired, index.search(back, 9).rows, strict=True)] == [
        True
    ] * 3
    assert np.array_equal(index.vectors(np.array(retired)), brute_force.unit(back))


@pytest.mark.parametrize("kind", brute_force.ALL_KINDS)
def test_a_saved_index_answers_as_before(kind, tmp_path):
    index, vectors = build(kind, metric="ip")
    some = sorted(vectors)
    index.retire(np.array(some[:2]))
    index.replace(np.array(some[1:3]), drawn(2, seed=7))
    index.add(np.array([index.n_rows]), drawn(1, seed=8))
    index.save(tmp_path)
    loaded = load_index(tmp_path, n_rows=index.n_rows)
    queries = drawn(30, seed=9)
    for one, other in ((index, loaded), (loaded, index)):
        assert np.array_equal(one.search(queries, 20).rows, other.search(queries, 20).rows)
        one.restore(np.array(some[:2]))
        other.restore(np.array(some[:2]))
    assert (loaded.kind, loaded.metric, loaded.built_as) == (index.kind, "ip", index.built_as)
    assert loaded.n_searchable == index.n_searchable
    loaded.compact()
    assert loaded.search(queries, 3).rows.shape == (30, 3)


@pytest.mark.parametrize("kind", brute_force.ALL_KINDS)
def test_an_empty_index_answers_with_empty_shortlists(kind, tmp_path):
    index = make_index(kind, DIM)
    assert index.search(drawn(3), 5).rows.shape == (3, 0)
    index.compact()
    index.save(tmp_path)
    assert load_index(tmp_path).search(drawn(3), 5).rows.shape == (3, 0)


@pytest.mark.parametrize("kind", brute_force.ALL_KINDS)
def test_a_removed_row_is_gone_and_can_be_added_again(kind, tmp_path):
    index, vectors = build(kind)
    gone = sorted(vectors)[:3]
    before = np.stack([vectors[row] for row in gone])
    index.remove(np.array(gone))
    for name in ("held", "saved", "compacted"):
        assert not index.has(np.array(gone)).any()
        assert not set(index.search(before, 20).rows.ravel().tolist()) & set(gone)
        assert index.n_searchable == len(vectors) - 3
        if name == "held":
            index.save(tmp_path)
            index = load_index(tmp_path)
        elif name == "saved":
            index.compact()
    index.add(np.array(gone), before)
    assert index.search(before, 1).scores.min() > 0.999


@pytest.mark.parametrize("kind", brute_force.ALL_KINDS)
def test_a_copy_is_independent(kind):
    index, vectors = build(kind)
    queries, some = drawn(20, seed=6), np.array(sorted(vectors)[:40])
    before = index.search(queries, 9)
    other = index.copy()
    other.replace(some[:10], drawn(10, seed=7))
    other.retire(some[10:20])
    other.remove(some[20:30])
    other.add(np.array([index.n_rows + 1]), drawn(1, seed=8))
    again = index.search(queries, 9)
    assert np.array_equal(again.rows, before.rows)
    assert np.array_equal(again.scores, before.scores)
    assert other.n_searchable == index.n_searchable - 19


@pytest.mark.parametrize("kind", brute_force.ALL_KINDS)
def test_renumbered_rows_have_the_same_vectors_and_no_others(kind):
    index, vectors = build(kind)
    some = np.array(sorted(vectors)[:50])[::-1]
    index.retire(some[2:3])
    wanted = np.append(some, index.n_rows + 7)  # the last one has none
    other = index.renumbered(wanted)
    assert other.has(np.arange(len(wanted))).tolist() == [True] * 50 + [False]
    assert np.array_equal(other.vectors(np.arange(50)), index.vectors(some))
    assert other.n_searchable == 49
    found = other.search(drawn(5, seed=6), 100).rows
    assert found.shape == (5, 49)
    assert 2 not in found


@pytest.mark.parametrize("kind", brute_force.ALL_KINDS)
def test_saved_without_what_is_as_it_was_loaded(kind, tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    index, vectors = build(kind)
    assert index.as_loaded == frozenset()
    index.save(tmp_path / "first")
    loaded = load_index(tmp_path / "first")
    same = loaded.as_loaded
    assert "vectors.npy" in same
    loaded.replace(np.array(sorted(vectors)[:2]), drawn(2, seed=7))
    loaded.add(np.array([index.n_rows]), drawn(1, seed=8))
    loaded.save(tmp_path / "second", without=same)
    for name in same:
        assert not (tmp_path / "second" / name).exists()
        (tmp_path / "second" / name).hardlink_to(tmp_path / "first" / name)
    again, queries = load_index(tmp_path / "second"), drawn(30, seed=9)
    assert np.array_equal(again.search(queries, 9).rows, loaded.search(queries, 9).rows)
    loaded.compact()
    assert loaded.as_loaded == frozenset()


def test_nothing_is_found_once_all_was_removed(tmp_path):
    index = make_index("exact", DIM)
    index.add(np.array([0, 4]), drawn(2))
    index.remove(np.array([0, 4]))
    index.save(tmp_path)
    for each in (index, load_index(tmp_path)):
        assert each.search(drawn(3), 5, np.ones(5, bool)).rows.shape == (3, 0)


# What follows holds to the bit for exact search, under every order of changes.

components = st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0])
vector = st.lists(components, min_size=3, max_size=3).filter(any)
step = st.tuples(
    st.sampled_from(["add", "replace", "retire", "restore", "remove", "compact"]), st.integers(0, 9), vector
)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(step, max_size=25),
    queries=st.lists(vector, min_size=1, max_size=4),
    k=st.integers(0, 12),
    metric=st.sampled_from(["ip", "cosine"]),
    allowed=st.none() | st.lists(st.booleans(), min_size=10, max_size=10),
)
@pytest.mark.parametrize("kind", ["exact", "hnsw"])
def test_any_changes_give_what_brute_force_gives(kind, steps, queries, k, metric, allowed):
    """A graph over ten rows finds them all; ties and masks are as for exact search."""
    index = make_index(kind, 3, metric)
    vectors, retired = {}, set()
    for name, row, values in steps:
        at, new = np.array([row]), np.array([values], dtype=np.float32)
        if name == "compact":
            index.compact()
        elif name == "add" and row not in vectors:
            index.add(at, new)
            vectors[row] = new[0]
        elif row in vectors and name == "replace":
            index.replace(at, new)
            vectors[row] = new[0]
        elif row in vectors and name == "remove":
            index.remove(at)
            del vectors[row]
            retired.discard(row)
        elif row in vectors and name in ("retire", "restore"):
            getattr(index, name)(at)
            (retired.add if name == "retire" else retired.discard)(row)
    mask = None if allowed is None else np.array(allowed)
    live = {r: v for r, v in vectors.items() if r not in retired and (mask is None or mask[r])}
    found = index.search(np.array(queries, dtype=np.float32), k, mask)
    for i, query in enumerate(queries):
        rows, scores = brute_force.best(live, np.array(query), k, metric)
        assert found.rows[i].tolist() == rows
        assert found.scores[i].tolist() == scores


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 900),
    n_distinct=st.integers(1, 30),
    k=st.integers(1, 40),
    n_queries=st.integers(1, 40),
    seed=st.integers(0, 2**16),
)
def test_ties_are_in_row_order(n, n_distinct, k, n_queries, seed):
    """Hundreds of identical rows and a cut among them."""
    rng = np.random.default_rng(seed)
    vectors = drawn(n_distinct, seed)[rng.integers(n_distinct, size=n)]
    rows = rng.permutation(2 * n)[:n]
    index = make_index("exact", DIM, "ip")
    index.add(rows, vectors)
    queries = drawn(n_queries, seed + 1)
    found = index.search(queries, k)
    by_row = dict(zip(rows.tolist(), vectors, strict=True))
    for i in range(0, n_queries, 7):
        wanted = brute_force.best(by_row, queries[i], k, "ip")
        assert (found.rows[i].tolist(), found.scores[i].tolist()) == wanted
