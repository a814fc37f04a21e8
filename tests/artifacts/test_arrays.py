"""What is saved comes back, and any change of it is noticed."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.artifacts.made import write
from xmc import artifacts
from xmc.artifacts import (
    describe,
    find_faults,
    load_array,
    load_csr,
    load_json,
    load_tensors,
    open_artifact,
    save_array,
    save_csr,
    save_json,
    save_tensors,
)
from xmc.errors import XmcError

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(data=st.data(), mmap=st.booleans())
def test_arrays_come_back_bit_by_bit(tmp_path, data, mmap):
    kinds = st.sampled_from(["?", "i1", "i8", "u2", "f2", "f4", "f8", ">i4"])
    shapes = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    array = data.draw(arrays(data.draw(kinds), shapes))
    array = array.T if data.draw(st.booleans()) else array[::-1] if array.ndim else array
    save_array(tmp_path / "a.npy", array)
    for loaded in (load_array(tmp_path / "a.npy", mmap), np.load(tmp_path / "a.npy")):
        assert loaded.dtype == array.dtype
        assert loaded.shape == array.shape
        assert loaded.tobytes() == array.tobytes()


def test_a_mapped_array_is_read_only_and_a_loaded_one_is_not(tmp_path):
    save_array(tmp_path / "a.npy", np.zeros(4))
    assert not load_array(tmp_path / "a.npy").flags.writeable
    assert load_array(tmp_path / "a.npy", mmap=False).flags.writeable


def test_objects_and_texts_are_not_saved(tmp_path):
    for array in (np.array([{}]), np.array(["a"])):
        with pytest.raises(TypeError):
            save_array(tmp_path / "a.npy", array)


@QUICK
@given(
    dense=arrays(
        np.float32, array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=6), elements=st.integers(0, 2)
    )
)
def test_csr_comes_back(tmp_path, dense):
    save_csr(tmp_path / "a.npz", scipy.sparse.csr_matrix(dense))
    assert (load_csr(tmp_path / "a.npz").toarray() == dense).all()
    assert (scipy.sparse.load_npz(tmp_path / "a.npz").toarray() == dense).all()


def test_csr_entries_are_put_in_order_and_added_without_touching_the_argument(tmp_path):
    matrix = scipy.sparse.csr_matrix((np.ones(3), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    save_csr(tmp_path / "a.npz", matrix)
    assert matrix.indices.tolist() == [2, 0, 2]
    loaded = load_csr(tmp_path / "a.npz")
    assert (loaded.indices.tolist(), loaded.data.tolist()) == ([0, 2], [1.0, 2.0])


def test_tensors_of_any_kind_come_back(tmp_path):
    tensors = {
        "a": torch.zeros(0, 3),
        "b": torch.ones(2, dtype=torch.bfloat16),
        "c": torch.arange(6).view(2, 3).T,
    }
    save_tensors(tmp_path / "t.safetensors", tensors)
    loaded = load_tensors(tmp_path / "t.safetensors")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


@QUICK
@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_json_comes_back(tmp_path, value):
    save_json(tmp_path / "v.json", value)
    assert load_json(tmp_path / "v.json") == value


LOADERS = {
    "index/vectors.npy": load_array,
    "counts.npz": load_csr,
    "model.safetensors": load_tensors,
    "labels.json": load_json,
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pristine") / "m"
    write(path)
    return path


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_any_byte_is_noticed(pristine, data):
    """And no loader that meets the changed file answers with anything but an XmcError."""
    name = data.draw(st.sampled_from([*LOADERS, "manifest.json"]))
    raw = (pristine / name).read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    change = data.draw(st.sampled_from(["flip", "cut", "drop", "double"]))
    damaged = {
        "flip": raw[:at] + bytes([raw[at] ^ data.draw(st.integers(1, 255))]) + raw[at + 1 :],
        "cut": raw[:at],
        "drop": raw[:at] + raw[at + 1 :],
        "double": raw[:at] + raw[at : at + 1] + raw[at:],
    }[change]
    try:
        (pristine / name).write_bytes(damaged)
        with pytest.raises(XmcError):
            open_artifact(pristine, "model", verify=True)
        assert find_faults(pristine, verify=True)
        assert any("FAULT" in line for line in describe(pristine, verify=True))
        if name in LOADERS:
            with contextlib.suppress(XmcError):
                LOADERS[name](pristine / name)
    finally:
        (pristine / name).write_bytes(raw)


def test_the_manifest_is_readable_json(pristine):
    content = json.loads((pristine / "manifest.json").read_text())
    assert content["schema"] == artifacts.SCHEMA
    assert int(content["bytes"]) == (pristine / "manifest.json").stat().st_size


def test_importing_stays_light():
    code = "import sys, xmc.artifacts; print(*{'torch', 'scipy', 'safetensors', 'tqdm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
