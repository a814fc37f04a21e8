from __future__ import annotations

import contextlib
import json
import os
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

from xmc import artifacts
from xmc.artifacts import (
    ArtifactWriter,
    describe,
    find_faults,
    is_artifact,
    load_array,
    load_csr,
    load_json,
    load_tensors,
    need_space,
    open_artifact,
    save_array,
    save_csr,
    save_json,
    save_tensors,
    size_text,
)
from xmc.errors import ArtifactError, InputError, ResourceError, XmcError

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(path: Path, value: float = 1.0, **options) -> str:
    """A small artifact with one file of each kind."""
    with ArtifactWriter(path, "model", {"labels": "ab" * 32}, {"seed": 1}, **options) as writer:
        (writer.path / "index").mkdir()
        save_array(writer.path / "index" / "vectors.npy", np.full((4, 3), value, np.float32))
        save_csr(writer.path / "counts.npz", scipy.sparse.csr_matrix([[0, value], [value, 0]]))
        save_tensors(writer.path / "model.safetensors", {"w": torch.full((3, 2), value)})
        save_json(writer.path / "labels.json", {"L1": "air transport", "L3": "قانون"})
    return writer.id


def beside(path: Path) -> list[str]:
    """What a writer left beside an artifact."""
    return sorted(name for name in os.listdir(path.parent) if name.startswith(f".{path.name}."))


def test_what_was_written_is_read_back(tmp_path):
    identity = write(tmp_path / "m")
    model = open_artifact(tmp_path / "m", "model")
    assert (model.id, model.kind, model.settings) == (identity, "model", {"seed": 1})
    assert model.parents == {"labels": "ab" * 32}
    assert model.names == ["counts.npz", "index/vectors.npy", "labels.json", "model.safetensors"]
    assert load_array(model.file("index/vectors.npy")).tolist() == [[1.0] * 3] * 4
    assert load_csr(model.file("counts.npz")).toarray().tolist() == [[0, 1], [1, 0]]
    assert load_tensors(model.file("model.safetensors"))["w"].tolist() == [[1.0, 1.0]] * 3
    assert load_json(model.file("labels.json"))["L3"] == "قانون"
    assert model.directory("index") == tmp_path / "m" / "index"
    assert set(model.manifest["versions"]) == {"xmc", "python", "numpy", "torch"}


def test_equal_content_gives_equal_bytes_and_identity(tmp_path):
    assert write(tmp_path / "a") == write(tmp_path / "b")
    for name in open_artifact(tmp_path / "a", "model").names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert write(tmp_path / "c", 2.0) != write(tmp_path / "d", 3.0)


def test_only_the_lock_is_left_beside(tmp_path):
    write(tmp_path / "m")
    assert beside(tmp_path / "m") == [".m.xmc-lock"]
    write(tmp_path / "m", 2.0, replace=True)
    assert beside(tmp_path / "m") == [".m.xmc-lock"]


def test_nothing_is_seen_before_all_is_written(tmp_path):
    with ArtifactWriter(tmp_path / "m", "model") as writer:
        save_json(writer.path / "a.json", 1)
        assert not (tmp_path / "m").exists()
    assert open_artifact(tmp_path / "m", "model").names == ["a.json"]


def test_an_error_in_the_block_leaves_what_was_there(tmp_path):
    identity = write(tmp_path / "m")

    def interrupted() -> None:
        with ArtifactWriter(tmp_path / "m", "model", replace=True) as writer:
            save_json(writer.path / "a.json", 1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert open_artifact(tmp_path / "m", "model", verify=True).id == identity
    assert beside(tmp_path / "m") == [".m.xmc-lock"]


def test_replacing(tmp_path):
    first = write(tmp_path / "m", 1.0)
    with pytest.raises(InputError, match="already exists"):
        write(tmp_path / "m", 2.0)
    assert open_artifact(tmp_path / "m", "model").id == first
    second = write(tmp_path / "m", 2.0, replace=True)
    assert open_artifact(tmp_path / "m", "model", verify=True).id == second != first


def test_only_an_artifact_of_the_same_kind_without_other_files_is_replaced(tmp_path):
    identity = write(tmp_path / "m")
    with (
        pytest.raises(InputError, match="holds a model, not a run"),
        ArtifactWriter(tmp_path / "m", "run", replace=True),
    ):
        pass
    (tmp_path / "m" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"did not write: 'notes.txt'"):
        write(tmp_path / "m", 2.0, replace=True)
    assert open_artifact(tmp_path / "m", "model", verify=True).id == identity
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"


def test_a_file_that_appears_during_the_write_stops_the_replacement(tmp_path):
    identity = write(tmp_path / "m")
    with (
        pytest.raises(InputError, match=r"late.txt"),
        ArtifactWriter(tmp_path / "m", "model", replace=True),
    ):
        (tmp_path / "m" / "late.txt").write_text("mine")
    assert open_artifact(tmp_path / "m", "model", verify=True).id == identity


@pytest.mark.parametrize("replace", [False, True])
def test_foreign_directories_and_files_are_never_replaced(tmp_path, replace):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "manifest.json").write_text('{"name": "a web page"}')
    (tmp_path / "file").write_text("x")
    for name in ("photos", "file"):
        with pytest.raises(InputError):
            write(tmp_path / name, replace=replace)
    assert (tmp_path / "photos" / "manifest.json").read_text() == '{"name": "a web page"}'
    assert (tmp_path / "file").read_text() == "x"


