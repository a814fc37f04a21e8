"""Labels on disk are the same vectors as in memory, each text is encoded once, and missing texts are zero."""

from __future__ import annotations

import numpy as np
import pytest

from xmc.encoders import labels
from xmc.encoders.labels import LabelEncoder, LabelVectors
from xmc.encoders.lexical import LexicalTower
from xmc.encoders.windows import WindowVectors

TEXTS = ["air transport", "fisheries", "", "air transport", "قانون", "fisheries", "space law"]
NAMES = [
    "air transport",
    "aviation",
    "fisheries",
    "air transport",
    "قانون",
    "fishing",
    "fisheries",
    "space law",
]
STARTS = np.array([0, 2, 3, 3, 4, 6, 7, 8])
IDS = [f"L{i}" for i in range(len(TEXTS))]


class CountingCache:
    """As a VectorCache, with the length of each text for its vector."""

    class tower:  # noqa: N801
        dim = 2

    def __init__(self):
        self.seen = []

    def encode(self, texts, names):
        self.seen.append((list(texts), list(names)))
        vectors = np.array([[len(text), 1] for text in texts], np.float32)
        return WindowVectors(vectors, np.zeros((0, 2), np.float16), np.zeros(len(texts) + 1, np.int64))


@pytest.fixture
def words():
    return LexicalTower.fit((), [TEXTS])


@pytest.fixture(params=[2, 100])
def piece(request, monkeypatch):
    monkeypatch.setattr(labels, "PIECE", request.param)


def encode(words, directory, cache=None, keep=True):
    done = []
    found = LabelEncoder(words, cache, directory, keep).encode(IDS, TEXTS, NAMES, STARTS, done.append)
    assert sum(done) == len(TEXTS)
    return found


def test_vectors_and_features_are_those_of_the_texts(words, piece, tmp_path):
    vectors, names = encode(words, tmp_path)
    assert np.array_equal(vectors.towers, words.encode(TEXTS))
    assert not vectors.towers[2].any()
    assert (vectors.features != words.features(TEXTS)).nnz == 0
    assert (names != words.features(NAMES)).nnz == 0


def test_a_dense_tower_encodes_each_text_once_under_its_first_label(words, piece, tmp_path):
    cache = CountingCache()
    vectors, _ = encode(words, tmp_path, cache)
    assert vectors.towers[:, 0].tolist() == [len(text) for text in TEXTS]
    assert np.array_equal(vectors.towers[:, 2:], words.encode(TEXTS))
    texts, names = ([x for pair in cache.seen for x in pair[i]] for i in (0, 1))
    assert texts == ["air transport", "fisheries", "", "قانون", "space law"]
    assert names == ["L0", "L1", "L2", "L4", "L6"]


def test_features_are_kept_only_for_training(words, tmp_path):
    encode(words, tmp_path, keep=False)
    assert not (tmp_path / "features").exists()


def test_labels_without_texts_take_no_memory():
    vectors = LabelVectors(10**9, 512, 7)
    assert vectors.towers.shape == (10**9, 512)
    assert not vectors.towers[5:9].any()
    assert LabelVectors(3, 512, 7).features.shape == (3, 7)
