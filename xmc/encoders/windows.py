"""Texts as token windows: cut without loss, batched by length, pooled back to one vector a text.

A text of any length is cut into the fewest windows that hold all of its tokens, of equal length (±1) and
without overlap. Everything here works on one flat array of token ids; nothing loops over tokens in Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from xmc.deadline import check_time

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

PIECE = 32_768  # characters tokenised as one piece; longer texts are tokenised in several
GROUP = 1_000_000  # characters tokenised at once; the tokenizer uses some 100 bytes a token
# Something to see: neither space, nor control, nor a format character of no width. A byte-level tokenizer
# makes tokens even of U+200B, so emptiness is decided on the text as well as on the tokens.
_VISIBLE = re.compile(
    r"[^\s\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)


@dataclass(frozen=True)
class WindowVectors:
    """Vectors (n_texts, dim) float32 of unit length, and the vectors (n_windows, dim) of their windows.

    Text ``i`` has the windows ``indptr[i]:indptr[i + 1]``, in reading order. A text without tokens has no
    window, a zero vector and ``ok[i]`` False.
    """

    vectors: np.ndarray
    windows: np.ndarray
    indptr: np.ndarray

    @property
    def ok(self) -> np.ndarray:
        """(n_texts,) bool: which texts have a vector."""
        return np.diff(self.indptr) > 0

    def __len__(self) -> int:
        return len(self.vectors)

    @staticmethod
    def concat(parts: Sequence[WindowVectors]) -> WindowVectors:
        """The texts of all parts (one at least), one after another."""
        starts = np.cumsum([0, *(len(part.windows) for part in parts)])
        indptr = [part.indptr[1:] + start for part, start in zip(parts, starts, strict=False)]
        return WindowVectors(
            np.concatenate([part.vectors for part in parts]),
            np.concatenate([part.windows for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *indptr]),
        )

    def first(self, n: int) -> WindowVectors:
        """The first ``n`` texts, as views."""
        return WindowVectors(self.vectors[:n], self.windows[: self.indptr[n]], self.indptr[: n + 1])

    def take(self, rows: np.ndarray) -> WindowVectors:
        """Some of the texts, in the order of their ``rows``."""
        counts = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        within = np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)
        return WindowVectors(
            self.vectors[rows], self.windows[np.repeat(self.indptr[rows], counts) + within], indptr
        )


@dataclass(frozen=True)
class Windows:
    """Token windows of some texts: window ``j`` is ``ids[starts[j]:starts[j] + lengths[j]]``.

    ``ids`` (n_tokens,) int32 without special tokens, ``indptr`` (n_texts + 1,) int64 over windows.
    """

    ids: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    indptr: np.ndarray

    @property
    def owner(self) -> np.ndarray:
        """(n_windows,) the row of the text that each window belongs to."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def visible(text: str) -> bool:
    """Whether a reader would see anything of the text."""
    return _VISIBLE.search(text) is not None


