"""Sparse files of the Extreme Classification Repository: documents as rows of given features.

The first line is ``n_docs n_features n_labels``, every further one a document ``l1,l2 f:v f:v``; a line that
begins with a blank has no labels. Labels and features count from 0. Data sets of the repository's first years
come as one ``x_data.txt`` with ``x_trSplit.txt`` and ``x_tstSplit.txt``, whose columns are splits and hold
line numbers of documents, from 1: give a split file as the path to read its first split's documents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmc.data import files, label_names
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch, Label
from xmc.data.sparse_text import SparseLines, TokenError, parse_lines
from xmc.data.text import shorten
from xmc.errors import InputError, place

BLOCK = 1 << 22
# More features and labels than any file has; a header beyond them is damaged and must not reserve memory.
MAX_FEATURES, MAX_LABELS = 1 << 31, 100_000_000
_SPLIT = re.compile(r"(?P<stem>.*?)_?(tr|trn|train|tst|test|val)_?split\.txt(\.gz|\.zst)?", re.IGNORECASE)
_NAME_FILES = ("lbl.json", "lbl.json.gz", "lbl.txt", "Y.txt", "labels.txt")


@dataclass(frozen=True)
class Header:
    """What the first line says."""

    n_docs: int
    n_features: int
    n_labels: int


@dataclass(frozen=True)
class _Rows:
    """Some documents: features (n, n_features), labels of each, and their numbers (n,) from 1."""

    features: csr_matrix
    labels: list[list[str]]
    numbers: np.ndarray

    def __len__(self) -> int:
        return len(self.numbers)

    def cut(self, start: int, stop: int) -> _Rows:
        return _Rows(self.features[start:stop], self.labels[start:stop], self.numbers[start:stop])

    def where(self, wanted: np.ndarray) -> _Rows:
        keep = np.flatnonzero(np.isin(self.numbers, wanted))
        return _Rows(self.features[keep], [self.labels[i] for i in keep], self.numbers[keep])

    def joined(self, other: _Rows) -> _Rows:
        both = vstack([self.features, other.features], format="csr")
        return _Rows(both, self.labels + other.labels, np.concatenate([self.numbers, other.numbers]))


def read_batches(path: Path, size: int, options: ReadOptions, report: ReadReport) -> Iterator[DocumentBatch]:
    """Batches of ``size`` documents with features (n_docs, n_features) float32, in the file's order.

    Raises InputError naming the line and token, or both counts where the header promises another number.
    """
    data, wanted = _data_of(path, report)
    parts = _read_rows(data) if wanted is None else (rows.where(wanted) for rows in _read_rows(data))
    for rows in _rebatched(parts, size):
        places = [place(data, int(number) + 1) for number in rows.numbers]
        # A document of a split keeps its number in the whole file as its id.
        ids = [""] * len(rows) if wanted is None else [str(number) for number in rows.numbers]
        yield DocumentBatch(ids, None, rows.features, rows.labels, places)


def read_labels(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Label]:
    """The labels "0" to "n-1" of the header, with texts where a file of names lies beside it."""
    data, _ = _data_of(path, ReadReport())
    with files.open_bytes(data) as stream:
        n_labels = _read_header(stream, data).n_labels
    yield from label_names.numbered_labels(data, n_labels, _NAME_FILES, options, report)


# --- the file


def _read_header(stream: BinaryIO, path: Path) -> Header:
    line = stream.readline(4096).removeprefix(b"\xef\xbb\xbf").decode("latin-1").strip()
    numbers = line.split()
    if len(numbers) != 3 or not all(n.isascii() and n.isdigit() for n in numbers):
        found = f"the header is {shorten(line)!r}"
        raise InputError(f"{place(path, 1)}: {found}; wanted three numbers `documents features labels`")
    header = Header(*(int(n) for n in numbers))
    if header.n_features > MAX_FEATURES or header.n_labels > MAX_LABELS:
        found = f"the header is {shorten(line)!r}"
        raise InputError(
            f"{place(path, 1)}: {found}; wanted at most {MAX_FEATURES} features and {MAX_LABELS} labels"
        )
    return header


def _read_rows(path: Path) -> Iterator[_Rows]:
    with files.open_bytes(path) as stream:
        header = _read_header(stream, path)
        first = 1
        for block in _promised(stream, path, header):
            rows = _rows_of(_parse(block, path, first + 1), first, header, path)
            first += len(rows)
            yield rows


def _promised(stream: BinaryIO, path: Path, header: Header) -> Iterator[bytes]:
    """Blocks of the lines that the header promises; only empty lines may follow them."""
    n_read = n_more = 0
    for block in _blocks(stream, path):
        wanted = block[: _end_of_line(block, header.n_docs - n_read)]
        n_read += _n_lines(wanted)
        n_more += sum(1 for line in block[len(wanted) :].split(b"\n") if line.strip())
        if wanted:
            yield wanted
    if n_more or n_read < header.n_docs:
        found = f"the header says {header.n_docs} documents, {n_read + n_more} are present"
        raise InputError(f"{path}: {found}; complete the file or correct the header")


def _n_lines(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n") and bool(block))


def _end_of_line(block: bytes, n: int) -> int:
    """Where the first ``n`` lines of a block end."""
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
    return len(block) if n > len(ends) else int(ends[n - 1]) + 1 if n else 0


def _blocks(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    """Whole lines, some megabytes at a time."""
    held: list[bytes] = []
    while chunk := stream.read(BLOCK):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, chunk[:cut]])
            held = []
        held.append(chunk[cut:])
        if len(held) * BLOCK > files.MAX_LINE:
            raise InputError(f"{path}: a line of more than {files.MAX_LINE} bytes; lines of text were wanted")
    if any(held):
        yield b"".join(held)


def _parse(block: bytes, path: Path, first_line: int) -> SparseLines:
    try:
        return parse_lines(block)
    except TokenError as error:
        raise _bad(path, first_line + error.line, repr(error.token), error.problem) from None


def _bad(path: Path, line: int, token: str, problem: str) -> InputError:
    return InputError(
        f"{place(path, line)}: {token} {problem}; wanted a line `label,label index:value index:value`"
    )


def _rows_of(lines: SparseLines, first: int, header: Header, path: Path) -> _Rows:
    """Documents ``first`` (from 1) and following, every number checked against the header."""
    at = first + 1  # the header is line 1
    _check_range(lines.labels, lines.label_lines, header.n_labels, "label", path, at)
    _check_range(lines.features, lines.feature_lines, header.n_features, "feature", path, at)
    values = _finite(lines, path, at)
    indptr = _offsets(lines.feature_lines, lines.n_lines)
    features = csr_matrix((values, lines.features, indptr), shape=(lines.n_lines, header.n_features))
    features.sort_indices()
    _refuse_repeats(features, path, at)
    labels = _split(list(map(str, lines.labels.tolist())), _offsets(lines.label_lines, lines.n_lines))
    return _Rows(features, labels, np.arange(first, first + lines.n_lines))


def _check_range(
    numbers: np.ndarray, lines: np.ndarray, n: int, what: str, path: Path, first_line: int
) -> None:
    bad = np.flatnonzero((numbers < 0) | (numbers >= n))
    if len(bad):
        where = place(path, first_line + int(lines[bad[0]]))
        wanted = f"wanted 0 to {n - 1}" if n else "wanted none"
        raise InputError(f"{where}: {what} {numbers[bad[0]]}, but the header says {n} {what}s; {wanted}")


def _finite(lines: SparseLines, path: Path, first_line: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        values = lines.values.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        token = f"{lines.features[bad[0]]}:{lines.values[bad[0]]}"
        line = first_line + int(lines.feature_lines[bad[0]])
        raise _bad(path, line, f"'{token}'", "is no finite 32-bit number")
    return values


def _refuse_repeats(features: csr_matrix, path: Path, first_line: int) -> None:
    same = np.flatnonzero(np.diff(features.indices) == 0) + 1
    same = same[~np.isin(same, features.indptr)]
    if len(same):
        row = int(np.searchsorted(features.indptr, same[0], side="right")) - 1
        where = place(path, first_line + row)
        raise InputError(f"{where}: feature index {features.indices[same[0]]} twice in a line; wanted once")


def _offsets(lines: np.ndarray, n_lines: int) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(np.bincount(lines, minlength=n_lines))))


def _split(values: list[str], offsets: np.ndarray) -> list[list[str]]:
    ends = offsets.tolist()
    return [values[a:b] for a, b in pairwise(ends)]


def _rebatched(parts: Iterator[_Rows], size: int) -> Iterator[_Rows]:
    """The same documents in parts of ``size``, of which only the last may be smaller."""
    rest: _Rows | None = None
    for part in parts:
        rows = part if rest is None or not len(rest) else rest.joined(part)
        full = len(rows) - len(rows) % size
        yield from (rows.cut(start, start + size) for start in range(0, full, size))
        rest = rows.cut(full, len(rows))
    if rest is not None and len(rest):
        yield rest


# --- split files


def is_split_file(path: Path) -> bool:
    """Whether a name is that of a split file (``delicious_trSplit.txt``, ``tst_split.txt``)."""
    return _SPLIT.fullmatch(path.name) is not None


def read_split(path: Path, report: ReadReport) -> np.ndarray:
    """Numbers (n,) of the documents in a split file's first split, from 1, ascending."""
    numbers, n_columns = _split_numbers(path)
    if n_columns > 1:
        report.count(
            "split files have more than one split; the first was read", f"{path}: {n_columns} splits"
        )
    return np.unique(numbers)


