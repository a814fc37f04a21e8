"""What ``xmc inspect`` prints about an artifact."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from xmc.artifacts.manifest import MANIFEST, command, read_bytes, rebuild_hint
from xmc.artifacts.reader import find_faults, read_manifest, unlisted
from xmc.artifacts.space import size_text
from xmc.artifacts.staging import Staging, settle
from xmc.errors import ArtifactError


def describe(path: Path, verify: bool = False) -> list[str]:
    """The lines that tell what the artifact at ``path`` holds, and each fault of a damaged one.

    Args:
        path: the artifact, damaged or not.
        verify: read and check the content of every file.

    Raises:
        ArtifactError: there is no artifact at all.
        ResourceError: it cannot be read.
    """
    path = Path(path)
    settle(path)
    try:
        raw = read_bytes(path)
    except ArtifactError:
        if not os.path.lexists(path / MANIFEST):
            raise
        raw = b""  # a manifest that is not even read is one of the faults
    faults = find_faults(path, verify)
    try:
        content: dict[str, Any] = read_manifest(path)
    except ArtifactError:
        lines = [f"{path}: damaged artifact"]
    else:
        lines = _contents(path, content)
    return lines + _verdict(faults, command(raw), verify) + _leftovers(path)


def _contents(path: Path, content: dict[str, Any]) -> list[str]:
    files = content["files"]
    total = sum(entry["size"] for entry in files.values())
    versions = ", ".join(f"{name} {version}" for name, version in sorted(content["versions"].items()))
    lines = [
        f"{path}: {content['kind']} artifact, schema {content['schema']}",
        f"  id: {content['checksum']}",
    ]
    if content["built_by"]:
        lines.append(f"  built by: {content['built_by']}")
    lines.append(f"  versions: {versions}")
    lines += [f"  built from: {role} {parent}" for role, parent in sorted(content["parents"].items())]
    lines += [
        f"  setting: {_printable(name)} = {json.dumps(value)}"
        for name, value in sorted(content["settings"].items())
    ]
    lines.append(f"  files: {len(files)}, {size_text(total)}")
    lines += [f"    {name}  {size_text(entry['size'])}" for name, entry in sorted(files.items())]
    others = [f"    not part of it, ignored: {_printable(name)}" for name in unlisted(path, files)]
    return lines + others


def _verdict(faults: list[str], built_by: str, verify: bool) -> list[str]:
    if faults:
        return [f"  FAULT: {fault}" for fault in faults] + [f"  {rebuild_hint(built_by)}"]
    checked = "sizes and content" if verify else "sizes"
    return [f"  {checked} as {MANIFEST} states"]


def _leftovers(path: Path) -> list[str]:
    """A note about an unfinished write, which the next write removes."""
    root = Staging(path).root
    return [f"  an unfinished or running write lies in {root}"] if root.exists() else []


def _printable(name: str) -> str:
    return name if name.isprintable() else ascii(name)
