"""The document files of a run, and checksums by which a run knows them again.

They are those that the corpus fixed when it was opened: what lands in a folder later is not read, and so no
part of the checksum either.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xmc.data.paths import Given
from xmc.errors import InputError

_CHUNK = 1 << 20
# Path, size and time of change (ns) of a file.
FileTime = tuple[str, int, int]


@dataclass(frozen=True)
class Input:
    """One document file or folder: its path, bytes in all its files, and a checksum of them.

    ``sha256`` is "" for a pipe, which cannot be read twice to compare it.
    """

    path: str
    size: int
    sha256: str

    @property
    def is_pipe(self) -> bool:
        """Whether nothing can tell if the same documents come out of it again."""
        return not self.sha256


def read_inputs(given: Sequence[Given]) -> list[Input]:
    """The checksum of what is read of each path; reads every file once. Raises: InputError if it cannot."""
    return [_read_input(each) for each in given]


def _read_input(given: Given) -> Input:
    if is_pipe(given.path):
        return Input(str(given.path), 0, "")
    digest, size = hashlib.sha256(), 0
    for file in _files(given):
        # A folder's checksum also covers the names in it; a single file may be moved or renamed.
        name = b"" if file == given.path else os.fsencode(file.relative_to(given.path)) + b"\0"
        digest.update(name)
        try:
            size += _digest_file(file, digest)
        except OSError as error:
            raise InputError(f"{file}: {error.strerror or error}") from None
    return Input(str(given.path), size, digest.hexdigest())


def _digest_file(path: Path, digest: Any) -> int:
    """Add a file's length and bytes to ``digest``; returns its length."""
    size = path.stat().st_size
    digest.update(f"{size}\0".encode())
    with path.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
    return size


def _files(given: Given) -> Iterator[Path]:
    """The files that are read, and all files of the folders that are, in the order of their names."""
    for part in given.parts:
        yield from sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]


def is_pipe(path: Path) -> bool:
    """Standard input (``-``), a named pipe or a device: anything that is no file or folder."""
    if str(path) == "-":
        return True
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; wanted a file or folder of documents") from None
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def times(given: Sequence[Given]) -> list[FileTime]:
    """Size and time of change of every file: a cheap look whether one changed while it was read.

    Raises: InputError where one is gone.
    """
    return [_time(file) for each in given if not is_pipe(each.path) for file in _files(each)]


def _time(path: Path) -> FileTime:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; wanted all files until they are read") from None
    return str(path), status.st_size, status.st_mtime_ns


def mask_digest(allowed: np.ndarray | None) -> str | None:
    """One text for a (n_labels,) bool mask, such as ``12 of 7201 (5feceb66ffc8)``; None for no mask."""
    if allowed is None:
        return None
    allowed = np.asarray(allowed, dtype=bool)
    digest = hashlib.sha256(np.packbits(allowed).tobytes()).hexdigest()
    return f"{int(allowed.sum())} of {len(allowed)} ({digest[:12]})"
