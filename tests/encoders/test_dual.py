from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

from xmc.data.records import DocumentBatch
from xmc.encoders.dense import DenseTower
from xmc.encoders.dual import DualEncoder, Encoded
from xmc.encoders.given import GivenTower
from xmc.encoders.lexical import LexicalSettings, LexicalTower
from xmc.errors import ArtifactError

SETTINGS = LexicalSettings(dim=64, ngram_bits=10)
TEXTS = ["air transport law", "", "fish budget", "!!!", "\u200b"]


@pytest.fixture
def words() -> LexicalTower:
    return LexicalTower.fit([TEXTS], [["air transport"]], SETTINGS)


@pytest.fixture
def dual(tiny, words) -> DualEncoder:
    return DualEncoder(DenseTower.load(str(tiny()), device="cpu", dtype="fp32"), words, 0.3)


def batch(texts: list[str]) -> DocumentBatch:
    names = [f"d{i}" for i in range(len(texts))]
    return DocumentBatch(names, texts, None, None, names)


def test_joined_vectors_mix_the_two_similarities(dual):
    encoded = dual.encode(batch(TEXTS))
    assert encoded.towers.shape == (5, dual.dim) == (5, dual.dense_dim + 64)
    joined = encoded.towers * dual.scale
    dense, lexical = encoded.dense.vectors, encoded.lexical
    wanted = 0.3 * dense @ dense.T + 0.7 * lexical @ lexical.T
    assert joined @ joined.T == pytest.approx(wanted, abs=1e-6)


def test_texts_with_a_vector_in_either_tower_are_ok(dual, words):
    assert dual.encode(batch(TEXTS)).ok.tolist() == [True, False, True, True, False]
    assert DualEncoder(None, words).encode(batch(TEXTS)).ok.tolist() == [True, False, True, False, False]


def test_features_that_all_weigh_nothing_are_not_ok():
    zero = sp.csr_matrix((np.zeros(1, np.float32), [0], [0, 1]), (1, 3))
    given = DualEncoder(None, GivenTower.fit([zero], 3, SETTINGS))
    assert given.encode(DocumentBatch(["d"], None, zero, None, ["x:2"])).ok.tolist() == [False]


def test_without_a_dense_tower_the_words_have_all(words):
    alone = DualEncoder(None, words, 0.5)
    assert alone.share == 0
    assert alone.scale.tolist() == [1.0] * 64


def test_known_dense_vectors_are_taken_over(dual):
    known = dual.dense.encode(TEXTS)
    found = dual.encode(batch(TEXTS), known)
    assert found.dense is known
    assert (found.towers == dual.encode(batch(TEXTS)).towers).all()


def test_take_and_concat_keep_the_parts_together(dual):
    encoded = dual.encode(batch(TEXTS))
    parts = [encoded.take(np.array([2, 0])), encoded.take(np.array([], int)), encoded.take(np.array([3]))]
    joined = Encoded.concat(parts)
    assert (joined.towers == encoded.towers[[2, 0, 3]]).all()
    assert (joined.features != encoded.features[[2, 0, 3]]).nnz == 0
    assert (joined.leads != encoded.leads[[2, 0, 3]]).nnz == 0
    assert (np.diff(joined.dense.indptr) == np.diff(encoded.dense.indptr)[[2, 0, 3]]).all()


def test_saved_and_loaded(dual, tmp_path):
    dual.save(tmp_path / "encoder")
    again = DualEncoder.load(tmp_path / "encoder", device="cpu", dtype="fp32")
    assert again.share == 0.3
    assert (again.encode(batch(TEXTS)).towers == dual.encode(batch(TEXTS)).towers).all()


@pytest.mark.parametrize(
    "changed",
    [
        {"share": 1.5},
        {"share": -0.1},
        {"share": "0.5"},
        {"share": None},
        {"dense": True},
        {"dense": 0},
        {"words": "other"},
        {"words": ["lexical"]},
        {"words": "given", "dense": True},
    ],
)
def test_a_description_that_fits_no_towers_is_refused(words, tmp_path, changed):
    DualEncoder(None, words).save(tmp_path / "encoder")
    path = tmp_path / "encoder" / "dual.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(ArtifactError, match=r"dual\.json: not a description of the towers beside it"):
        DualEncoder.load(tmp_path / "encoder")


def test_a_description_that_is_no_object_is_refused(words, tmp_path):
    DualEncoder(None, words).save(tmp_path / "encoder")
    (tmp_path / "encoder" / "dual.json").write_text("[]")
    with pytest.raises(ArtifactError, match=r"dual\.json"):
        DualEncoder.load(tmp_path / "encoder")
