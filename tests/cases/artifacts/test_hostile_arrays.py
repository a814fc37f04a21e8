"""Arrays, matrices and tensors that are damaged or hostile."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from xmc.artifacts import (
    load_array,
    load_csr,
    load_json,
    load_tensors,
)
from xmc.errors import ArtifactError, ResourceError

# Hostile arrays


def npy(header: str, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin-1") + b"\n"
    width = 2 if version == b"\x01\x00" else 4
    return b"\x93NUMPY" + version + len(text).to_bytes(width, "little") + text + body


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x93NUMPY",
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}", b"x" * 40),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9,)}", b"x" * 40),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-10,)}", b"x" * 40),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (0, " + "9" * 30 + ")}"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 4000 + ", " + "9" * 4000 + ")}"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 100 + ")}", b"x" * 4),
        npy("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000000,)}"),
        npy("{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000000,)}"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", pickle.dumps([print])),
        npy("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}", pickle.dumps([print])),
        npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", b"abcd"),
        npy("(" * 5000),
        npy("[" * 9000 + "]" * 900),
        npy("__import__('os').system('false')"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"abcd", b"\x09\x00"),
        npy(" " * 20_000 + "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"abcd"),
        pickle.dumps(np.zeros(3)),
    ],
    ids=lambda raw: repr(raw[10:75]),
)
@pytest.mark.parametrize("mmap", [True, False])
def test_hostile_npy(tmp_path, raw, mmap):
    (tmp_path / "a.npy").write_bytes(raw)
    with pytest.raises(ArtifactError, match=r"a\.npy: ") as error:
        load_array(tmp_path / "a.npy", mmap)
    assert len(str(error.value)) < 500


def csr_parts(**changes: object) -> dict[str, object]:
    parts: dict[str, object] = {
        "data": np.ones(3, np.float32),
        "format": np.array(b"csr"),
        "indices": np.array([0, 2, 1], np.int32),
        "indptr": np.array([0, 2, 3], np.int32),
        "shape": np.array([2, 3], np.int64),
    }
    return parts | changes


def npz(path: Path, **changes: object) -> Path:
    np.savez(path, **{name: part for name, part in csr_parts(**changes).items() if part is not None})
    return path


def test_the_helper_makes_good_matrices(tmp_path):
    assert load_csr(npz(tmp_path / "a.npz")).toarray().tolist() == [[1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"indptr": np.array([0, 5, 3])}, "should rise"),
        ({"indptr": np.array([1, 2, 3])}, "should rise"),
        ({"indptr": np.array([0, 2, 2])}, "should rise"),
        ({"indptr": np.array([0, 2, 2**40])}, "should rise"),
        ({"indptr": np.array([0, 3])}, "2 rows, but an indptr of 2"),
        ({"indptr": np.array([0.0, 2, 3])}, "int32 or int64"),
        ({"indptr": np.array([], np.int64)}, "2 rows"),
        ({"indices": np.array([0, 3, 1])}, "column 0 to 3 in 3 columns"),
        ({"indices": np.array([0, -1, 1])}, "column -1 to 1 in 3 columns"),
        ({"indices": np.array([0, 1])}, "values"),
        ({"indices": np.array([[0, 2, 1]])}, "int32 or int64"),
        ({"indices": np.array([0, 2, 1], np.uint64)}, "int32 or int64"),
        ({"data": np.ones((3, 1))}, "values"),
        ({"data": np.ones(3, complex)}, "refused"),
        ({"data": np.array(["a", "b", "c"])}, "refused"),
        ({"data": np.array([1, {}, print], dtype=object)}, "refused"),
        ({"shape": np.array([-2, 3])}, "shape"),
        ({"shape": np.array([2.0, 3])}, "shape"),
        ({"shape": np.array([2])}, "shape"),
        ({"shape": np.array([2**62, 3])}, "rows"),
        ({"format": np.array(b"csc")}, "format"),
        ({"format": np.array(["csr"])}, "refused"),
        ({"data": None}, "expected the arrays"),
        ({"more": np.ones(1)}, "expected the arrays"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_hostile_csr(tmp_path, changes, message):
    with pytest.raises(ArtifactError, match=message) as error:
        load_csr(npz(tmp_path / "a.npz", **changes))
    assert "a.npz" in str(error.value)


def zip_of(path: Path, members: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, raw in members:
            archive.writestr(name, raw)
    return path


def npy_members() -> dict[str, bytes]:
    members = {}
    for name, part in csr_parts().items():
        buffer = io.BytesIO()
        np.save(buffer, part)
        members[f"{name}.npy"] = buffer.getvalue()
    return members


def test_zip_bombs_twins_and_strangers(tmp_path):
    members = npy_members()
    bomb = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5000000,)}", bytes(20_000_000))
    archive = zip_of(tmp_path / "a.npz", [*(members | {"data.npy": bomb}).items()], zipfile.ZIP_DEFLATED)
    assert archive.stat().st_size < 50_000
    with pytest.raises(ArtifactError, match="compressed"):
        load_csr(archive)
    with pytest.warns(UserWarning, match="Duplicate"):
        zip_of(tmp_path / "b.npz", [*members.items(), ("data.npy", members["data.npy"])])
    with pytest.raises(ArtifactError, match="expected the arrays"):
        load_csr(tmp_path / "b.npz")
    declares = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (5000000000000,)}", b"1234")
    with pytest.raises(
        ArtifactError, match=r"data\.npy: its header declares 20000000000000 bytes of data, found 4"
    ):
        load_csr(zip_of(tmp_path / "c.npz", [*(members | {"data.npy": declares}).items()]))
    outside = {name.replace("data", "../data"): raw for name, raw in members.items()}
    with pytest.raises(ArtifactError, match="expected the arrays"):
        load_csr(zip_of(tmp_path / "d.npz", [*outside.items()]))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 8,
        (2**60).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"{}" + b"trailing",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
        (62).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[9999999],"data_offsets":[0,4]}}  abcd',
        pickle.dumps({"a": 1}),
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_hostile_safetensors(tmp_path, raw):
    (tmp_path / "a.safetensors").write_bytes(raw)
    with pytest.raises(ArtifactError, match=r"a\.safetensors: "):
        load_tensors(tmp_path / "a.safetensors")


@pytest.mark.parametrize("load", [load_array, load_csr, load_tensors, load_json])
def test_missing_files_and_directories(tmp_path, load):
    with pytest.raises(ArtifactError, match="none: file is missing"):
        load(tmp_path / "none")
    with pytest.raises(ResourceError, match="cannot be read"):
        load(tmp_path)
