"""Damaged and hostile artifacts, full disks, read-only folders, second and killed writers."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from xmc.artifacts import (
    ArtifactWriter,
    describe,
    find_faults,
    jsonfile,
    load_array,
    load_csr,
    load_json,
    load_tensors,
    manifest,
    open_artifact,
)
from xmc.errors import ArtifactError, InputError, ResourceError

FILES = ("index.faiss", "model.safetensors", "manifest.json")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path) -> Path:
    return write(tmp_path / "model", b"old")


def write(path: Path, fill: bytes, **options) -> Path:
    with ArtifactWriter(path, "model", built_by="xmc index", **options) as writer:
        (writer.path / "index.faiss").write_bytes(fill * 1000)
        (writer.path / "model.safetensors").write_bytes(fill * 500)
    return path


def snapshot(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def run(code: str, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


# Truncated checkpoint or index


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("verify", [None, True, False])
def test_a_cut_file_is_refused_by_name_and_nothing_is_changed(model, name, verify):
    size = (model / name).stat().st_size
    os.truncate(model / name, size - 100)
    before = snapshot(model)
    with pytest.raises(
        ArtifactError, match=rf"{name}: expected {size} bytes, found {size - 100}; rebuild"
    ) as e:
        open_artifact(model, "model", verify)
    assert "`xmc index`" in str(e.value)
    assert e.value.exit_code == 2
    lines = describe(model)
    assert any(f"{name}: expected {size} bytes, found {size - 100}" in line for line in lines)
    assert lines[-1].strip() == "rebuild it with `xmc index`"
    assert snapshot(model) == before


def test_a_damaged_file_is_rebuilt_in_place_but_a_damaged_manifest_must_be_moved_away(model):
    os.truncate(model / "index.faiss", 10)
    write(model, b"new", replace=True)
    open_artifact(model, "model", verify=True)
    os.truncate(model / "manifest.json", 100)
    with pytest.raises(InputError, match="move it away first"):
        write(model, b"two", replace=True)


# Hostile manifests


def with_manifest(model: Path, **changes: object) -> None:
    """Give ``model`` a manifest with these entries, of right length and checksum."""
    content = manifest.parse((model / "manifest.json").read_bytes(), model) | changes
    content["bytes"], content["checksum"] = "0" * 10, "0" * 64
    content["bytes"] = f"{len(jsonfile.encode(content)):010d}"
    content["checksum"] = manifest.checksum(content)
    (model / "manifest.json").write_bytes(jsonfile.encode(content))


def entry(raw: bytes = b"") -> dict[str, object]:
    return {"size": len(raw), "sha256": hashlib.sha256(raw).hexdigest()}


def test_the_helper_makes_good_manifests(model):
    with_manifest(model, settings={"seed": 2})
    assert open_artifact(model, "model", verify=True).settings == {"seed": 2}
    with_manifest(model, settings={"\x1b[2J": "\x1b[2J\n"})
    assert all(line.isprintable() for line in describe(model, verify=True))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../x",
            "a/../../x",
            "/etc/passwd",
            "a\\..\\x",
            "a\0b",
            "",
            ".",
            "a//b",
            "a/",
            "./a",
            "C:\\x",
            "c:x",
        ),
        *("a\nb", "\u202ex", "x" * 256, "x/" * 600 + "x", "\ud800", "manifest.json", "\x1b[2J"),
    ],
)
def test_names_that_lead_outside_or_cannot_be_shown(model, name):
    (model.parent / "x").write_bytes(b"")
    with_manifest(model, files={name: entry()})
    with pytest.raises(ArtifactError, match=r"file name .* is refused") as error:
        open_artifact(model, "model")
    assert str(error.value).isprintable()
    assert all(line.isprintable() for line in describe(model))


@pytest.mark.parametrize("link", ["index.faiss", "sub"])
def test_links_inside_are_refused_wherever_they_lead(model, link):
    outside = model.parent / "outside"
    outside.mkdir()
    (outside / "index.faiss").write_bytes((model / "index.faiss").read_bytes())
    (model / "index.faiss").unlink()
    if link == "sub":
        (model / "sub").symlink_to(outside)
        with_manifest(model, files={"sub/index.faiss": entry(b"old" * 1000)})
    else:
        (model / "index.faiss").symlink_to(outside / "index.faiss")
    with pytest.raises(ArtifactError, match="of the artifact"):
        open_artifact(model, "model")


def test_a_pipe_is_refused_and_does_not_block(model):
    (model / "index.faiss").unlink()
    os.mkfifo(model / "index.faiss")
    with pytest.raises(ArtifactError, match=r"index.faiss: not a regular file"):
        open_artifact(model, "model", verify=True)
    (model / "manifest.json").unlink()
    os.mkfifo(model / "manifest.json")
    with pytest.raises(ArtifactError, match=r"manifest.json: not a regular file"):
        open_artifact(model, "model", verify=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "1"},
        {"schema": True},
        {"schema": 0},
        {"schema": 1.0},
        {"kind": 7},
        {"kind": "../x"},
        {"kind": "\x1b[2J"},
        {"files": []},
        {"files": {"a": []}},
        {"files": {"a": {"size": 1}}},
        {"files": {"a": entry() | {"size": -1}}},
        {"files": {"a": entry() | {"size": 1.5}}},
        {"files": {"a": entry() | {"size": True}}},
        {"files": {"a": entry() | {"size": 10**300}}},
        {"files": {"a": entry() | {"size": 2**62}}},
        {"files": {"a": entry() | {"sha256": "x"}}},
        {"files": {f"{i}": entry() for i in range(10_001)}},
        {"parents": {"labels": 1}},
        {"parents": {"labels": "\x1b[2J"}},
        {"versions": {"xmc": None}},
        {"built_by": "rm -rf /"},
        {"settings": None},
        {"unknown": 1},
        {"artifact": "other"},
    ],
    ids=lambda changes: str(changes)[:50],
)
def test_entries_of_the_wrong_kind(model, changes):
    with_manifest(model, **changes)
    with pytest.raises(ArtifactError, match="rebuild it with `xmc index`") as error:
        open_artifact(model, "model")
    assert len(str(error.value)) < 500
    assert all(line.isprintable() for line in describe(model))


def test_a_newer_schema_names_both_versions(model):
    with_manifest(model, schema=99)
    with pytest.raises(ArtifactError, match="schema version 99, this xmc reads up to 1; install a newer xmc"):
        open_artifact(model, "model")


def test_an_edit_that_is_good_json_is_still_noticed(model):
    raw = (model / "manifest.json").read_bytes()
    for edited in (raw.replace(b'"xmc": "', b'"xmc": "9', 1), raw.rstrip() + b" ", raw[:-2] + b" }"):
        (model / "manifest.json").write_bytes(edited)
        with pytest.raises(ArtifactError, match=r"edited or damaged|expected"):
            open_artifact(model, "model")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 100,
        b"\xff\xfe{}",
        b"[]",
        b"null",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"artifact": "xmc", "schema": 1' + b"0" * 10_000 + b"}",
        b'{"artifact": "xmc", "schema": 1' + b"0" * 4000 + b"}",
        b'{"artifact": "xmc", "schema": NaN}',
        b'{"artifact": "xmc", "artifact": "xmc"}',
        b'{"artifact": "xmc", "schema": 1, "settings": ' + b"[" * 900 + b"]" * 900 + b"}",
        b" " * (17 * 2**20),
    ],
    ids=lambda raw: repr(raw[:40]),
)
def test_what_is_no_manifest_at_all(model, raw):
    (model / "manifest.json").write_bytes(raw)
    for verify in (None, True, False):
        with pytest.raises(ArtifactError) as error:
            open_artifact(model, "model", verify)
        assert len(str(error.value)) < 500
    assert find_faults(model)
    assert describe(model)
    assert (model / "manifest.json").read_bytes() == raw


def test_settings_nested_to_any_depth_give_no_traceback(model):
    raw = (model / "manifest.json").read_bytes()
    for depth in range(100, 3000, 100):
        nested = raw.replace(b'"settings": {}', b'"settings": {"a": ' + b"[" * depth + b"]" * depth + b"}")
        length = f'"bytes": "{len(nested):010d}"'.encode()
        (model / "manifest.json").write_bytes(nested.replace(raw[raw.index(b'"bytes"') :][:21], length))
        with pytest.raises(ArtifactError):
            open_artifact(model, "model")


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


# Disk full, read-only output


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("a small file system can only be mounted by root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill_with(how: str, directory: Path) -> None:
    """Write 2 MB the way that each library does."""
    big = np.ones(250_000)
    if how == "save_array":
        from xmc.artifacts import save_array

        save_array(directory / "a.npy", big)
    elif how == "save_csr":
        import scipy.sparse

        from xmc.artifacts import save_csr

        save_csr(directory / "a.npz", scipy.sparse.csr_matrix(big))
    elif how == "save_tensors":
        import torch

        from xmc.artifacts import save_tensors

        save_tensors(directory / "a.safetensors", {"a": torch.from_numpy(big)})
    elif how == "numpy":
        np.save(directory / "a.npy", big)
    elif how == "arrow":
        import pyarrow as pa

        with pa.OSFile(str(directory / "a.arrow"), "wb") as sink:
            sink.write(big.tobytes())
    elif how == "faiss":
        faiss = pytest.importorskip("faiss")
        index = faiss.IndexFlatL2(100)
        index.add(np.ones((5000, 100), np.float32))
        faiss.write_index(index, str(directory / "a.faiss"))


HOWS = ["save_array", "save_csr", "save_tensors", "numpy", "arrow", "faiss"]


@pytest.mark.parametrize("how", HOWS)
def test_disk_full(small_disk, how):
    model = write(small_disk / "model", b"old")
    before = snapshot(model)
    writer = ArtifactWriter(model, "model", replace=True)
    with pytest.raises(ResourceError, match=r"needs more than .*, \d.* [kM]B free") as error, writer:
        fill_with(how, writer.path)
    assert error.value.exit_code == 3
    assert snapshot(model) == before
    assert open_artifact(model, "model", verify=True)
    assert sorted(os.listdir(small_disk)) == [".model.xmc-lock", "model"]


def test_disk_full_at_the_manifest_or_before_the_start(small_disk):
    (small_disk / "ballast").write_bytes(bytes(2**20))
    for path in (small_disk / "a", small_disk / "b" / "c"):
        with pytest.raises(ResourceError, match=r"free|cannot be written"):
            write(path, b"x")
        assert not path.exists()


def test_a_disk_that_became_read_only(small_disk):
    model = write(small_disk / "model", b"old")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(ResourceError, match="Read-only") as error:
        write(model, b"new", replace=True)
    assert error.value.exit_code == 3
    assert open_artifact(model, "model", verify=True)


LIMITED = """
import os, resource, sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from test_damaged_artifacts import fill_with
from xmc.artifacts import ArtifactWriter
from xmc.errors import ResourceError
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
model = Path(sys.argv[1])
for how in ["save_array", "save_csr", "numpy", "arrow"]:
    try:
        with ArtifactWriter(model, "model", replace=True) as writer:
            fill_with(how, writer.path)
    except ResourceError as error:
        print(error.exit_code, error)
    print(*sorted(os.listdir(model.parent)))
