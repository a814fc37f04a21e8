"""The manifest of an artifact: its form, and what is refused in one.

A manifest has exactly one spelling and holds a checksum of itself, so that a changed byte is noticed. It
starts with a fixed mark, the command that built the artifact, and its own length: these can be read from a
manifest that was cut.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xmc.artifacts import jsonfile
from xmc.errors import ArtifactError, ResourceError, XmcError

SCHEMA = 1
MANIFEST = "manifest.json"
MAX_BYTES = 16 * 2**20
MAX_FILES = 10_000
MAX_NAME = 1024

# Kinds whose command is not named by their writer.
_COMMANDS = {"model": "xmc index", "run": "xmc tag"}
_START = re.compile(rb'\{\n "artifact": "xmc",\n "built_by": "(xmc [a-z]{1,20})?",\n "bytes": "(\d{10})"')
_TYPES: dict[str, type] = {
    "artifact": str,
    "built_by": str,
    "bytes": str,
    "checksum": str,
    "files": dict,
    "kind": str,
    "parents": dict,
    "schema": int,
    "settings": dict,
    "versions": dict,
}


def compose(
    kind: str,
    parents: Mapping[str, str],
    settings: Mapping[str, Any],
    files: Mapping[str, Mapping[str, Any]],
    built_by: str = "",
) -> dict[str, Any]:
    """A manifest for ``files`` (name to ``size`` and ``sha256``), with its checksum."""
    content = {
        "artifact": "xmc",
        "built_by": built_by or _COMMANDS.get(kind, ""),
        "files": {name: dict(entry) for name, entry in files.items()},
        "kind": kind,
        "parents": dict(parents),
        "schema": SCHEMA,
        "settings": dict(settings),
        "versions": versions(),
        # Both have a fixed width, so that the length is known before they are.
        "bytes": "0" * 10,
        "checksum": "0" * 64,
    }
    content["bytes"] = f"{len(jsonfile.encode(content)):010d}"
    return content | {"checksum": checksum(content)}


def versions() -> dict[str, str]:
    """The versions that can change what a build gives."""
    from importlib.metadata import PackageNotFoundError, version

    from xmc import __version__

    found = {"xmc": __version__, "python": platform.python_version()}
    for package in ("numpy", "torch"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


def checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of a manifest's content, its own checksum left out: the artifact's identity."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return hashlib.sha256(jsonfile.encode(rest)).hexdigest()


def read_bytes(directory: Path) -> bytes:
    """The manifest's bytes.

    Raises:
        ArtifactError: there is no directory or no manifest, or it is not a plain file of sensible size.
        ResourceError: it cannot be read.
    """
    path = Path(directory) / MANIFEST
    try:
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise ArtifactError(f"{path}: not a regular file")
        if found.st_size > MAX_BYTES:
            raise ArtifactError(f"{path}: {found.st_size} bytes, more than the {MAX_BYTES} of any manifest")
        return path.read_bytes()
    except FileNotFoundError:
        what = "not an artifact: it has no manifest.json" if path.parent.exists() else "no such artifact"
        raise ArtifactError(f"{directory}: {what}") from None
    except NotADirectoryError:
        raise ArtifactError(f"{directory}: not an artifact: an artifact is a directory") from None
    except OSError as error:
        raise ResourceError(f"{path}: cannot be read ({error.strerror})") from error


def parse(raw: bytes, where: object) -> dict[str, Any]:
    """The checked manifest that ``raw`` spells.

    Raises:
        ArtifactError: it is cut, of a newer schema, wrongly typed, edited, or names a file that must not be.
    """
    start = _START.match(raw)
    if start and int(start[2]) != len(raw):
        raise ArtifactError(f"{where}: expected {int(start[2])} bytes, found {len(raw)}")
    content = jsonfile.decode(raw, where)
    if not isinstance(content, dict) or content.get("artifact") != "xmc":
        raise ArtifactError(f"{where}: not a manifest that xmc wrote")
    _check_schema(content.get("schema"), where)
    for key, kind in _TYPES.items():
        if type(content.get(key)) is not kind:
            raise ArtifactError(
                f"{where}: {key!r} should be of type {kind.__name__}: {_clip(content.get(key))}"
            )
    _check_fields(content, where)
    _check_files(content["files"], where)
    _check_spelling(content, raw, where)
    return content


def _check_schema(schema: object, where: object) -> None:
    if type(schema) is not int or schema < 1:
        raise ArtifactError(f"{where}: schema version {_clip(schema)} is not a version")
    if schema > SCHEMA:
        raise ArtifactError(
            f"{where}: schema version {_clip(schema)}, this xmc reads up to {SCHEMA}; install a newer xmc"
        )


def _check_fields(content: dict[str, Any], where: object) -> None:
    unknown = sorted(content.keys() - _TYPES.keys())
    if unknown:
        raise ArtifactError(f"{where}: unknown entry {_clip(unknown[0])}")
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", content["kind"]):
        raise ArtifactError(f"{where}: {_clip(content['kind'])} is not a kind of artifact")
    if not re.fullmatch(r"(xmc [a-z]{1,20})?", content["built_by"]):
        raise ArtifactError(f"{where}: {_clip(content['built_by'])} is not an xmc command")
    for field in ("parents", "versions"):
        for key, value in content[field].items():
            if not (isinstance(value, str) and len(key + value) <= 1000 and (key + value).isprintable()):
                raise ArtifactError(f"{where}: {field}: {_clip(key)}: {_clip(value)} is not a short text")


def _check_files(files: dict[str, Any], where: object) -> None:
    if len(files) > MAX_FILES:
        raise ArtifactError(f"{where}: names {len(files)} files, more than the {MAX_FILES} of any artifact")
    for name, entry in files.items():
        fault = name_fault(name)
        if fault:
            raise ArtifactError(f"{where}: file name {_clip(name)} is refused: {fault}")
        if not isinstance(entry, dict) or entry.keys() != {"size", "sha256"}:
            raise ArtifactError(f"{where}: {name}: expected size and sha256, found {_clip(entry)}")
        if type(entry["size"]) is not int or not 0 <= entry["size"] < 2**63:
            raise ArtifactError(f"{where}: {name}: {_clip(entry['size'])} is not a size in bytes")
        if not (isinstance(entry["sha256"], str) and re.fullmatch("[0-9a-f]{64}", entry["sha256"])):
            raise ArtifactError(f"{where}: {name}: {_clip(entry['sha256'])} is not a SHA-256 checksum")


def _check_spelling(content: dict[str, Any], raw: bytes, where: object) -> None:
    """The checksum covers the values; comparing the bytes covers their spelling too."""
    try:
        expected, spelled = checksum(content), jsonfile.encode(content)
    except (ValueError, RecursionError):
        raise ArtifactError(f"{where}: holds a value that no manifest can hold") from None
    if content["checksum"] != expected:
        found = _clip(content["checksum"], 14)
        raise ArtifactError(
            f"{where}: edited or damaged: states checksum {found}, its content has {expected[:12]}"
        )
    if raw != spelled:
        raise ArtifactError(f"{where}: edited or damaged: its content is not in the form that xmc writes")


def name_fault(name: str) -> str:
    """Why ``name`` may not stand in a manifest, or "" where it may.

    A name is a relative path with ``/`` between its parts, and stays inside the artifact's directory on every
    system.
    """
    parts = name.split("/")
    if not name or len(name) > MAX_NAME:
        return f"a name has 1 to {MAX_NAME} characters"
    if not name.isprintable():
        return "it holds a control character"
    if "\\" in name or re.match("[A-Za-z]:", name):
        return "it could lead outside the artifact"
    if any(part in ("", ".", "..") for part in parts):
        return "it could lead outside the artifact"
    if any(len(part.encode()) > 255 for part in parts):
        return "a part of it is longer than 255 bytes"
    return "it is the manifest's own" if name == MANIFEST else ""


def is_marked(directory: Path) -> bool:
    """Whether ``directory`` has a manifest that starts as only xmc's do, whatever follows."""
    try:
        return _START.match(read_bytes(directory)) is not None
    except XmcError:
        return False


def command(raw: bytes) -> str:
    """The command that built an artifact, from a manifest that may be cut; "" if it does not tell."""
    start = _START.match(raw)
    return start[1].decode() if start and start[1] else ""


def rebuild_hint(built_by: str, kind: str = "") -> str:
    """The way out of a damaged artifact: ``built_by`` again, else what builds a ``kind``."""
    built_by = built_by or _COMMANDS.get(kind, "")
    return f"rebuild it with `{built_by}`" if built_by else "rebuild it with the command that built it"


def _clip(value: object, n: int = 60) -> str:
    """A value from a manifest, safe and short enough for a message."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    text = ascii(value)
    return text if len(text) <= n else text[: n - 1] + "…"
