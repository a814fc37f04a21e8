from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from xmc.artifacts import save_csr
from xmc.encoders.windows import WindowVectors
from xmc.errors import ArtifactError
from xmc.index.base import Shortlist
from xmc.index.exact import ExactIndex
from xmc.index.kinds import make_index
from xmc.memory import IDS, SHARPNESS, DocumentMemory

N_DOCS, N_LABELS, DIM = 12, 5, 6


def some_labels() -> sp.csr_matrix:
    drawn = np.random.default_rng(1).random((N_DOCS, N_LABELS)) < 0.4
    drawn[:, 4] = False
    return sp.csr_matrix(drawn.astype(np.float32))


def memory(windows: WindowVectors | None = None) -> DocumentMemory:
    index = make_index("exact", DIM, "cosine")
    rows = np.arange(N_DOCS - 1)  # the last document has no vector
    index.add(rows, np.random.default_rng(0).standard_normal((len(rows), DIM)).astype(np.float32))
    ids = pa.array([f"d{i}" for i in range(N_DOCS)], pa.large_string())
    return DocumentMemory(index, some_labels(), ids, windows)


QUERIES = np.random.default_rng(2).standard_normal((4, DIM)).astype(np.float32)


def test_sizes_and_frequencies():
    assert len(memory()) == N_DOCS
    assert memory().frequency.tolist() == some_labels().toarray().sum(axis=0).tolist()


def test_votes_equal_a_naive_count():
    known = memory()
    found = known.neighbours(QUERIES, 5)
    wanted = np.zeros((4, N_LABELS))
    for query in range(4):
        for row, score in zip(found.rows[query], found.scores[query], strict=True):
            wanted[query] += max(score, 0) ** SHARPNESS * known.labels[row].toarray().ravel()
        wanted[query] /= (np.maximum(found.scores[query], 0) ** SHARPNESS).sum()
    assert known.votes(found).toarray() == pytest.approx(wanted, abs=1e-6)


def test_documents_that_are_excluded_never_count():
    known = memory()
    among = np.arange(N_DOCS) % 2 == 0
    found = known.neighbours(QUERIES, N_DOCS, among)
    assert found.rows.shape == (4, 6)
    assert (found.rows % 2 == 0).all()
    only_odd = sp.csr_matrix(known.labels.multiply(~among[:, None]))
    assert not DocumentMemory(known.index, only_odd, known.ids).votes(found).toarray().any()
    itself = known.index.vectors(np.array([4]))
    assert known.neighbours(itself, 1).rows.tolist() == [[4]]
    others = known.neighbours(itself, N_DOCS, np.arange(N_DOCS) != 4)
    assert 4 not in others.rows


def test_documents_without_a_vector_are_no_neighbours():
    assert (memory().neighbours(QUERIES, 100).rows < N_DOCS - 1).all()


def test_opposite_documents_do_not_vote_even_though_the_power_is_even():
    found = Shortlist(np.array([[0, 1]]), np.array([[-0.9, 0.5]], np.float32))
    labels = sp.csr_matrix(np.eye(2, dtype=np.float32))
    votes = DocumentMemory(make_index("exact", DIM), labels, pa.array(["a", "b"])).votes(found)
    assert votes.toarray().tolist() == [[0, 1]]


def test_neighbours_that_are_all_opposite_give_no_votes():
    found = Shortlist(np.array([[0, 1]]), np.array([[-0.9, -0.5]], np.float32))
    labels = sp.csr_matrix(np.eye(2, dtype=np.float32))
    votes = DocumentMemory(make_index("exact", DIM), labels, pa.array(["a", "b"])).votes(found)
    assert not votes.toarray().any()


def test_without_neighbours_nobody_votes():
    empty = DocumentMemory(make_index("exact", DIM), some_labels(), memory().ids)
    found = empty.neighbours(QUERIES, 5)
    assert found.rows.shape == (4, 0)
    assert empty.votes(found).shape == (4, N_LABELS)
    assert empty.votes(found).nnz == 0
    assert memory().votes(memory().neighbours(QUERIES, 5, np.zeros(N_DOCS, bool))).nnz == 0


def windows_of(n: int) -> WindowVectors:
    vectors = np.ones((n, 3), np.float32)
    return WindowVectors(vectors, vectors.astype(np.float16), np.arange(n + 1))


