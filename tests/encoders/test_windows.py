from __future__ import annotations

from pathlib import Path
from unicodedata import combining

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.encoders.pretrained import load_tokenizer
from xmc.encoders.windows import (
    Windows,
    WindowVectors,
    batches,
    cut,
    lay,
    pieces,
    pool,
    spans,
    tokenise,
    visible,
)

COUNTS = st.lists(st.integers(0, 50), max_size=20)


def _cut(counts: list[int], capacity: int) -> Windows:
    return cut(np.arange(sum(counts), dtype=np.int32), np.array(counts, np.int64), capacity)


@given(COUNTS, st.integers(1, 20))
def test_windows_hold_every_token_once_and_in_order(counts: list[int], capacity: int) -> None:
    w = _cut(counts, capacity)
    tokens = [w.ids[s : s + n] for s, n in zip(w.starts, w.lengths, strict=True)]
    assert np.array_equal(np.concatenate([*tokens, np.zeros(0, np.int32)]), w.ids)
    assert len(w.indptr) == len(counts) + 1


@given(COUNTS, st.integers(1, 20))
def test_windows_are_the_fewest_and_of_equal_length(counts: list[int], capacity: int) -> None:
    w = _cut(counts, capacity)
    for i, count in enumerate(counts):
        lengths = w.lengths[w.indptr[i] : w.indptr[i + 1]]
        assert len(lengths) == -(-count // capacity)
        if count:
            assert lengths.max() - lengths.min() <= 1
            assert lengths.max() <= capacity


@given(COUNTS, st.integers(1, 20))
def test_each_window_knows_its_text(counts: list[int], capacity: int) -> None:
    w = _cut(counts, capacity)
    assert np.array_equal(np.bincount(w.owner, w.lengths, len(counts)), counts)


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 200), st.booleans())
def test_batches_hold_every_window_once_within_the_budget(
    widths: list[int], budget: int, mixed: bool
) -> None:
    w = np.array(widths, np.int64)
    found = list(batches(w, budget, mixed))
    assert sorted(np.concatenate([*found, np.zeros(0, int)]).tolist()) == list(range(len(widths)))
    for rows in found:
        assert len(rows) == 1 or w[rows].sum() <= budget
        assert mixed or len(set(w[rows])) == 1
        assert (np.diff(w[rows]) <= 0).all()


def test_lay_puts_special_tokens_around_every_window() -> None:
    w = _cut([3, 0, 5], 3)  # 0 1 2 | 3 4 | 5 6 7
    out = lay(w, np.array([2, 0, 1]), np.array([101]), np.array([102, 103]))
    assert out.tolist() == [101, 5, 6, 7, 102, 103, 101, 0, 1, 2, 102, 103, 101, 3, 4, 102, 103]


def test_pool_weighs_windows_by_tokens() -> None:
    w = _cut([0, 3, 0], 2)
    found = pool(np.array([[1, 0], [0, 1]], np.float32), w)
    assert w.lengths.tolist() == [1, 2]
    assert found == pytest.approx(np.array([[0, 0], [5**-0.5, 2 * 5**-0.5], [0, 0]]))


def test_pool_of_no_windows_is_zero() -> None:
    assert pool(np.zeros((0, 3), np.float32), _cut([0, 0], 2)).tolist() == [[0, 0, 0], [0, 0, 0]]


@given(st.text(alphabet="ab \n", max_size=100), st.integers(2, 10))
def test_pieces_join_to_the_text(text: str, size: int) -> None:
    parts = list(pieces(text, size))
    assert "".join(parts) == text
    assert all(len(p) <= size for p in parts)


def test_pieces_are_cut_before_white_space() -> None:
    assert list(pieces("one two three", 8)) == ["one two", " three"]


@pytest.mark.parametrize("text", ["", "   \n", "\u200b", "\u200b \ufeff\t", "\x00\x07", "\u00ad"])
def test_nothing_visible(text: str) -> None:
    assert not visible(text)


@pytest.mark.parametrize("text", ["a", "\u200ba", "قانون", "👩‍⚖️", "."])
def test_something_visible(text: str) -> None:
    assert visible(text)


def test_a_text_tokenised_in_pieces_has_the_same_tokens(minilm: Path) -> None:
    tokenizer = load_tokenizer(minilm)
    text = "Regulation (EU) No 1379/2013 of the European Parliament, on fisheries. " * 3000
    ids, counts = tokenise(tokenizer, ["air", text, ""])
    assert ids[counts[0] :].tolist() == tokenizer.encode(text, add_special_tokens=False).ids
    assert counts[2] == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "air",
        "Cafe\u0301 noir, 👩‍⚖️ and قانون البحر. " * 9,
        "Of fisheries in the north. " * 3000,
        "漁業" * 200,
        "a \ud800 b " * 9,
    ],
)
def test_windows_know_where_they_lie_in_the_text(minilm: Path, text: str) -> None:
    tokenizer = load_tokenizer(minilm)
    ids, counts = tokenise(tokenizer, [text])
    windows, found = cut(ids, counts, 14), spans(tokenizer, text, 14)
    assert found.shape == (len(windows.lengths), 2)
    assert (found[:, 0] < found[:, 1]).all()
    assert (found[1:, 0] == found[:-1, 1]).all()
    assert not len(found) or (found[0, 0], found[-1, 1]) == (0, len(text))
    assert not any(combining(text[start]) for start, _ in found)


def test_the_text_of_a_window_has_the_tokens_of_the_window(minilm: Path) -> None:
    tokenizer, text = load_tokenizer(minilm), "the fleet left the island for air and sea " * 1000
    ids, counts = tokenise(tokenizer, [text])
    windows = cut(ids, counts, 30)
    for start, length, (a, b) in zip(
        windows.starts, windows.lengths, spans(tokenizer, text, 30), strict=True
    ):
        found = tokenizer.encode(text[a:b], add_special_tokens=False).ids
        assert found == ids[start : start + length].tolist()


def test_a_lone_surrogate_does_no_harm(minilm: Path) -> None:
    ids, counts = tokenise(load_tokenizer(minilm), ["air \ud800", "air", "\ud800"])
    assert counts.min() > 0
    assert ids[0] == ids[counts[0]]


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_the_first_texts_are_views(n: int) -> None:
    vectors, windows = np.eye(3, 4, dtype=np.float32), np.arange(16, dtype=np.float16).reshape(4, 4)
    whole = WindowVectors(vectors, windows, np.array([0, 2, 2, 4]))
    first, taken = whole.first(n), whole.take(np.arange(n))
    for name in ("vectors", "windows", "indptr"):
        assert np.array_equal(getattr(first, name), getattr(taken, name))
    assert first.vectors.base is vectors
