"""Artifacts opened, checked and described; sizes for people."""

from __future__ import annotations

import os

import pytest

from tests.artifacts.made import flip, write
from xmc import artifacts
from xmc.artifacts import (
    describe,
    find_faults,
    need_space,
    open_artifact,
    size_text,
)
from xmc.errors import ArtifactError, ResourceError


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
