"""Artifacts written, replaced and kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.artifacts.made import beside, write
from xmc.artifacts import (
    ArtifactWriter,
    is_artifact,
    load_array,
    load_csr,
    load_json,
    load_tensors,
    open_artifact,
    save_json,
)
from xmc.errors import ArtifactError, InputError


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
