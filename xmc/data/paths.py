"""What a user names into files: patterns (``docs/*.jsonl``) and folders of document files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from xmc.data.detect import DOCUMENT_FORMATS, Format, Probe, document_format, known_suffix
from xmc.data.files import is_stdin
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError

NOT_READ = "files in folders had no suffix of a document format and were not read"


def matching(path: str | Path) -> list[Path]:
    """The path itself, or, where it is a pattern and no file has that name, what matches, in order of names.

    ``**`` stands for folders of any depth. Raises: InputError where nothing matches.
    """
    if is_stdin(path) or not glob.has_magic(str(path)) or os.path.lexists(path):
        return [Path(path)]
    found = sorted(glob.glob(str(path), recursive=True))
    if not found:
        raise InputError(f"{path}: no file matches this pattern")
    return [Path(each) for each in found]


def parts_of(path: Path, options: ReadOptions, report: ReadReport) -> list[Path]:
    """The path itself; for a folder that has no format of its own, the document files in it and below.

    They stand in the order of their names. Names that begin with a dot or an underscore are passed over, as
    are links to folders; files whose suffix is no format's are counted in ``report``.

    Raises: InputError for a folder without a document file.
    """
    probe = Probe(path, options)
    if not probe.is_dir or folder_format(probe) is not None:
        return [path]
    found = list(_within(path, options, report))
    if not found:
        wanted = ", ".join(dict.fromkeys(s for f in DOCUMENT_FORMATS for s in f.suffixes))
        held = f"holds {', '.join(probe.entries[:3])}" if probe.entries else "is empty"
        raise InputError(f"{path}: the folder {held}; wanted files of documents ({wanted})")
    return found


def folder_format(probe: Probe) -> Format | None:
    """The format that a folder as a whole has, if any."""
    return next((f for f in DOCUMENT_FORMATS if f.told_by(probe)), None)


def _within(folder: Path, options: ReadOptions, report: ReadReport) -> Iterator[Path]:
    for entry in _entries(folder):
        path = folder / entry.name
        if entry.name.startswith((".", "_")):
            continue
        if entry.is_dir():
            if not entry.is_symlink():
                probe = Probe(path, options)
                yield from [path] if folder_format(probe) else _within(path, options, report)
        elif known_suffix(path):
            yield path
        else:
            report.count(NOT_READ, str(path))


def _entries(folder: Path) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from None


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