"""
SOURCE = Path(__file__).parents[2]


def test_a_file_size_limit_is_a_full_disk(model):
    done = run(LIMITED, model, Path(__file__).parent, SOURCE)
    lines = done.stdout.splitlines()
    assert len(lines) == 8, done.stderr
    assert all(line.startswith("3 ") and ": needs more than " in line for line in lines[::2])
    assert all(line.split() == [".model.xmc-lock", "model"] for line in lines[1::2])
    assert open_artifact(model, "model", verify=True)


READ_ONLY = """
import os, sys
sys.path[:0] = sys.argv[3:]
from pathlib import Path
from test_damaged_artifacts import write
from xmc.artifacts import open_artifact
from xmc.errors import ResourceError
os.environ["XDG_CACHE_HOME"] = sys.argv[1]
write(Path(sys.argv[2]), b"")  # what Python imports late may not be there for the other user
if os.geteuid() == 0:  # whom no missing right stops
    os.setuid(65534)
for name, replace in (("model", True), ("other", False)):
    try:
        write(Path(sys.argv[1]) / name, b"new", replace=replace)
    except ResourceError as error:
        print(error.exit_code, error)
print(open_artifact(Path(sys.argv[1]) / "model", "model").kind)
"""


def test_a_folder_without_write_right(tmp_path):
    folder = Path(tempfile.mkdtemp())
    try:
        before = snapshot(write(folder / "model", b"old"))
        os.chmod(folder / "model", 0o755)
        os.chmod(folder, 0o555)
        done = run(READ_ONLY, folder, tmp_path / "warm", Path(__file__).parent, SOURCE)
        lines = done.stdout.splitlines()
        assert len(lines) == 3, done.stderr
        assert all(line.startswith("3 ") and "Permission denied" in line for line in lines[:2])
        assert lines[2] == "model"
        assert snapshot(folder / "model") == before
    finally:
        os.chmod(folder, 0o755)
        shutil.rmtree(folder)


def test_an_error_about_another_file_is_not_blamed_on_the_output(tmp_path):
    def read_elsewhere() -> None:
        with ArtifactWriter(tmp_path / "m", "model"):
            (tmp_path / "input.txt").read_bytes()

    with pytest.raises(FileNotFoundError):
        read_elsewhere()
    assert os.listdir(tmp_path) == [".m.xmc-lock"]


# Two writers, killed writers


def test_a_second_writer_is_refused_and_the_first_is_not_disturbed(tmp_path):
    with ArtifactWriter(tmp_path / "m", "model") as first:
        (first.path / "a").write_bytes(b"first")
        with pytest.raises(ResourceError, match="another xmc process is writing it"):
            write(tmp_path / "m", b"second")
        done = run(
            "import sys; sys.path[:0] = sys.argv[2:]\n"
            "from test_damaged_artifacts import write; write(sys.argv[1], b'x')",
            tmp_path / "m",
            Path(__file__).parent,
            SOURCE,
        )
        assert "another xmc process is writing it" in done.stderr
        assert (first.path / "a").read_bytes() == b"first"
    assert open_artifact(tmp_path / "m", "model").names == ["a"]


def test_writers_of_neighbours_do_not_meet(tmp_path):
    with ArtifactWriter(tmp_path / "m", "model") as one, ArtifactWriter(tmp_path / "n", "model") as two:
        (one.path / "a").write_bytes(b"1")
        (two.path / "a").write_bytes(b"2")
    assert open_artifact(tmp_path / "m", "model").id != open_artifact(tmp_path / "n", "model").id


# What a writer calls on the way; a kill is tried before and after each call.
CALLS = ("mkdir", "rename", "fsync", "unlink", "rmdir", "open", "link")


def killed_at(limit: int, after: bool, model: Path) -> bool:
    """Replace ``model`` in a child killed at its ``limit``-th call; whether the child got to its end."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return not os.WIFSIGNALED(status)
    n_calls = 0

    def guarded(call):
        def guard(*arguments, **options):
            nonlocal n_calls
            n_calls += 1
            if n_calls == limit and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*arguments, **options)
            finally:
                if n_calls == limit:
                    os.kill(os.getpid(), signal.SIGKILL)

        return guard

    for name in CALLS:
        setattr(os, name, guarded(getattr(os, name)))
    write(model, b"new", replace=True)
    os._exit(0)