def pieces(text: str, size: int = PIECE) -> Iterator[str]:
    """The text in pieces of about ``size`` characters, cut before white space wherever there is some."""
    start = 0
    while len(text) - start > size:
        cut = next((i for i in range(start + size, start + size // 2, -1) if text[i].isspace()), start + size)
        yield text[start:cut]
        start = cut
    yield text[start:]


def tokenise(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids (n_tokens,) int32 of all texts, flat, and (n_texts,) int64 how many belong to each.

    Special tokens are left out. Texts with nothing visible get no tokens.
    """
    counts = np.zeros(len(texts), np.int64)
    chunks: list[np.ndarray] = []
    for group, owners in _groups(texts):
        check_time()
        ids = [np.array(e.ids, np.int32) for e in _encode(tokenizer, group)]
        np.add.at(counts, owners, [len(x) for x in ids])
        chunks.append(np.concatenate(ids))
    return (np.concatenate(chunks) if chunks else np.zeros(0, np.int32)), counts


def _encode(tokenizer: Tokenizer, group: list[str]) -> list[Encoding]:
    try:
        return tokenizer.encode_batch_fast(group, add_special_tokens=False)
    except TypeError:  # lone surrogates, which JSON can hold and UTF-8 cannot
        valid = [text.encode("utf-8", "replace").decode() for text in group]
        return tokenizer.encode_batch_fast(valid, add_special_tokens=False)


def spans(tokenizer: Tokenizer, text: str, capacity: int) -> np.ndarray:
    """(n_windows, 2) int64 code points of a text where each of its windows begins and ends.

    A window ends where the next begins: marks and blanks of which no token is made go with the token before.
    """
    begin, places = 0, [np.zeros((0, 2), np.int64)]
    for piece in pieces(text) if visible(text) else ():
        valid = piece.encode("utf-8", "replace").decode()  # as long as before
        offsets = tokenizer.encode(valid, add_special_tokens=False).offsets
        places.append(np.array(offsets, np.int64).reshape(-1, 2) + begin)
        begin += len(piece)
    tokens = np.concatenate(places)
    windows = cut(np.zeros(0, np.int32), np.array([len(tokens)]), capacity)
    starts = tokens[windows.starts, 0]
    ends = np.append(starts[1:], len(text))[: len(starts)]
    return np.stack([starts, ends], axis=1)


def _groups(texts: Sequence[str]) -> Iterator[tuple[list[str], list[int]]]:
    group: list[str] = []
    owners: list[int] = []
    size = 0
    for row, text in enumerate(texts):
        for piece in pieces(text) if visible(text) else ():
            group.append(piece)
            owners.append(row)
            size += len(piece)
            if size >= GROUP:
                yield group, owners
                group, owners, size = [], [], 0
    if group:
        yield group, owners


def cut(ids: np.ndarray, counts: np.ndarray, capacity: int) -> Windows:
    """Windows of at most ``capacity`` tokens: the fewest that do, of equal length (±1) within a text."""
    n_windows = -(-counts // capacity)
    indptr = np.concatenate([[0], np.cumsum(n_windows)]).astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), n_windows)
    nth = np.arange(indptr[-1]) - indptr[owner]
    offset = np.concatenate([[0], np.cumsum(counts)])[owner]
    begin = nth * counts[owner] // n_windows[owner]
    end = (nth + 1) * counts[owner] // n_windows[owner]
    return Windows(ids, offset + begin, end - begin, indptr)


def batches(widths: np.ndarray, budget: int, mixed: bool) -> Iterator[np.ndarray]:
    """The windows of each batch, longest first and equal widths side by side.

    Args:
        widths: (n_windows,) tokens to compute for each window.
        budget: tokens of a batch; a wider window is a batch of its own.
        mixed: whether a batch may hold windows of different widths.
    """
    order = np.argsort(-widths, kind="stable")
    ends = np.cumsum(widths[order])
    last = np.searchsorted(-widths[order], -widths[order], side="right")  # behind the windows of equal width
    begin = 0
    while begin < len(order):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + budget, side="right")))
        end = end if mixed else min(end, int(last[begin]))
        yield order[begin:end]
        begin = end


def lay(windows: Windows, rows: np.ndarray, prefix: np.ndarray, suffix: np.ndarray) -> np.ndarray:
    """Token ids (n_tokens,) int64 of some windows end to end, each between its special tokens."""
    full = windows.lengths[rows] + len(prefix) + len(suffix)
    ends = np.cumsum(full)
    source = np.arange(full.sum()) + np.repeat(windows.starts[rows] - len(prefix) - ends + full, full)
    out = windows.ids.take(source, mode="clip").astype(
        np.int64
    )  # the special tokens' places hold anything yet
    for i, token in enumerate(prefix):
        out[ends - full + i] = token
    for i, token in enumerate(suffix):
        out[ends - len(suffix) + i] = token
    return out


def pool(vectors: np.ndarray, windows: Windows) -> np.ndarray:
    """Vectors (n_texts, dim) float32 of unit length: the windows' mean weighted by tokens, or zero."""
    weights = windows.lengths.astype(np.float32)[:, None]
    out = np.zeros((len(windows.indptr) - 1, vectors.shape[1]), np.float32)
    full = np.diff(windows.indptr) > 0
    if full.any():
        out[full] = np.add.reduceat(vectors.astype(np.float32) * weights, windows.indptr[:-1][full], axis=0)
        out[full] /= np.maximum(np.linalg.norm(out[full], axis=1, keepdims=True), 1e-12)
    return out
