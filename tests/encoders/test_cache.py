from __future__ import annotations

import numpy as np
import pytest

from xmc.encoders.cache import VectorCache
from xmc.encoders.dense import DenseTower
from xmc.encoders.windows import WindowVectors

TEXTS = ["air transport " * 100, "", "fish"]


class Counting:
    """A tower that counts the texts it encodes."""

    def __init__(self, tower: DenseTower) -> None:
        self.tower, self.n_texts = tower, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.tower, name)

    def encode(self, texts, names=None) -> WindowVectors:
        self.n_texts += len(texts)
        return self.tower.encode(texts, names=names)


@pytest.fixture
def tower(tiny) -> Counting:
    return Counting(DenseTower.load(str(tiny()), device="cpu", dtype="fp32"))


def same(one: WindowVectors, other: WindowVectors) -> bool:
    parts = ("vectors", "windows", "indptr")
    pairs = [(getattr(one, name), getattr(other, name)) for name in parts]
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


def test_a_list_of_texts_is_encoded_once(tower, tmp_path):
    first = VectorCache(tower, tmp_path / "vectors").encode(TEXTS, ["a", "b", "c"])
    again = VectorCache(tower, tmp_path / "vectors").encode(TEXTS)
    assert tower.n_texts == 3
    assert same(first, again)
    assert same(first, tower.tower.encode(TEXTS))


@pytest.mark.parametrize("other", [TEXTS[::-1], TEXTS[:2], [*TEXTS, ""], [TEXTS[0] + TEXTS[2], "", ""], []])
def test_another_list_is_encoded_anew(tower, tmp_path, other):
    cache = VectorCache(tower, tmp_path)
    cache.encode(TEXTS)
    assert len(cache.encode(other)) == len(other)
    assert tower.n_texts == 3 + len(other)


def test_other_settings_or_weights_are_encoded_anew(tower, tiny, tmp_path):
    VectorCache(tower, tmp_path).encode(TEXTS)
    shorter = Counting(DenseTower.load(str(tiny()), max_length=16, device="cpu", dtype="fp32"))
    VectorCache(shorter, tmp_path).encode(TEXTS)
    wider = Counting(DenseTower.load(str(tiny(name="wider", hidden_size=64)), device="cpu", dtype="fp32"))
    assert VectorCache(wider, tmp_path).encode(TEXTS).vectors.shape == (3, 64)
    assert (shorter.n_texts, wider.n_texts) == (3, 3)


@pytest.mark.parametrize("file", ["vectors/windows.npy", "vectors/indptr.npy", "manifest.json"])
def test_what_is_damaged_is_encoded_again(tower, tmp_path, file):
    cache = VectorCache(tower, tmp_path)
    first = cache.encode(TEXTS)
    (path,) = tmp_path.glob(f"*/{file}")
    path.write_bytes(path.read_bytes()[:-5])
    assert same(cache.encode(TEXTS), first)
    assert tower.n_texts == 6
    assert same(cache.encode(TEXTS), first)
    assert tower.n_texts == 6
