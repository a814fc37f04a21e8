"""An exact index written block by block answers as one that was filled."""

from __future__ import annotations

import numpy as np
import pytest

from xmc.errors import XmcError
from xmc.index.exact import ExactIndex
from xmc.index.kinds import load_index, make_index, save_index

DIM = 12


@pytest.fixture
def vectors():
    return np.random.default_rng(3).normal(size=(50, DIM)).astype(np.float32)


def blocks(rows, vectors, size=7):
    return ((rows[i : i + size], vectors[rows[i : i + size]]) for i in range(0, len(rows), size))


@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_written_answers_as_added(tmp_path, vectors, metric):
    rows = np.delete(np.arange(50), [0, 17, 49])
    written = ExactIndex.written(tmp_path / "v.npy", DIM, metric, blocks(rows, vectors))
    added = make_index("exact", DIM, metric)
    added.add(rows, vectors[rows])
    found, wanted = (index.search(vectors[:9], 20) for index in (written, added))
    assert np.array_equal(found.rows, wanted.rows)
    assert np.array_equal(found.scores, wanted.scores)
    assert np.array_equal(written.has(np.arange(50)), added.has(np.arange(50)))


def test_written_can_be_changed_and_saved(tmp_path, vectors):
    index = ExactIndex.written(tmp_path / "v.npy", DIM, "ip", blocks(np.arange(40), vectors))
    index.add(np.arange(40, 50), vectors[40:])
    index.replace(np.array([3]), vectors[[4]])
    index.retire(np.array([7]))
    save_index(index, tmp_path / "saved")
    again = load_index(tmp_path / "saved", 50)
    found, wanted = (i.search(vectors[:9], 49) for i in (again, index))
    assert np.array_equal(found.rows, wanted.rows)
    assert 7 not in found.rows
    assert np.array_equal(again.vectors(np.array([3])), vectors[[4]])


def test_a_file_written_anew_leaves_what_was_mapped_from_it(tmp_path, vectors):
    first = ExactIndex.written(tmp_path / "v.npy", DIM, "ip", blocks(np.arange(50), vectors))
    ExactIndex.written(tmp_path / "v.npy", DIM, "ip", blocks(np.arange(2), -vectors))
    assert np.array_equal(first.vectors(np.arange(50)), vectors)


def test_written_of_nothing_finds_nothing(tmp_path, vectors):
    index = ExactIndex.written(tmp_path / "v.npy", DIM, "cosine", iter(()))
    assert index.search(vectors[:2], 5).rows.shape == (2, 0)


def test_what_is_no_number_is_refused(tmp_path, vectors):
    vectors[5] = np.nan
    with pytest.raises(XmcError, match="row 5"):
        ExactIndex.written(tmp_path / "v.npy", DIM, "cosine", blocks(np.arange(50), vectors))
