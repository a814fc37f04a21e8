from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from xmc.encoders.lexical import unit
from xmc.mix import Mix
from xmc.prototypes import DEFAULT, NAMES, LabelParts, centroids, label_kinds, unfolded

DENSE, LEXICAL = 5, 7
FREQUENCY = np.array([0, 1, 30, 0, 0])


def towers(n: int, seed: int, dense: int = DENSE) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, dense + LEXICAL)).astype(np.float32)
    rows[:, :dense], rows[:, dense:] = unit(rows[:, :dense]), unit(rows[:, dense:])
    return rows


def parts(dense: int = DENSE) -> LabelParts:
    """Labels with a text; with both; with both; with a dense text only; with nothing."""
    texts, middle = towers(5, 1, dense), towers(5, 2, dense)
    middle[FREQUENCY == 0] = 0
    texts[3, dense:] = 0
    texts[4] = 0
    return LabelParts(texts, middle, dense, FREQUENCY)


def all_pairs(n_docs: int) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(n_docs), 5), np.tile(np.arange(5), n_docs)


@pytest.mark.parametrize("dense", [0, DENSE])
def test_folded_prototypes_score_as_the_mix_of_the_features_does(dense):
    known, docs = parts(dense), towers(6, 3, dense)
    mix = Mix(NAMES, np.random.default_rng(4).standard_normal(len(NAMES)))
    scale = np.sqrt(np.repeat([0.3, 0.7], [dense, LEXICAL])).astype(np.float32)
    vectors = known.fold(mix, scale)
    queries = np.hstack([docs * scale, np.ones((6, 1), np.float32)])
    of_doc, rows = all_pairs(6)
    direct = mix(known.pair_features(docs, of_doc, rows)).reshape(6, 5)
    scoreable = vectors.any(axis=1)
    assert scoreable.tolist() == [True, True, True, dense > 0, False]
    assert (queries @ vectors.T)[:, scoreable] == pytest.approx(direct[:, scoreable], abs=1e-4)


def test_pair_features_are_the_similarities_by_kind_of_label():
    known, docs = parts(), towers(2, 3)
    found = known.pair_features(docs, np.array([1, 1]), np.array([2, 0]))
    named = [dict(zip(NAMES, row, strict=True)) for row in found]
    assert named[0]["dense_text"] == pytest.approx(docs[1, :DENSE] @ known.texts[2, :DENSE], abs=1e-6)
    assert named[0]["lexical_centroid"] == pytest.approx(
        docs[1, DENSE:] @ known.centroids[2, DENSE:], abs=1e-6
    )
    assert named[0]["dense_text*seen"] == named[0]["dense_text"]
    assert named[0]["dense_text*frequency"] == pytest.approx(np.log(31) * named[0]["dense_text"])
    assert (named[0]["seen"], named[0]["frequency"]) == (1, pytest.approx(np.log(31)))
    assert [named[1][n] for n in ("dense_text*seen", "dense_centroid", "seen", "frequency")] == [0, 0, 0, 0]
    assert known.pair_features(docs, np.zeros(0, int), np.zeros(0, int)).shape == (0, len(NAMES))


def test_a_tower_without_a_share_does_not_divide_by_zero():
    scale = np.repeat(np.array([0, 1], np.float32), [DENSE, LEXICAL])
    assert np.isfinite(parts().fold(DEFAULT, scale)).all()


def test_kinds_of_labels():
    assert label_kinds(FREQUENCY)[:3].tolist() == pytest.approx(
        np.array([[1, 0, 0], [1, 1, np.log(2)], [1, 1, np.log(31)]])
    )


def test_centroids_are_unit_means(monkeypatch):
    docs = towers(40, 5)
    gold = sp.random(40, 6, 0.2, format="csr", random_state=np.random.default_rng(6), dtype=np.float32)
    gold.data[:] = 1
    gold = gold.multiply(np.array([1, 1, 1, 1, 1, 0])).tocsr()
    gold.eliminate_zeros()
    found = centroids(gold, docs, DENSE)
    for label in range(6):
        carry = gold[:, label].toarray().ravel() > 0
        mean = docs[carry].mean(axis=0) if carry.any() else np.zeros(DENSE + LEXICAL)
        for part in (slice(0, DENSE), slice(DENSE, None)):
            norm = np.linalg.norm(mean[part])
            assert found[label, part] == pytest.approx(mean[part] / norm if norm else mean[part], abs=1e-6)
    assert not found[5].any()


def test_centroids_do_not_depend_on_the_blocks(monkeypatch):
    docs, gold = (
        towers(40, 5),
        sp.csr_matrix(np.random.default_rng(0).random((40, 6)) < 0.3, dtype=np.float32),
    )
    whole = centroids(gold, docs, DENSE)
    monkeypatch.setattr("xmc.prototypes.BLOCK", 7 * docs.shape[1])
    assert centroids(gold, docs, DENSE) == pytest.approx(whole, abs=1e-6)


def test_without_documents_there_are_no_centroids():
    assert not centroids(sp.csr_matrix((0, 3), dtype=np.float32), np.zeros((0, 12), np.float32), DENSE).any()


def test_unfolding_gives_the_trained_prototypes_back():
    rng = np.random.default_rng(6)
    trained = rng.standard_normal((5, 4)).astype(np.float32)
    trained[[0, 4]] = 0
    known = LabelParts(
        *(getattr(parts(), n) for n in ("texts", "centroids", "dense_dim", "frequency")), trained
    )
    mix = Mix(NAMES, rng.standard_normal(len(NAMES)))
    scale = np.sqrt(np.repeat([0.2, 0.3, 0.5], [DENSE, LEXICAL, 3])).astype(np.float32)
    vectors = known.fold(mix, scale)
    found = unfolded(vectors, FREQUENCY, mix, scale, DENSE + LEXICAL)
    assert found == pytest.approx(trained, abs=1e-5)
    assert not found[[0, 4]].any()
    none = Mix(NAMES, np.where(np.char.startswith(NAMES, "trained"), 0, mix.weights))
    assert not unfolded(known.fold(none, scale), FREQUENCY, none, scale, DENSE + LEXICAL).any()
