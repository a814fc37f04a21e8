"""PECOS matrices that were damaged or made to crash a reader: refused by name, nothing is executed."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmc.data.formats import open_corpus
from xmc.errors import InputError, XmcError

GOOD = {
    "format": np.array(b"csr"),
    "shape": np.array([2, 3]),
    "indptr": np.array([0, 1, 2]),
    "indices": np.array([0, 2]),
    "data": np.array([1.0, 2.0]),
}


def write(path, **changes):
    arrays = {**GOOD, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def read(path):
    return list(open_corpus([path]).batches())


def test_the_undamaged_matrix_is_read(tmp_path):
    (batch,) = read(write(tmp_path / "X.npz"))
    assert batch.features.toarray().tolist() == [[1, 0, 0], [0, 0, 2]]


def refusal(path):
    """What a user is told about a file, "" for one that is read."""
    try:
        read(path)
    except XmcError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": np.array([0, 3])},
        {"indices": np.array([0, -1])},
        {"indices": np.array([0, 2**62])},
        {"indices": np.array([0.0, 2.0])},
        {"indices": np.array([0])},
        {"indices": np.array([[0, 2]])},
        {"indptr": np.array([0, 2])},
        {"indptr": np.array([0, 5, 2])},
        {"indptr": np.array([0, 1, 2**40])},
        {"indptr": np.array([1, 1, 2])},
        {"indptr": np.array([0, -1, 2])},
        {"indptr": np.zeros(0, dtype=np.int64)},
        {"indptr": None},
        {"shape": np.array([2**40, 3])},
        {"shape": np.array([-1, 3])},
        {"shape": np.array([2, 3, 4])},
        {"shape": np.array([2.0, 3.0])},
        {"data": np.array(["a", "b"])},
        {"data": np.array([1j, 2j])},
        {"data": np.array([np.nan, 1])},
        {"format": np.array(b"coo")},
    ],
)
def test_parts_that_make_no_matrix_are_refused(tmp_path, changes):
    with pytest.raises(InputError, match=r"X\.npz: "):
        read(write(tmp_path / "X.npz", **changes))


class Hostile:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


def test_pickles_are_never_opened(tmp_path):
    path = tmp_path / "X.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in GOOD.keys() - {"data"}:
            stream = io.BytesIO()
            np.lib.format.write_array(stream, GOOD[name])
            archive.writestr(f"{name}.npy", stream.getvalue())
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": (2,)})
        archive.writestr("data.npy", stream.getvalue() + pickle.dumps([Hostile()]))
    with pytest.raises(InputError, match=r"X\.npz: not a readable npz file"):
        read(path)


def test_a_header_that_promises_more_than_there_is_reserves_no_memory(tmp_path):
    path = write(tmp_path / "X.npz", data=None)
    with zipfile.ZipFile(path, "a") as archive:
        stream = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f8", "fortran_order": False, "shape": (2**45,)}
        )
        archive.writestr("data.npy", stream.getvalue())
    with pytest.raises(InputError, match="more than there is of it"):
        read(path)


def _bytes_of_good_file():
    stream = io.BytesIO()
    np.savez_compressed(stream, **GOOD)
    return stream.getvalue()


FILE = _bytes_of_good_file()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(FILE) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_flipped_bytes_give_a_matrix_or_one_sentence(tmp_path_factory, changes):
    content = bytearray(FILE)
    for position, value in changes:
        content[position] = value
    path = tmp_path_factory.mktemp("npz") / "X.npz"
    path.write_bytes(content)
    message = refusal(path)
    assert not message or (str(path) in message and "\n" not in message)
