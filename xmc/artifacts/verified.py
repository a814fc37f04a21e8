"""Which artifacts had their content checked already: a small file for each, in the user's cache directory.

What is remembered is a fingerprint of the manifest and of every file's size, time and inode. It only saves
time: a cache that is missing or cannot be written means that content is checked at every load.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def fingerprint(path: Path, manifest: dict[str, Any]) -> str:
    """What changes when the artifact at ``path`` is touched; "" when a file is gone."""
    try:
        stats = [(name, os.lstat(path / name)) for name in sorted(manifest["files"])]
    except OSError:
        return ""
    seen = [(name, s.st_size, s.st_mtime_ns, s.st_ino, s.st_dev) for name, s in stats]
    return hashlib.sha256(json.dumps([manifest["checksum"], seen]).encode()).hexdigest()


def is_known(path: Path, seen: str) -> bool:
    """Whether the content behind this fingerprint was checked before."""
    note = _note(path)
    if note is None or not seen:
        return False
    try:
        return note.read_text(encoding="ascii") == seen
    except (OSError, UnicodeDecodeError):
        return False


def remember(path: Path, seen: str) -> None:
    """Note that the content behind this fingerprint, taken before the check, is right."""
    note = _note(path)
    if note is None or not seen:
        return
    with contextlib.suppress(OSError):
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=note.parent)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(seen)
            os.replace(name, note)
        except OSError:
            os.unlink(name)


def _note(path: Path) -> Path | None:
    """The file for the artifact at ``path``; None where the user has no cache directory."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):  # as the XDG specification asks
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        cache = os.path.join(home, ".cache")
    key = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:32]
    return Path(cache) / "xmc" / "verified" / key
