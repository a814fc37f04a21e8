"""The passage of a text that holds most of the words that matched, as code points of that text.

Words are matched folded (`xmc.encoders.tokens.fold`), which changes lengths. So the text is cut into units
that fold by themselves, runs of word characters or single characters of scripts without blanks, and each is
folded alone: what it folds to stands where it stands. A passage is a sentence, or a part of a long one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmc.encoders.lexical import LexicalTower, TextWords
from xmc.encoders.tokens import IGNORED, NOT_WORD, UNSPACED, Words, split_words

LONGEST = 300  # characters of a passage, but for a single longer word
BLOCK = 1_000_000  # characters whose words are folded at once
WORD, GLUE, ALONE = 1, 2, 4
_STRING = pa.large_string()
# Ends of sentences before a blank, ends in any place (scripts without blanks, dandas, full stops), line ends.
_SENTENCE_END = re.compile(
    "[.!?\u2026\u061f\u06d4\u0589]+[\"'\u2019\u201d\u00bb)\\]]*(?=\\s)"
    "|[\u3002\uff01\uff0e\uff1f\uff61\u0964\u0965\u104b\u1362\u1367\u17d4\u17d5]+[\u300d\u300f\u201d\uff09]*"
    "|[\n\r\x85\u2028\u2029]+"
)


@dataclass(frozen=True)
class Units:
    """What of a text folds by itself: code points ``starts`` to ``ends`` (n_units,), in order."""

    starts: np.ndarray
    ends: np.ndarray

    def of(self, text: str) -> list[str]:
        """The units of ``text`` as they stand there."""
        return [text[a:b] for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]


def units_of(text: str) -> Units:
    """The units of a text. None begins within a combined character."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    kinds = _kinds()[points]
    word, glue, alone = (kinds & bit > 0 for bit in (WORD, GLUE, ALONE))
    inside = word | (glue & _carried(word, glue))
    single = np.r_[False, _carried(alone, glue)[:-1]]
    starts = np.flatnonzero(word & (alone | single | ~np.r_[False, inside[:-1]]))
    stops = np.flatnonzero(inside & ~np.r_[inside[1:], False]) + 1
    ends = stops[np.searchsorted(stops, starts, side="right")]
    return Units(starts, np.minimum(ends, np.r_[starts[1:], len(points)]))


@cache
def _kinds() -> np.ndarray:
    """(0x110000,) uint8 for each code point: part of words, clinging to the one before, a word alone."""
    points = np.arange(0x110000, dtype=np.uint32)
    points[0xD800:0xE000] = 0xFFFD
    chars = pa.array(list(points.tobytes().decode("utf-32-le")), pa.large_string())
    folded = pc.utf8_normalize(chars, "NFKC")
    glue = _matches(folded, rf"^\p{{M}}+$|^{IGNORED}$")
    word = ~glue & ~_matches(folded, f"^({NOT_WORD})?$")
    return (WORD * word + GLUE * glue + ALONE * _matches(folded, UNSPACED)).astype(np.uint8)


def _matches(chars: pa.Array, pattern: str) -> np.ndarray:
    return np.asarray(pc.match_substring_regex(chars, pattern).to_numpy(zero_copy_only=False), bool)


def _carried(begins: np.ndarray, goes_on: np.ndarray) -> np.ndarray:
    """(n,) bool: places that begin something, and those behind them through which it goes on."""
    places = np.arange(1, len(begins) + 1, dtype=np.int32)
    last = np.maximum.accumulate(np.where(goes_on, 0, places))
    return np.where(last > 0, begins[last - 1], False)


def edges_of(text: str, units: Units) -> np.ndarray:
    """(n + 1,) int64 where the n passages of a text begin and end: at sentences, long ones cut between units.

    Cut before a unit with something between it and the last one, wherever that leaves half of the length.
    """
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    starts = units.starts.tolist()
    spaced = units.starts[np.r_[True, units.starts[1:] > units.ends[:-1]][: len(units.starts)]].tolist()
    edges = [0]
    for end in (*ends, len(text)):
        edges.extend(_cuts(edges[-1], end, starts, spaced))
        if end > edges[-1]:
            edges.append(end)
    return np.array(edges, np.int64)


