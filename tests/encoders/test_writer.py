from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xmc.encoders.windows import WindowVectors
from xmc.encoders.writer import NpyAppender, VectorWriter, read_vectors
from xmc.errors import ArtifactError


def _batch(n_windows: list[int], value: float) -> WindowVectors:
    indptr = np.concatenate([[0], np.cumsum(n_windows)]).astype(np.int64)
    windows = np.full((indptr[-1], 4), value, np.float16)
    return WindowVectors(np.full((len(n_windows), 4), value, np.float32), windows, indptr)


def test_batches_lie_behind_each_other(tmp_path: Path) -> None:
    with VectorWriter(tmp_path / "new", 4) as writer:
        writer.append(_batch([1, 0, 3], 1))
        writer.append(_batch([2], 2))
    found = read_vectors(tmp_path / "new")
    assert found.indptr.tolist() == [0, 1, 1, 4, 6]
    assert found.vectors[:, 0].tolist() == [1, 1, 1, 2]
    assert found.windows[:, 0].tolist() == [1, 1, 1, 1, 2, 2]
    assert found.ok.tolist() == [True, False, True, True]


def test_nothing_appended_is_an_empty_set(tmp_path: Path) -> None:
    with VectorWriter(tmp_path, 4, "float16"):
        pass
    found = read_vectors(tmp_path)
    assert found.vectors.shape == (0, 4)
    assert found.vectors.dtype == np.float16
    assert len(found) == 0


@pytest.mark.parametrize("row", [(), (3,), (2, 5)])
def test_an_appended_file_equals_what_numpy_saves(tmp_path: Path, row: tuple[int, ...]) -> None:
    rows = np.arange(7 * int(np.prod(row))).reshape(7, *row).astype("<i8")
    file = NpyAppender(tmp_path / "a.npy", "int64", row)
    file.append(rows[:2])
    file.append(rows[2:])
    file.close()
    np.save(tmp_path / "b.npy", rows)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shape"):
        NpyAppender(tmp_path / "a.npy", "int64", (3,)).append(np.zeros((2, 4)))


@pytest.mark.parametrize("name", ["vectors.npy", "windows.npy", "indptr.npy"])
def test_a_cut_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with VectorWriter(tmp_path, 4) as writer:
        writer.append(_batch([1, 2], 1))
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[:-3])
    with pytest.raises(ArtifactError, match=name):
        read_vectors(tmp_path)


def test_files_of_different_sets_are_refused(tmp_path: Path) -> None:
    for name, n in (("a", [1, 2]), ("b", [1, 1])):
        with VectorWriter(tmp_path / name, 4) as writer:
            writer.append(_batch(n, 1))
    (tmp_path / "a" / "windows.npy").replace(tmp_path / "b" / "windows.npy")
    with pytest.raises(ArtifactError, match="3 windows"):
        read_vectors(tmp_path / "b")