def kill_everywhere(folder: Path, after: bool, then: str) -> None:
    """Kill a writer at every call; after each, a whole artifact is there, if one was, and can be replaced."""
    os.fsync = lambda handle: None  # a killed process loses nothing that it wrote, synced or not
    for limit in itertools.count(1):
        model = folder / str(limit) / "model"
        if then != "first":
            write(model, b"old")
        finished = killed_at(limit, after, model)
        if then == "read" or (then == "first" and model.exists()):
            gap = "" if model.exists() else " after a gap"
            open_artifact(model, "model", verify=True)
            print(snapshot(model)["index.faiss"][:3].decode() + gap)
        write(model, b"two", replace=True)
        assert snapshot(model)["index.faiss"][:3] == b"two"
        open_artifact(model, "model", verify=True)
        assert sorted(os.listdir(model.parent)) == [".model.xmc-lock", "model"]
        if finished:
            break


KILL = """
import sys; sys.path[:0] = sys.argv[2:]
from pathlib import Path
from test_damaged_artifacts import kill_everywhere
kill_everywhere(Path(sys.argv[1]), AFTER, THEN)
"""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("then", ["write", "read", "first"])
def test_no_kill_loses_the_artifact_or_blocks_the_next_writer(tmp_path, after, then):
    code = KILL.replace("AFTER", repr(after)).replace("THEN", repr(then))
    done = run(code, tmp_path, Path(__file__).parent, SOURCE)
    assert done.returncode == 0, done.stderr
    seen = done.stdout.splitlines()
    if then == "read":
        assert len(seen) > 20
        # Old until the swap, new from then on.
        assert list(dict.fromkeys(seen)) == ["old", "old after a gap", "new"]
    elif then == "first":
        assert set(seen) == {"new"}