def _cuts(begin: int, end: int, starts: Sequence[int], spaced: Sequence[int]) -> Iterator[int]:
    """Where to cut ``begin:end`` so that no part is longer than ``LONGEST``, if units allow."""
    while end - begin > LONGEST:
        cut = _last(spaced, begin + LONGEST // 2, begin + LONGEST) or _last(starts, begin, begin + LONGEST)
        if cut is None:
            later = bisect_right(starts, begin + LONGEST)
            cut = starts[later] if later < len(starts) else end
        if cut >= end:
            return
        yield cut
        begin = cut


def _last(places: Sequence[int], above: int, most: int) -> int | None:
    """The last of the ascending ``places`` above one place and at most at another."""
    at = bisect_right(places, most) - 1
    return places[at] if at >= 0 and places[at] > above else None


class Passages:
    """The passages of one text, and which words stand in each.

    ``words`` (n,): words in the order of their ``starts`` (n,); ``edges`` as `edges_of`.
    """

    def __init__(self, text: str, edges: np.ndarray, words: np.ndarray, starts: np.ndarray) -> None:
        self.text, self.edges = text, edges
        passage = np.searchsorted(edges, starts, side="right") - 1
        self._words, self._passages = np.divmod(np.unique(words * len(edges) + passage), len(edges))

    def best(self, words: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(n,) passages with most of ``words`` (n_words,) by their ``weights``: all equal ones, in order."""
        first, last = (np.searchsorted(self._words, words, side) for side in ("left", "right"))
        total = np.zeros(len(self.edges), np.float64)
        for weight, a, b in zip(weights.tolist(), first.tolist(), last.tolist(), strict=True):
            total[self._passages[a:b]] += weight
        return np.flatnonzero((total == total.max()) & (total > 0))

    def span(self, passage: int) -> tuple[int, int]:
        """Where a passage begins and ends in the text, without the blanks around it."""
        return stripped(self.text, int(self.edges[passage]), int(self.edges[passage + 1]))


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """``start`` and ``end`` moved inwards over white space."""
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())


def read(texts: Sequence[str], tower: LexicalTower) -> Iterator[tuple[TextWords, Passages]]:
    """The distinct words of each text, in the order of their first places, and its passages over these."""
    for block in _blocks(texts):
        units = [units_of(text) for text in block]
        flat = pa.array(
            [unit for text, its in zip(block, units, strict=True) for unit in its.of(text)], _STRING
        )
        encoded = flat.dictionary_encode()
        split = split_words(encoded.dictionary)
        features = tower.words_of(split.distinct)
        codes, begin = np.asarray(encoded.indices, np.int64), 0
        for text, its in zip(block, units, strict=True):
            mine = codes[begin : begin + len(its.starts)]
            begin += len(its.starts)
            yield _read(text, its, mine, split, features)


def _read(
    text: str, units: Units, codes: np.ndarray, split: Words, features: TextWords
) -> tuple[TextWords, Passages]:
    """One text of `read`: ``codes`` (n_units,) says which of the ``split`` each unit is."""
    counts = np.diff(split.indptr)[codes]
    bounds = np.cumsum(counts)
    within = np.arange(counts.sum()) - np.repeat(bounds - counts, counts)
    words = split.codes[np.repeat(split.indptr[codes], counts) + within]
    distinct, first, place = np.unique(words, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    passages = Passages(text, edges_of(text, units), rank[place], np.repeat(units.starts, counts))
    return features.take(distinct[order]), passages


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """``texts`` in runs of at most ``BLOCK`` characters, or of one text."""
    begin = size = 0
    for i, text in enumerate(texts):
        if i > begin and size + len(text) > BLOCK:
            yield texts[begin:i]
            begin, size = i, 0
        size += len(text)
    if begin < len(texts):
        yield texts[begin:]
