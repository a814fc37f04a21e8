from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmc.data.text import is_blank
from xmc.encoders.tokens import Words, fold, gram_buckets, mix, pair_keys, split_words, word_keys

TEXT = st.text(max_size=30)


def words_of(text: str) -> list[str]:
    words = split_words([text])
    return [str(words.distinct[int(code)]) for code in words.codes]


def keys_of(*words: str) -> np.ndarray:
    return word_keys(pa.array(words, pa.large_string()))


def texts_by_row(words: Words) -> list[list[str]]:
    flat = words.distinct.take(pa.array(words.codes)).to_pylist()
    return [flat[a:b] for a, b in zip(words.indptr[:-1], words.indptr[1:], strict=True)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Air transport, by air.", ["air", "transport", "by", "air"]),
        ("中文 分词2", ["中", "文", "分", "词", "2"]),
        ("コーヒーを", ["コ", "ー", "ヒ", "ー", "を"]),
        ("กรุงเทพ", ["ก", "รุ", "ง", "เ", "ท", "พ"]),
        ("اللغة العَرَبِيَّة", ["اللغة", "العَرَبِيَّة"]),
        ("हिन्दी 한국어", ["हिन्दी", "한국어"]),
        ("Donaudampfschifffahrt Straße ÜBER", ["donaudampfschifffahrt", "straße", "über"]),
        ("Työkykyä 2-vuotiaat", ["työkykyä", "2", "vuotiaat"]),
        ("İstanbul ΑΘΗΝΑ", ["istanbul", "αθηνα"]),
        ("👩‍⚖️👍🏽 law 🇩🇪", ["👩", "⚖", "👍", "🏽", "law", "🇩", "🇪"]),
        ("ﬁsh ² ｆｕｌｌ", ["fish", "2", "full"]),
        ("e\u0301te\u0301", ["été"]),
        ("trans\u00adport می\u200cخواهم \u202eabc\u202c", ["transport", "میخواهم", "abc"]),
        ("a\u200bb c\u2028d\x85e", ["a", "b", "c", "d", "e"]),
        ("!!! … --- ¤ ©", []),
    ],
)
def test_words_of_many_scripts(text, wanted):
    assert words_of(text) == wanted


def test_batches_of_texts_with_and_without_words():
    texts = ["", "b a", "  ", "a", "?"]
    assert texts_by_row(split_words(texts)) == [[], ["b", "a"], [], ["a"], []]
    assert split_words(texts).text_rows.tolist() == [1, 1, 3]
    assert texts_by_row(split_words([])) == []
    assert texts_by_row(split_words(["", ""])) == [[], []]


def test_an_arrow_array_is_taken_as_it_is():
    assert texts_by_row(split_words(pa.array(["x y", "z"]).slice(1))) == [["z"]]


@given(st.lists(TEXT, max_size=6))
def test_a_text_has_the_same_words_in_any_batch(texts):
    assert texts_by_row(split_words(texts)) == [words_of(text) for text in texts]


@given(TEXT)
def test_words_are_folded_once_and_for_all(text):
    words = words_of(text)
    assert words_of(" ".join(words)) == words


@settings(max_examples=300)
@given(st.text(st.characters(categories=["Cc", "Cf", "Mn", "Zs", "Zl", "Zp", "Lo", "So"]), max_size=4))
def test_a_blank_text_has_no_word(text):
    if is_blank(text):
        assert words_of(text) == []


def test_fold_is_for_matching_both_ways_of_an_accent():
    assert fold(pa.array(["É", "e\u0301"])).to_pylist() == ["é", "é"]


@given(st.lists(TEXT.filter(bool), min_size=1, max_size=8))
def test_a_word_has_the_same_key_in_any_company(words):
    together = keys_of(*words)
    assert together.tolist() == [int(keys_of(word)[0]) for word in words]


def test_keys_differ_where_words_do():
    words = sorted({f"{a}{b}{c}" for a in "abcdefgh" for b in "abcdefgh" for c in ("", "x", "é", "中", "👩")})
    assert len(np.unique(keys_of(*words))) == len(words)
    assert len(np.unique(keys_of("ab", "ba", "aab", "aba", "baa", "a", "aa", "aaa", ""))) == 9
    assert keys_of().shape == (0,)


def test_mixed_keys_are_spread_evenly():
    buckets = np.bincount(
        (mix(np.arange(64_000, dtype=np.uint64)) >> np.uint64(58)).astype(int), minlength=64
    )
    assert abs(buckets - 1000).max() < 150


def grams(word: str, n: int = 4) -> dict[int, float]:
    row = gram_buckets(pa.array([word], pa.large_string()), n, 16)
    return dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))


def test_grams_are_those_of_the_marked_word():
    assert sum(grams("fish").values()) == 3  # <fis fish ish>
    assert sorted(grams("aaaaaa").values()) == [1, 1, 3]
    assert grams("a") == {}
    assert len(grams("ab")) == 1
    assert len(grams("fisheries").keys() & grams("fishery").keys()) == 4  # <fis fish ishe sher


@given(st.lists(TEXT.filter(bool), max_size=5))
def test_grams_of_a_word_are_the_same_in_any_company(words):
    together = gram_buckets(pa.array(words, pa.large_string()), 3, 12)
    assert together.shape == (len(words), 1 << 12)
    for row, word in enumerate(words):
        alone = gram_buckets(pa.array([word], pa.large_string()), 3, 12)
        assert (together[row] != alone).nnz == 0


def test_pairs_stand_within_a_text_and_keep_their_order():
    words = split_words(["air transport law", "law air", "alone", "", "air transport"])
    pairs, rows = pair_keys(words, word_keys(words.distinct))
    assert rows.tolist() == [0, 0, 1, 4]
    assert pairs[0] == pairs[3]
    assert len(np.unique(pairs)) == 3
    turned = split_words(["transport air"])
    assert pair_keys(turned, word_keys(turned.distinct))[0][0] != pairs[0]
    nothing = split_words(["", "one"])
    assert all(len(part) == 0 for part in pair_keys(nothing, word_keys(nothing.distinct)))
