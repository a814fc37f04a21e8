"""Cut files, and manifests that are damaged or hostile."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from tests.cases.artifacts.made import FILES, snapshot, write
from xmc.artifacts import (
    describe,
    find_faults,
    jsonfile,
    manifest,
    open_artifact,
)
from xmc.errors import ArtifactError, InputError

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
