"""Words, word pairs and character n-grams of texts as 64-bit keys, in compiled array operations.

A word is a run of letters, digits and marks after NFKC and lower-casing, in any script. Scripts written
without blanks (Han, Kana, Thai, Lao, Khmer, Myanmar) and emoji are cut into single characters, so that their
pairs are character bigrams. Keys are hashes, so nothing is kept of the words themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from xmc.deadline import check_time

# Miscellaneous symbols, flags, and the planes of emoji.
EMOJI = r"\x{2600}-\x{26FF}\x{1F1E6}-\x{1F1FF}\x{1F300}-\x{1FAFF}"
UNSPACED = (
    rf"([\p{{Han}}\p{{Hiragana}}\p{{Katakana}}\p{{Thai}}\p{{Lao}}\p{{Khmer}}\p{{Myanmar}}{EMOJI}]\p{{M}}*)"
)
NOT_WORD = rf"[^\p{{L}}\p{{N}}\p{{M}}{EMOJI}]+"
# Nothing to see, and inside of words: soft hyphen, joiners, fillers, variation selectors, tags.
IGNORED = (
    r"[\x{AD}\x{34F}\x{115F}\x{1160}\x{17B4}\x{17B5}\x{180B}-\x{180F}\x{200C}\x{200D}\x{2060}-\x{206F}"
    r"\x{FE00}-\x{FE0F}\x{FEFF}\x{E0000}-\x{E0FFF}]"
)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_BASE_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))


@dataclass(frozen=True)
class Words:
    """The words of a batch of texts, in order.

    ``distinct``: (n_distinct,) the different words; ``codes``: (n_words,) which of them stands where;
    ``indptr``: (n_texts + 1,) where each text begins in ``codes``.
    """

    distinct: pa.Array
    codes: np.ndarray
    indptr: np.ndarray

    @property
    def text_rows(self) -> np.ndarray:
        """(n_words,) the text that each word stands in."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))


def fold(texts: pa.Array) -> pa.Array:
    """Texts as they are matched: NFKC, lower case, nothing invisible, unspaced scripts spaced.

    For matching only, never for output.
    """
    folded = pc.utf8_normalize(texts, "NFKC")
    check_time()
    folded = pc.replace_substring_regex(pc.utf8_lower(folded), IGNORED, "")
    check_time()
    return pc.replace_substring_regex(folded, UNSPACED, r" \1 ")


def split_words(texts: Sequence[str] | pa.Array) -> Words:
    """The words of each text; a text may have none."""
    array = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.large_string())
    folded = fold(array.cast(pa.large_string()))
    check_time()
    pieces = pc.split_pattern_regex(folded, NOT_WORD)
    check_time()
    flat = pieces.flatten()
    keep = pc.not_equal(flat, "")
    starts = np.concatenate([[0], np.cumsum(keep.to_numpy(zero_copy_only=False))])
    offsets = np.concatenate([[0], np.cumsum(pc.list_value_length(pieces).to_numpy(zero_copy_only=False))])
    encoded = flat.filter(keep).dictionary_encode()
    return Words(encoded.dictionary, encoded.indices.to_numpy().astype(np.int64), starts[offsets])


def mix(keys: np.ndarray) -> np.ndarray:
    """Scatter 64-bit keys (the finaliser of SplitMix64; Steele, Lea, Flood 2014)."""
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


def _code_points(words: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Code points of ``<word>`` for every word, one after another, and the (n + 1,) bounds."""
    lengths = pc.utf8_length(words).to_numpy(zero_copy_only=False).astype(np.int64) + 2
    joined = "".join(f"<{word}>" for word in words.to_pylist())
    points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return points.astype(np.uint64), np.concatenate([[0], np.cumsum(lengths)])


def word_keys(words: pa.Array) -> np.ndarray:
    """(n,) uint64 key of each word: a polynomial hash of its code points."""
    if len(words) == 0:
        return np.zeros(0, np.uint64)
    points, bounds = _code_points(words)
    powers = np.cumprod(np.full(len(points), _BASE, np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix(points + np.uint64(1)) * powers)])
    undo = np.cumprod(np.full(len(points), _BASE_INVERSE, np.uint64))
    return mix((sums[bounds[1:]] - sums[bounds[:-1]]) * undo[bounds[:-1]])


def gram_buckets(words: pa.Array, n: int, bits: int) -> sp.csr_matrix:
    """(n_words, 2**bits) how often each word holds each hashed character n-gram of ``<word>``.

    Inflected and compound forms share most of their n-grams (Bojanowski et al. 2017), which is what
    matches "fisheries" with "fishery" in any language, without a stemmer.
    """
    points, bounds = _code_points(words)
    n_grams = np.maximum(np.diff(bounds) - n + 1, 0)
    owner = np.repeat(np.arange(len(words)), n_grams)
    first = np.arange(len(owner)) - np.repeat(np.cumsum(n_grams) - n_grams, n_grams) + bounds[owner]
    keys = np.zeros(len(owner), np.uint64)
    for offset in range(n):
        keys = keys * _BASE + points[first + offset] + np.uint64(1)
    columns = (mix(keys) >> np.uint64(64 - bits)).astype(np.int64)
    ones = np.ones(len(owner), np.float32)
    return sp.csr_matrix((ones, (owner, columns)), shape=(len(words), 1 << bits))


def pair_keys(words: Words, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """uint64 keys of neighbouring words (``keys`` by distinct word), and the text each pair stands in."""
    rows = words.text_rows
    if len(rows) < 2:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    of_word = keys[words.codes]
    same = rows[1:] == rows[:-1]
    return mix(of_word[:-1] * _BASE + of_word[1:])[same], rows[:-1][same]
