"""Texts of labels that a format only numbers, from a file of names beside the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from xmc.data import files
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Label
from xmc.errors import place


def numbered_labels(
    data: Path, n_labels: int, names: Sequence[str], options: ReadOptions, report: ReadReport
) -> Iterator[Label]:
    """Labels "0" to "n-1"; line ``i`` of the first of ``names`` beside ``data`` is the text of label ``i-1``.

    Without such a file the texts are empty. One with another number of lines is left out and counted.
    """
    found = None if files.is_stdin(data) else _first_beside(data, names)
    texts = [] if found is None else _texts(found, options)
    if found is not None and len(texts) != n_labels:
        what = "files of label names have another number of lines than there are labels: not used"
        report.count(what, f"{found}: {len(texts)} lines, {n_labels} labels")
        found = None
    for row in range(n_labels):
        yield (
            Label(str(row), texts[row], place=place(found, row + 1))
            if found
            else Label(str(row), "", place=f"{data}")
        )


def _first_beside(data: Path, names: Sequence[str]) -> Path | None:
    folder = data if data.is_dir() else data.parent
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _texts(path: Path, options: ReadOptions) -> list[str]:
    if ".json" in path.suffixes:
        from xmc.data import xmc_raw

        return [label.text for label in xmc_raw.read_labels(path, options, ReadReport())]
    return [line.strip() for _, line in files.text_lines(path, options)]
