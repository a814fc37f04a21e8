"""``index.kind=auto`` chooses by number, use, memory and measured recall, and says why."""

from __future__ import annotations

import json

import numpy as np
import pytest

from xmc.errors import ArtifactError, InputError
from xmc.index import auto, structures
from xmc.index.kinds import load_index, make_index

N, DIM = 12_000, 16


def clustered(n, seed):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((60, DIM))
    return (centres[rng.integers(60, size=n)] + 0.5 * rng.standard_normal((n, DIM))).astype(np.float32)


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    """So that a small index counts as a large one."""
    monkeypatch.setattr(auto, "FEW_NUMBERS", 1000)


def built(n=N, **wishes):
    index = make_index("auto", DIM, **wishes)
    index.add(np.arange(n), clustered(n, 0))
    index.compact(clustered(300, 1))
    return index


def recall(index, n=N):
    exact = make_index("exact", DIM)
    exact.add(np.arange(n), clustered(n, 0))
    queries = clustered(200, 2)
    wanted = exact.search(queries, 100).scores[:, -1:]
    return np.mean(index.search(queries, 100).scores >= wanted)


def test_few_labels_are_searched_exactly(monkeypatch):
    monkeypatch.setattr(auto, "FEW_NUMBERS", N * DIM)
    index = built(use="single")
    assert (index.built_as, index.notice) == ("exact", "")
    assert index.choice == "exact search, for 12,000 labels are few enough to read them all"


def test_batches_are_searched_exactly_while_the_vectors_fit():
    index = built(memory=10**7)
    assert index.built_as == "exact"
    assert "768.0 kB of vectors fit index.memory (10.0 MB)" in index.choice


def test_batches_get_smaller_vectors_where_memory_is_short():
    index = built(memory=500_000)
    assert index.built_as == "ivf_sq8"
    assert index.choice.startswith("ivf_sq8, recall 0.99")
    assert recall(index) >= 0.98


def test_single_queries_get_the_first_kind_that_is_faster_and_reaches_the_recall(monkeypatch, tmp_path):
    seconds = iter([9.0, 10.0, 2.0])  # exact search, a graph that is slower, lists that are faster
    monkeypatch.setattr(auto.AutoIndex, "_seconds", lambda self, queries: next(seconds))
    index = built(use="single")
    assert index.built_as == "ivf_sq8"
    assert index.reached >= 0.99
    assert "2000.0 ms a query, exact search 9000.0 ms" in index.choice
    assert "hnsw takes 10000.0 ms a query, exact search 9000.0" in index.choice
    assert recall(index) >= 0.98
    index.save(tmp_path)
    loaded = load_index(tmp_path)
    assert (loaded.kind, loaded.built_as, loaded.use) == ("auto", "ivf_sq8", "single")
    assert np.array_equal(loaded.search(clustered(5, 3), 9).rows, index.search(clustered(5, 3), 9).rows)


def test_a_recall_that_no_kind_reaches_leaves_exact_search(monkeypatch):
    monkeypatch.setattr(auto.AutoIndex, "_build", lambda self, name, queries: f"{name} reaches 0.5 at most")
    index = built(use="single", memory=600_000)
    assert index.built_as == "exact"
    assert "ivf_pq reaches 0.5 at most" in index.choice
    assert index.notice.startswith("index.memory: exact search reads 768.0 kB of vectors, more than 600.0 kB")
    assert recall(index) == 1


def test_no_structure_is_built_that_does_not_fit_the_memory():
    index = built(use="single", memory=100)
    assert index.built_as == "exact"
    assert "hnsw needs" in index.choice
    assert index.notice


def test_too_few_points_for_lists_get_the_next_kind_without_a_word_from_faiss(capfd):
    index = built(n=200, use="batch", memory=100)
    assert index.built_as == "exact"
    assert index.choice == "exact search; ivf_sq8 needs 312 vectors; ivf_pq needs 9,984 vectors"
    assert index.notice
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("kind", ["hnsw", "ivf_flat", "ivf_sq8", "ivf_pq"])
def test_the_estimated_memory_is_that_of_the_file(kind, tmp_path):
    index = make_index(kind, DIM, recall=0.5)
    index.add(np.arange(N), clustered(N, 0))
    index.compact()
    index.save(tmp_path)
    size = (tmp_path / "index.faiss").stat().st_size
    assert structures.resident_bytes(kind, N, DIM) == pytest.approx(size, rel=0.2)


@pytest.mark.parametrize("wishes", [{"use": "both"}, {"memory": -1}, {"recall": 0}])
def test_what_cannot_be_wished_for_is_refused(wishes):
    with pytest.raises(InputError):
        make_index("auto", DIM, **wishes)


@pytest.mark.parametrize("field", [{"use": "both"}, {"memory": -1}, {"memory": None}, {"recall": 2.0}])
def test_a_damaged_description_is_refused(tmp_path, field):
    make_index("auto", DIM).save(tmp_path)
    path = tmp_path / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | field))
    with pytest.raises(ArtifactError, match="rebuild the index"):
        load_index(tmp_path)