def test_an_empty_directory_and_missing_parents_are_fine(tmp_path):
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty")
    write(tmp_path / "a" / "b" / "c")
    assert is_artifact(tmp_path / "empty")
    assert is_artifact(tmp_path / "a" / "b" / "c")
    assert not is_artifact(tmp_path / "a")
    assert not is_artifact(tmp_path / "none")


def test_a_link_to_an_artifact_stays_a_link(tmp_path):
    write(tmp_path / "real")
    (tmp_path / "link").symlink_to("real")
    identity = write(tmp_path / "link", 2.0, replace=True)
    assert (tmp_path / "link").is_symlink()
    assert open_artifact(tmp_path / "real", "model", verify=True).id == identity
    assert open_artifact(tmp_path / "link", "model").id == identity


def test_names_at_the_limits(tmp_path):
    name = "мо дель=1,#@ \u202e\n.x"
    identity = write(tmp_path / name)
    assert open_artifact(tmp_path / name, "model").id == identity
    with pytest.raises(InputError, match="name another"):
        write(tmp_path / ("n" * 250))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="name another"):
        write(tmp_path / "file" / "m")


def test_what_cannot_stand_in_a_manifest_is_refused_before_the_work(tmp_path):
    with pytest.raises(TypeError):
        ArtifactWriter(tmp_path / "m", "model", settings={"path": Path("x")})
    with pytest.raises(ValueError, match="JSON"):
        ArtifactWriter(tmp_path / "m", "model", settings={"x": float("nan")})
    with pytest.raises(ArtifactError, match="kind"):
        ArtifactWriter(tmp_path / "m", "Mo del")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("odd", ["link", "fifo", "manifest", "backslash"])
def test_only_regular_files_with_safe_names_are_published(tmp_path, odd):
    def put(directory: Path) -> None:
        if odd == "link":
            (directory / "l").symlink_to("/etc/passwd")
        elif odd == "fifo":
            os.mkfifo(directory / "f")
        else:
            (directory / {"manifest": "manifest.json", "backslash": "a\\b"}[odd]).write_text("{}")

    with pytest.raises(ArtifactError), ArtifactWriter(tmp_path / "m", "model") as writer:
        put(writer.path)
    assert beside(tmp_path / "m") == [".m.xmc-lock"]
    assert not (tmp_path / "m").exists()


def test_a_kept_file_is_not_copied_and_keeps_its_checksum(tmp_path):
    write(tmp_path / "m", 1.0)
    old = open_artifact(tmp_path / "m", "model")
    inode = old.file("index/vectors.npy").stat().st_ino
    with ArtifactWriter(tmp_path / "m", "model", replace=True) as writer:
        writer.keep(old, "index/vectors.npy")
        save_json(writer.path / "new.json", 1)
    new = open_artifact(tmp_path / "m", "model", verify=True)
    assert new.names == ["index/vectors.npy", "new.json"]
    assert new.file("index/vectors.npy").stat().st_ino == inode
    with pytest.raises(ArtifactError, match="was replaced"):
        old.file("index/vectors.npy")


def test_a_name_both_kept_and_written_is_refused(tmp_path):
    identity = write(tmp_path / "m", 1.0)
    old = open_artifact(tmp_path / "m", "model")

    def both() -> None:
        with ArtifactWriter(tmp_path / "m", "model", replace=True) as writer:
            writer.keep(old, "labels.json")
            save_json(writer.path / "labels.json", 1)

    with pytest.raises(ArtifactError, match="both"):
        both()
    assert open_artifact(tmp_path / "m", "model", verify=True).id == identity


def test_missing_and_wrong_kind(tmp_path):
    with pytest.raises(ArtifactError, match=r"no such artifact; .*`xmc index`"):
        open_artifact(tmp_path / "none", "model")
    write(tmp_path / "m")
    with pytest.raises(ArtifactError, match="holds a model, not a run"):
        open_artifact(tmp_path / "m", "run")
    with pytest.raises(ArtifactError, match="an artifact is a directory"):
        open_artifact(tmp_path / "m" / "labels.json", "model")
    with pytest.raises(ArtifactError, match="has no file 'x'"):
        open_artifact(tmp_path / "m", "model").file("x")


def test_a_directory_for_other_libraries_holds_nothing_unlisted(tmp_path):
    write(tmp_path / "m")
    model = open_artifact(tmp_path / "m", "model")
    (tmp_path / "m" / "index" / "pytorch_model.bin").write_bytes(b"pickle")
    assert model.file("index/vectors.npy")
    with pytest.raises(ArtifactError, match=r"index/pytorch_model.bin' is not part"):
        model.directory("index")
    with pytest.raises(ArtifactError, match="has no directory"):
        model.directory("labels.json")


