"""Lines ``l1,l2 f:v f:v`` into arrays, a block of lines at a time and without a Python loop.

The bytes of a block are split into tokens by array operations: what stands before and behind a token
(blank, comma, colon, line end) says whether it is a label, a feature's index or a feature's value. The
numbers themselves are read by Arrow's compiled casts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_OTHER, _BLANK, _NEWLINE, _COMMA, _COLON = range(5)
_CLASS = np.zeros(256, dtype=np.uint8)
for _chars, _kind in ((b" \t\r", _BLANK), (b"\n", _NEWLINE), (b",", _COMMA), (b":", _COLON)):
    for _char in _chars:
        _CLASS[_char] = _kind


class TokenError(ValueError):
    """A token that cannot be read; ``line`` counts from 0 within the block."""

    def __init__(self, line: int, token: str, problem: str) -> None:
        super().__init__(f"{token!r} {problem}")
        self.line, self.token, self.problem = line, token, problem


@dataclass(frozen=True)
class SparseLines:
    """Labels and features of ``n_lines`` lines as coordinates: (n_labels_given,) and (n_features_given,)."""

    n_lines: int
    label_lines: np.ndarray
    labels: np.ndarray
    feature_lines: np.ndarray
    features: np.ndarray
    values: np.ndarray


class _Tokens:
    """Start, end and line of every token of a block, and the kind of byte before and behind it."""

    def __init__(self, block: bytes) -> None:
        self.block = block
        padded = np.full(len(block) + 2, _NEWLINE, dtype=np.uint8)
        kinds = padded[1:-1]
        np.take(_CLASS, np.frombuffer(block, dtype=np.uint8), out=kinds, mode="clip")
        self.is_text = kinds == _OTHER
        edges = np.flatnonzero(np.diff(self.is_text, prepend=False, append=False))
        self.starts, self.ends = edges[0::2], edges[1::2]
        self.before, self.after = padded[self.starts], padded[self.ends + 1]
        self.newlines = np.flatnonzero(kinds == _NEWLINE)
        per_line = np.diff(np.searchsorted(self.starts, self.newlines), prepend=0, append=len(self.starts))
        self.lines = np.repeat(np.arange(len(self.newlines) + 1), per_line)
        self.first = self.starts == np.concatenate(([0], self.newlines + 1))[self.lines]
        self._refuse_lonely_marks(kinds)

    def _refuse_lonely_marks(self, kinds: np.ndarray) -> None:
        marks = np.flatnonzero(kinds >= _COMMA)
        if not len(marks):
            return
        padded = np.concatenate(([False], self.is_text, [False]))
        lonely = marks[~(padded[marks] & padded[marks + 2])]
        if len(lonely):
            at = int(lonely[0])
            self.fail_at(at, "has a comma or colon without a number on both sides")

    def fail_at(self, at: int, problem: str) -> None:
        """Raise a TokenError for the blank-separated word around byte ``at``."""
        line = int(np.searchsorted(self.newlines, at))
        start = max(self.block.rfind(b, 0, at) for b in (b" ", b"\t", b"\n")) + 1
        ends = [e for e in (self.block.find(b, at) for b in (b" ", b"\t", b"\r", b"\n")) if e >= 0]
        word = self.block[start : min(ends, default=len(self.block))]
        raise TokenError(line, word[:80].decode("utf-8", "replace"), problem)

    @cached_property
    def texts(self) -> pa.LargeStringArray:
        """All tokens as an Arrow array: the bytes that are text, joined, and where each token begins."""
        offsets = np.zeros(len(self.starts) + 1, dtype=np.int64)
        np.cumsum(self.ends - self.starts, out=offsets[1:])
        joined = np.frombuffer(self.block, dtype=np.uint8)[self.is_text]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
        return pa.Array.from_buffers(pa.large_string(), len(self.starts), buffers)


def parse_lines(block: bytes) -> SparseLines:
    """The sparse lines of ``block``: whole lines, of which the last may lack its line end.

    Raises TokenError for the first token of a kind that cannot be read. Ranges are the caller's to check.
    """
    tokens = _Tokens(block)
    is_value = tokens.before == _COLON
    is_index = (tokens.after == _COLON) & ~is_value
    is_label = ~is_value & ~is_index
    _check_places(tokens, is_label, is_index, is_value)
    labels, features = _integers(tokens, is_label, "a label"), _integers(tokens, is_index, "an index")
    values = _cast(tokens, is_value, pa.float64(), "is not a number")
    n_lines = len(tokens.newlines) + (0 if not block or block.endswith(b"\n") else 1)
    return SparseLines(n_lines, tokens.lines[is_label], labels, tokens.lines[is_index], features, values)


def _check_places(tokens: _Tokens, label: np.ndarray, index: np.ndarray, value: np.ndarray) -> None:
    _refuse(tokens, label & ~(tokens.first | (tokens.before == _COMMA)), "is not index:value")
    _refuse(tokens, index & (tokens.before == _COMMA), "joins a label and a feature: a blank is missing")
    _refuse(tokens, value & ((tokens.after == _COLON) | (tokens.after == _COMMA)), "is not index:value")


def _refuse(tokens: _Tokens, bad: np.ndarray, problem: str) -> None:
    if bad.any():
        tokens.fail_at(int(tokens.starts[int(np.argmax(bad))]), problem)


def _integers(tokens: _Tokens, mask: np.ndarray, what: str) -> np.ndarray:
    """The masked tokens as int64."""
    return _cast(tokens, mask, pa.int64(), f"is not {what} (a whole number)")


def _cast(tokens: _Tokens, mask: np.ndarray, kind: pa.DataType, problem: str) -> np.ndarray:
    texts = tokens.texts.filter(pa.array(mask))
    if pa.types.is_integer(kind) and _has_hexadecimal(texts):
        _blame(tokens, mask, texts, kind, problem)
    try:
        return pc.cast(texts, kind).to_numpy()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        _blame(tokens, mask, texts, kind, problem)
        raise


def _has_hexadecimal(texts: pa.LargeStringArray) -> bool:
    """True where Arrow's cast would read ``0x1f``, which no file of this format means as a number."""
    joined = texts.buffers()[2]
    return joined is not None and bool((np.frombuffer(joined, dtype=np.uint8) >= ord("A")).any())


def _blame(
    tokens: _Tokens, mask: np.ndarray, texts: pa.LargeStringArray, kind: pa.DataType, problem: str
) -> None:
    """Raise TokenError for the first of ``texts`` that is no number of this ``kind``."""
    for start, text in zip(tokens.starts[mask], texts, strict=True):
        try:
            pc.cast(text, kind)
            if pa.types.is_integer(kind) and not text.as_py().lstrip("-").isdecimal():
                tokens.fail_at(int(start), problem)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            tokens.fail_at(int(start), problem)