@pytest.mark.parametrize("windows", [None, windows_of(N_DOCS)])
def test_saved_and_loaded(tmp_path, windows):
    known = memory(windows)
    known.save(tmp_path / "memory")
    again = DocumentMemory.load(tmp_path / "memory", N_LABELS)
    assert again.ids.to_pylist() == known.ids.to_pylist()
    assert (again.labels != known.labels).nnz == 0
    one, other = known.neighbours(QUERIES, 5), again.neighbours(QUERIES, 5)
    assert (one.rows == other.rows).all()
    assert (one.scores == other.scores).all()
    assert (again.windows is None) == (windows is None)
    if again.windows is not None:
        assert (again.windows.windows == windows.windows).all()


def test_an_empty_memory_is_saved_and_loaded(tmp_path):
    none = sp.csr_matrix((0, N_LABELS), dtype=np.float32)
    DocumentMemory(make_index("exact", DIM), none, pa.array([], pa.large_string())).save(tmp_path / "memory")
    assert len(DocumentMemory.load(tmp_path / "memory", N_LABELS)) == 0


def write_table(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def ids_with(**columns: pa.Array):
    return lambda folder: write_table(folder / IDS, pa.table(columns))


def labels_as(change):
    return lambda folder: save_csr(folder / "labels.npz", change(some_labels()))


NAMES = [f"d{i}" for i in range(N_DOCS)]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (labels_as(lambda m: m[:-1]), "11 documents and 5 labels, wanted 12 and 5"),
        (labels_as(lambda m: m[:, :-1]), "12 documents and 4 labels, wanted 12 and 5"),
        (labels_as(lambda m: m * np.float32(np.nan)), "not ones"),
        (labels_as(lambda m: m * np.float32(2)), "not ones"),
        (labels_as(lambda m: m.astype(bool)), "not ones"),
        (ids_with(id=pa.array(NAMES[:-1], pa.large_string())), "12 documents and 5 labels, wanted 11"),
        (ids_with(id=pa.array([*NAMES[:-1], None], pa.large_string())), "no ids of documents"),
        (ids_with(id=pa.array(range(N_DOCS))), "no ids of documents"),
        (ids_with(name=pa.array(NAMES, pa.large_string())), "no ids of documents"),
        (lambda folder: (folder / IDS).write_bytes(b"ARROW1"), "not readable"),
        (lambda folder: (folder / IDS).write_bytes((folder / IDS).read_bytes()[:-9]), "not readable"),
        (lambda folder: (folder / "windows" / "indptr.npy").unlink(), "missing"),
        (
            lambda folder: memory(windows_of(3)).save(folder / "a") or move(folder / "a", folder),
            "windows of 3",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, damage, message):
    memory(windows_of(N_DOCS)).save(tmp_path / "memory")
    damage(tmp_path / "memory")
    with pytest.raises(ArtifactError, match=message) as error:
        DocumentMemory.load(tmp_path / "memory", N_LABELS)
    assert "\n" not in str(error.value)


def move(source: Path, folder: Path) -> None:
    for name in ("vectors.npy", "windows.npy", "indptr.npy"):
        (source / "windows" / name).replace(folder / "windows" / name)


def test_ids_whose_bytes_point_nowhere_are_refused(tmp_path):
    memory().save(tmp_path / "memory")
    path = tmp_path / "memory" / IDS
    offsets = np.cumsum([0, *map(len, NAMES)]).astype("<i8").tobytes()
    raw = path.read_bytes()
    assert offsets in raw
    path.write_bytes(raw.replace(offsets, np.full(N_DOCS + 1, 2**40, "<i8").tobytes()))
    with pytest.raises(ArtifactError, match="not readable"):
        DocumentMemory.load(tmp_path / "memory", N_LABELS)


def more(n: int) -> tuple[list[str], sp.csr_matrix, np.ndarray, WindowVectors]:
    """Documents of which the first has no vector."""
    vectors = np.random.default_rng(5).standard_normal((n, DIM)).astype(np.float32)
    vectors[0] = 0
    return [f"n{i}" for i in range(n)], some_labels()[:n], vectors, windows_of(n)


def test_documents_are_found_by_id():
    assert memory().rows(["d3", "zz", "d0"]).tolist() == [3, -1, 0]
    assert memory().rows([]).tolist() == []


def test_more_documents_stand_behind_the_others():
    known = memory(windows_of(N_DOCS))
    both = known.extended(*more(3))
    assert both.ids.to_pylist() == [*known.ids.to_pylist(), "n0", "n1", "n2"]
    assert both.index.has(np.arange(N_DOCS - 1, N_DOCS + 3)).tolist() == [False, False, True, True]
    assert (both.labels[N_DOCS:] != some_labels()[:3]).nnz == 0
    assert len(both.windows) == N_DOCS + 3
    assert len(known) == N_DOCS
    assert known.index.n_searchable == N_DOCS - 1


def test_what_is_left_of_more_documents_are_those_that_were_there():
    known = memory(windows_of(N_DOCS))
    left = known.extended(*more(3)).take(np.arange(N_DOCS))
    one, other = known.neighbours(QUERIES, 5), left.neighbours(QUERIES, 5)
    assert np.array_equal(one.rows, other.rows)
    assert np.array_equal(one.scores, other.scores)
    assert len(left.windows) == N_DOCS


def test_an_empty_memory_learns(tmp_path):
    both = DocumentMemory.empty(DIM, N_LABELS, 3).extended(*more(3))
    assert both.neighbours(QUERIES, 5).rows.shape == (4, 2)
    assert len(both.windows) == 3
    assert DocumentMemory.empty(DIM, N_LABELS).extended(*more(3)).windows is None
    assert both.widened(9).labels.shape == (3, 9)
    assert both.widened(N_LABELS) is both


def test_what_did_not_change_is_not_saved_again(tmp_path):
    memory(windows_of(N_DOCS)).save(tmp_path / "old")
    old = DocumentMemory.load(tmp_path / "old", N_LABELS)
    assert old.widened(9).save(tmp_path / "wide", old) == ["index", "documents.arrow", "windows"]
    assert sorted(p.name for p in (tmp_path / "wide").iterdir()) == ["labels.npz"]
    assert old.extended(*more(3)).save(tmp_path / "more", old) == ["index/vectors.npy"]
    assert old.take(np.arange(4)).save(tmp_path / "less", old) == []


def many(n: int, dim: int = 48) -> DocumentMemory:
    """A memory of ``n`` documents in groups, each its own row, made as a model's is."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((40, dim))
    vectors = (centres[rng.integers(40, size=n)] + 0.4 * rng.standard_normal((n, dim))).astype(np.float32)
    index = ExactIndex(dim, "cosine")
    index.add(np.arange(n), vectors)
    labels = sp.csr_matrix(np.eye(n, N_LABELS, dtype=np.float32))
    return DocumentMemory.over(index, labels, pa.array([f"d{i}" for i in range(n)], pa.large_string()), None)


def test_many_documents_are_sought_in_fewer_coordinates_and_scored_in_all(monkeypatch, tmp_path):
    exact = many(1500)
    assert exact.index.built_as == "exact"
    monkeypatch.setattr("xmc.memory.MANY", 1000)
    monkeypatch.setattr("xmc.index.principal.DIMS", 16)
    known = many(1500)
    assert known.index.built_as == "pca"
    queries = exact.index.vectors(np.arange(0, 1500, 10)) + np.float32(0.01)
    wanted, found = exact.neighbours(queries, 20), known.neighbours(queries, 20)
    hits = [np.isin(a, b).mean() for a, b in zip(wanted.rows, found.rows, strict=True)]
    assert 0.9 <= np.mean(hits) <= 1
    scores = dict(zip(wanted.rows[0].tolist(), wanted.scores[0].tolist(), strict=True))
    assert all(
        scores.get(row, score) == score for row, score in zip(found.rows[0], found.scores[0], strict=True)
    )
    known.save(tmp_path / "m")
    again = DocumentMemory.load(tmp_path / "m", N_LABELS)
    assert again.index.built_as == "pca"
    assert again.neighbours(queries, 20).rows.tolist() == found.rows.tolist()


def test_documents_come_to_and_go_from_a_large_memory(monkeypatch):
    monkeypatch.setattr("xmc.memory.MANY", 1000)
    monkeypatch.setattr("xmc.index.principal.DIMS", 16)
    known = many(1200)
    vector = -known.index.vectors(np.array([3]))
    more = known.extended(["new"], sp.csr_matrix((1, N_LABELS), dtype=np.float32), vector, None)
    assert more.neighbours(vector, 1).rows.tolist() == [[1200]]
    left = more.take(np.setdiff1d(np.arange(1201), [3]))
    assert left.index.built_as == "pca"
    assert left.neighbours(vector, 1).rows.tolist() == [[1199]]
    assert left.neighbours(-vector, 1).scores[0, 0] < 0.999


def test_where_few_coordinates_find_too_little_search_stays_exact(monkeypatch):
    monkeypatch.setattr("xmc.memory.MANY", 1000)
    monkeypatch.setattr("xmc.index.principal.DIMS", 1)
    monkeypatch.setattr("xmc.index.principal.FETCHES", (2,))
    assert many(1200).index.built_as == "exact"