def test_only_our_own_leftovers_are_removed(tmp_path):
    work = tmp_path / ".model.xmc-work"
    (work / "new").mkdir(parents=True)
    (work / "new" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not made by xmc; move it away"):
        write(tmp_path / "model", b"x")
    (work / "owner").write_bytes(b"files that xmc is writing for another\n")
    with pytest.raises(InputError, match="not made by xmc"):
        write(tmp_path / "model", b"x")
    (work / "owner").write_bytes(b"files that xmc is writing for model\n")
    (work / "stranger").write_text("mine too")
    write(tmp_path / "model", b"x")
    assert sorted(os.listdir(work)) == ["owner", "stranger"]
    write(tmp_path / "model", b"y", replace=True)
    assert (work / "stranger").read_text() == "mine too"


def test_a_link_in_the_place_of_leftovers_is_not_followed(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat").write_text("mine")
    (tmp_path / ".model.xmc-work").symlink_to("photos")
    with pytest.raises(InputError, match="not made by xmc"):
        write(tmp_path / "model", b"x")
    (tmp_path / ".model.xmc-work").unlink()
    (tmp_path / ".model.xmc-work").mkdir()
    (tmp_path / ".model.xmc-work" / "owner").write_bytes(b"files that xmc is writing for model\n")
    (tmp_path / ".model.xmc-work" / "new").symlink_to("../photos")
    with contextlib.suppress(InputError):
        write(tmp_path / "model", b"x")
    assert (tmp_path / "photos" / "cat").read_text() == "mine"


def test_what_took_the_place_of_an_artifact_is_not_overwritten(tmp_path):
    model = write(tmp_path / "model", b"old")
    work = tmp_path / ".model.xmc-work"
    work.mkdir()
    (work / "owner").write_bytes(b"files that xmc is writing for model\n")
    model.rename(work / "old")
    model.mkdir()
    (model / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="took the place of an artifact"):
        write(model, b"new", replace=True)
    assert (model / "thesis.txt").read_text() == "mine"
    assert (work / "old" / "index.faiss").exists()


REPLACE = """
import os, sys; sys.path[:0] = sys.argv[2:]
from pathlib import Path
from test_damaged_artifacts import write
os.fsync = lambda handle: None
for i in range(60):
    write(Path(sys.argv[1]), b"%03d" % i, replace=True)
"""


def test_a_reader_beside_a_writer_always_finds_a_whole_artifact(model):
    writer = subprocess.Popen(
        [sys.executable, "-c", REPLACE, str(model), str(Path(__file__).parent), str(SOURCE)]
    )
    seen = set()
    while writer.poll() is None:
        seen.add(open_artifact(model, "model", verify=True).id)
    assert writer.returncode == 0
    assert len(seen) > 3