def flip(path: Path) -> None:
    """Change one byte, and leave size and inode as they are."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    with open(path, "r+b") as file:
        file.write(raw)


def test_content_is_checked_at_the_first_load_and_when_asked(tmp_path, cache):
    write(tmp_path / "m")
    vectors = tmp_path / "m" / "index" / "vectors.npy"
    open_artifact(tmp_path / "m", "model", verify=False)
    assert not cache.exists()
    open_artifact(tmp_path / "m", "model")
    assert len(list((cache / "xmc" / "verified").iterdir())) == 1
    stats = vectors.stat()
    flip(vectors)
    with pytest.raises(ArtifactError, match=r"index/vectors.npy: expected sha256 \w+…, found \w+…; rebuild"):
        open_artifact(tmp_path / "m", "model")
    os.utime(vectors, ns=(stats.st_atime_ns, stats.st_mtime_ns))  # now only the content tells
    open_artifact(tmp_path / "m", "model")
    with pytest.raises(ArtifactError, match="sha256"):
        open_artifact(tmp_path / "m", "model", verify=True)


@pytest.mark.parametrize("fault", ["file", "relative", "garbage", "no home"])
def test_an_unusable_cache_means_checking_each_time(tmp_path, cache, monkeypatch, fault):
    write(tmp_path / "m")
    if fault == "file":
        cache.write_text("")
    elif fault == "garbage":
        open_artifact(tmp_path / "m", "model")
        next((cache / "xmc" / "verified").iterdir()).write_bytes(b"\xff\x00")
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "here" if fault == "relative" else "")
        monkeypatch.setenv("HOME", str(tmp_path / "home" if fault == "relative" else "~"))
        monkeypatch.chdir(tmp_path)
    assert open_artifact(tmp_path / "m", "model").id
    assert not (tmp_path / "here").exists()
    assert (tmp_path / "home" / ".cache" / "xmc").exists() == (fault == "relative")
    flip(tmp_path / "m" / "labels.json")
    os.utime(tmp_path / "m" / "labels.json")
    with pytest.raises(ArtifactError, match="sha256"):
        open_artifact(tmp_path / "m", "model")


def test_describe_a_good_artifact(tmp_path):
    write(tmp_path / "m", built_by="xmc train")
    (tmp_path / "m" / "notes\n.txt").write_text("")
    text = "\n".join(describe(tmp_path / "m", verify=True))
    for part in (
        "model artifact, schema 1",
        "built by: xmc train",
        f"xmc {artifacts.manifest.versions()['xmc']}",
        f"built from: labels {'ab' * 32}",
        "setting: seed = 1",
        "files: 4, ",
        "index/vectors.npy  176 bytes",
        r"ignored: 'notes\n.txt'",
        "sizes and content as manifest.json states",
    ):
        assert part in text
    assert "FAULT" not in text
    assert find_faults(tmp_path / "m", verify=True) == []


def test_describe_names_each_fault_and_the_stage(tmp_path):
    write(tmp_path / "m", built_by="xmc train")
    os.truncate(tmp_path / "m" / "index" / "vectors.npy", 100)
    (tmp_path / "m" / "counts.npz").unlink()
    flip(tmp_path / "m" / "labels.json")
    lines = describe(tmp_path / "m", verify=True)
    faults = [line.strip() for line in lines if "FAULT" in line]
    assert faults[0] == "FAULT: counts.npz: file is missing"
    assert faults[1] == "FAULT: index/vectors.npy: expected 176 bytes, found 100"
    assert faults[2].startswith("FAULT: labels.json: expected sha256")
    assert len(faults) == 3
    assert lines[-1].strip() == "rebuild it with `xmc train`"
    assert len(find_faults(tmp_path / "m")) == 2


def test_describe_a_cut_manifest(tmp_path):
    write(tmp_path / "m", built_by="xmc train")
    size = (tmp_path / "m" / "manifest.json").stat().st_size
    os.truncate(tmp_path / "m" / "manifest.json", size - 100)
    lines = describe(tmp_path / "m")
    assert any(f"FAULT: manifest.json: expected {size} bytes, found {size - 100}" in line for line in lines)
    assert lines[-1].strip() == "rebuild it with `xmc train`"
    with pytest.raises(ArtifactError, match="no such artifact"):
        describe(tmp_path / "none")


def test_need_space(tmp_path):
    need_space(tmp_path / "not" / "yet" / "there", 1)
    with pytest.raises(ResourceError, match=r"needs ≈ 1000000.0 TB, .* free") as error:
        need_space(tmp_path / "x", 10**18)
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (2**20, "1.0 MB"), (10**15, "1000.0 TB")],
)
def test_size_text(n, text):
    assert size_text(n) == text


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