def _split_numbers(path: Path) -> tuple[np.ndarray, int]:
    numbers, n_columns = [], 0
    for line, text in files.text_lines(path, ReadOptions()):
        tokens = text.split()
        if not tokens:
            continue
        if not (tokens[0].isascii() and tokens[0].isdigit() and int(tokens[0]) > 0):
            raise InputError(
                f"{place(path, line)}: {shorten(tokens[0])!r} is not the number of a document, from 1"
            )
        numbers.append(int(tokens[0]))
        n_columns = max(n_columns, len(tokens))
    return np.array(numbers, dtype=np.int64), n_columns


def _data_of(path: Path, report: ReadReport) -> tuple[Path, np.ndarray | None]:
    """The data file and, where ``path`` is a split file, the numbers of the wanted documents."""
    if not is_split_file(path):
        return path, None
    data = _data_beside(path)
    wanted = read_split(path, report)
    with files.open_bytes(data) as stream:
        n_docs = _read_header(stream, data).n_docs
    if len(wanted) and wanted[-1] > n_docs:
        raise InputError(f"{path}: document {wanted[-1]} is wanted, but {data} has {n_docs} documents")
    return data, wanted


def _data_beside(path: Path) -> Path:
    stem = _SPLIT.fullmatch(path.name)["stem"].lower()  # type: ignore[index]
    names = [f"{stem}{middle}.txt{end}" for middle in ("_data", "") for end in ("", ".gz", ".zst") if stem]
    names += [f"data.txt{end}" for end in ("", ".gz", ".zst")]
    beside = {p.name.lower(): p for p in sorted(path.parent.iterdir())}
    found = next((beside[name] for name in names if name in beside), None)
    if found is None:
        raise InputError(f"{path}: a split of which data? wanted {names[0]} in the same folder")
    return found
