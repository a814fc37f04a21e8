"""What a user names into files: patterns (``docs/*.jsonl``) and folders of document files."""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from xmc.data.detect import DOCUMENT_FORMATS, Format, Probe, document_format, folder_format, known_suffix
from xmc.data.files import is_stdin
from xmc.data.folders import Folder
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError

NOT_READ = "files in folders had no suffix of a document format and were not read"
TWICE = "files were given twice and read once"


class Given(NamedTuple):
    """A path that was given, or that a pattern matched.

    number: of the argument, from 0.
    parts: the files, and the folders of a format of their own, that are read of it.
    """

    number: int
    path: Path
    parts: Sequence[Path]


def given(arguments: Sequence[str | Path], options: ReadOptions, report: ReadReport) -> list[Given]:
    """What is read of each argument; a file that stands behind several is read as the first one's.

    Raises: InputError for a pattern that matches nothing and a folder without a document file.
    """
    real = _RealNames()
    matches = [
        (n, path, path != Path(each)) for n, each in enumerate(arguments) for path in _matching(each, real)
    ]
    folders = {real(path) for _, path, _ in matches if path.is_dir()}
    seen: set[str] = set()
    found = []
    for number, path, by_pattern in matches:
        if by_pattern and real.is_below(path, folders):
            continue  # its folder is read
        parts = []
        for part in parts_of(path, options, report):
            if real(part) in seen:
                report.count(TWICE, str(part))
            else:
                parts.append(part)
                seen.add(real(part))
        if parts:
            found.append(Given(number, path, parts))
    return found


class _RealNames:
    """Names of files and folders without links, each folder looked up once."""

    def __init__(self) -> None:
        self._folders: dict[Path, str] = {}

    def __call__(self, path: Path) -> str:
        """The name of a file or folder; "-" stays."""
        if is_stdin(path):
            return str(path)
        if path.is_symlink() or path.name in ("", ".."):
            return os.path.realpath(path)
        if path.parent not in self._folders:
            self._folders[path.parent] = os.path.realpath(path.parent)
        return os.path.join(self._folders[path.parent], path.name)

    def is_below(self, path: Path, folders: set[str]) -> bool:
        """Whether a path lies in one of the folders, at any depth."""
        return bool(folders) and not folders.isdisjoint(map(str, Path(self(path)).parents))


def is_pattern(path: str | Path) -> bool:
    """Whether a path that was given stands for what matches it: it has wildcards and no file has its name."""
    return not is_stdin(path) and glob.has_magic(str(path)) and not os.path.lexists(path)


def _matching(path: str | Path, real: _RealNames) -> list[Path]:
    """The path itself, or, where it is a pattern, what matches, in order of names.

    ``**`` stands for folders of any depth. What links lead to a second time is given once, under its shortest
    name. Raises: InputError where nothing matches.
    """
    if not is_pattern(path):
        return [Path(path)]
    names = sorted(glob.glob(str(path), recursive=True), key=lambda name: (len(name), name))
    if not names:
        raise InputError(f"{path}: no file matches this pattern")
    found = {real(Path(name)): name for name in reversed(names)}
    return [Path(name) for name in sorted(found.values())]


def would_match(pattern: str | Path, path: Path) -> bool:
    """Whether a pattern matches a path, or a folder that it lies in, once there is a file of that name."""
    wanted = _absolute(str(pattern)).parts[1:]
    found = Path(os.path.realpath(path)).parts[1:]
    return any(_parts_match(wanted, found[:n]) for n in range(1, len(found) + 1))


def _absolute(pattern: str) -> Path:
    """A pattern without links in what stands before its first wildcard."""
    parts = Path(os.path.abspath(pattern)).parts
    n = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return Path(os.path.realpath(Path(*parts[:n])), *parts[n:])


def _parts_match(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """As `glob` matches the names of a path one by one; names with a dot need one in the pattern."""
    if not pattern:
        return not names
    hidden = bool(names) and names[0].startswith(".")
    if pattern[0] == "**":
        deeper = bool(names) and not hidden and _parts_match(pattern, names[1:])
        return deeper or _parts_match(pattern[1:], names)
    fits = bool(names) and fnmatch.fnmatchcase(names[0], pattern[0])
    return fits and (not hidden or pattern[0].startswith(".")) and _parts_match(pattern[1:], names[1:])


def parts_of(path: Path, options: ReadOptions, report: ReadReport) -> list[Path]:
    """The path itself; for a folder that has no format of its own, the document files in it and below.

    They stand in the order of their names. Names that begin with a dot or an underscore are passed over, as
    are links to folders; other files that are not read are counted in ``report``.

    Raises: InputError for a folder without a document file.
    """
    folder = Probe(path, options).folder
    if folder is None:
        return [path]
    found = list(_within(folder, options, report))
    if not found:
        wanted = ", ".join(dict.fromkeys(s for f in DOCUMENT_FORMATS for s in f.suffixes))
        held = f"holds {', '.join(folder.names[:3])}" if folder.names else "is empty"
        raise InputError(f"{path}: the folder {held}; wanted files of documents ({wanted})")
    return found


def _within(folder: Folder, options: ReadOptions, report: ReadReport) -> Iterator[Path]:
    own = folder_format(folder, options)
    if own is not None:
        _count_others(folder, own, options, report)
        yield folder.path
        return
    for name in folder.names:
        path = folder.path / name
        if name in folder.folders:
            yield from _within(folder.folders[name], options, report)
        elif known_suffix(name):
            yield path
        else:
            report.count(NOT_READ, str(path))


def _count_others(folder: Folder, own: Format, options: ReadOptions, report: ReadReport) -> None:
    """Count what lies beside and below the files of a folder's own format."""
    read = own.load().folder_files(folder, options)
    for each in folder.walk():
        for name in each.files:
            if each is not folder or name not in read:
                report.count(f"files in folders read as {own.name} were not read", str(each.path / name))


def formats_of(parts: Sequence[Path], options: ReadOptions, lenient: bool) -> list[Format | InputError]:
    """The format of each path; ``lenient``: where there are several, what is wrong with one is its entry.

    Raises: InputError for the first that has none, if not ``lenient`` or no other has one.
    """
    found: list[Format | InputError] = []
    for path in parts:
        try:
            found.append(document_format(path, options))
        except InputError as error:
            if not lenient or len(parts) == 1:
                raise
            found.append(error)
    if found and all(isinstance(each, InputError) for each in found):
        raise next(each for each in found if isinstance(each, InputError))
    return found
