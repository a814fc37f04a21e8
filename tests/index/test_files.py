"""A saved index is refused when a file is damaged or does not fit the others."""

from __future__ import annotations

import json

import numpy as np
import pytest

from xmc.errors import ArtifactError
from xmc.index.kinds import load_index, make_index


@pytest.fixture
def saved(tmp_path):
    index = make_index("exact", 4)
    index.add(np.array([0, 3, 7]), np.eye(4, dtype=np.float32)[:3])
    index.compact()
    index.retire(np.array([3]))
    index.add(np.array([9]), np.eye(4, dtype=np.float32)[3:])
    index.save(tmp_path)
    return tmp_path


def rewrite(name, change):
    def damage(directory):
        array = np.load(directory / name)
        np.save(directory / name, change(array))

    return damage


def describe(**fields):
    def damage(directory):
        path = directory / "index.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return damage


def cut(name):
    def damage(directory):
        path = directory / name
        path.write_bytes(path.read_bytes()[:-10])

    return damage


DAMAGES = {
    "vectors of another length": (rewrite("vectors.npy", lambda a: a[:, :2].copy()), "vectors.npy", "(n, 4)"),
    "vectors of another type": (rewrite("vectors.npy", lambda a: a.astype("f8")), "vectors.npy", "float32"),
    "vectors in Fortran order": (rewrite("vectors.npy", np.asfortranarray), "vectors.npy", "C order"),
    "tail missing": (lambda d: (d / "tail.npy").unlink(), "tail.npy", "missing"),
    "a row too few": (rewrite("rows.npy", lambda a: a[:-1]), "rows.npy", "(4)"),
    "a row twice": (rewrite("rows.npy", lambda a: a * 0), "rows.npy", "twice"),
    "a row below -1": (rewrite("rows.npy", lambda a: -a - 2), "rows.npy", "row -2"),
    "a row beyond the labels": (rewrite("rows.npy", lambda a: a + 5), "rows.npy", "outside the 10 labels"),
    "a retired row without vector": (rewrite("retired.npy", lambda a: a + 1), "retired.npy", "row 4"),
    "retired rows as floats": (rewrite("retired.npy", lambda a: a + 0.5), "retired.npy", "float64"),
    "vectors cut off": (cut("vectors.npy"), "vectors.npy", "declares"),
    "description cut off": (cut("index.json"), "index.json", "JSON"),
    "description not an object": (lambda d: (d / "index.json").write_text("[]"), "index.json", "object"),
    "dim as text": (describe(dim="4"), "index.json", "dim"),
    "dim zero": (describe(dim=0), "index.json", "dim 0"),
    "unknown metric": (describe(metric="l2"), "index.json", "'l2'"),
    "unknown kind": (describe(kind="exacct"), "index.json", "did you mean exact?"),
    "kind of other files": (describe(kind="hnsw"), "index.json", "FAISS"),
}


@pytest.mark.parametrize(("damage", "name", "reason"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_refused_with_the_file_named(saved, damage, name, reason):
    damage(saved)
    with pytest.raises(ArtifactError) as caught:
        load_index(saved, n_rows=10)
    assert name in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_vectors_are_mapped_and_never_written(saved):
    before = (saved / "vectors.npy").read_bytes()
    index = load_index(saved, n_rows=10)
    index.replace(np.array([0, 9]), np.ones((2, 4), dtype=np.float32))
    index.restore(np.array([3]))
    assert index.search(np.ones((1, 4)), 4).rows.tolist() == [[0, 9, 3, 7]]
    assert (saved / "vectors.npy").read_bytes() == before
    assert load_index(saved).search(np.eye(4)[:1], 1).rows.tolist() == [[0]]


def test_equal_indexes_give_equal_files(saved, tmp_path_factory):
    again = tmp_path_factory.mktemp("again")
    load_index(saved).save(again)
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == {
        p.name: p.read_bytes() for p in again.iterdir()
    }
