from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from xmc import linear
from xmc.errors import ArtifactError
from xmc.linear import FARTHEST, LinearLabels, strongest

QUICK = settings(max_examples=50, deadline=None)
seeds = st.integers(0, 10_000)


def drawn(seed: int, n: int, n_features: int, density: float = 0.3) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    values = rng.choice([0.25, 0.5, 0.75, 1.0], (n, n_features)) * (rng.random((n, n_features)) < density)
    return sp.csr_matrix(values.astype(np.float32))


def made(seed: int = 0, n_labels: int = 7, n_features: int = 12) -> LinearLabels:
    rng = np.random.default_rng(seed)
    learned = rng.random(n_labels) < 0.7
    learned[0] = True
    weights = sp.csr_matrix(rng.normal(size=(n_labels, n_features)) * learned[:, None], dtype=np.float32)
    return LinearLabels(weights, (rng.normal(size=n_labels) * learned).astype(np.float32), learned)


def all_pairs(n_docs: int, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(np.arange(n_docs), n_labels), np.tile(np.arange(n_labels), n_docs)


@QUICK
@given(seeds)
def test_scores_are_margins_from_a_sure_wrong_label_and_zero_without_a_classifier(seed):
    known, words = made(seed), drawn(seed, 5, 12)
    found = known.scores(words, *all_pairs(5, 7)).reshape(5, 7)
    margins = words.toarray() @ known.weights.toarray().T + known.bias
    wanted = np.clip(margins + 1, -FARTHEST, FARTHEST) * known.learned
    assert found == pytest.approx(wanted, abs=1e-5)
    assert found.dtype == np.float32


def test_a_score_does_not_depend_on_the_batch(monkeypatch):
    known, words = made(3), drawn(3, 9, 12)
    pairs = all_pairs(9, 7)
    whole = known.scores(words, *pairs)
    monkeypatch.setattr(linear, "BLOCK", 7 * 2)
    assert np.array_equal(known.scores(words, *pairs), whole)
    some = np.flatnonzero(pairs[0] == 4)
    alone = known.scores(words[4], np.zeros(len(some), np.int64), pairs[1][some])
    assert np.array_equal(alone, whole[some])


def test_no_pairs_no_scores():
    assert made().scores(drawn(0, 3, 12), np.zeros(0, np.int64), np.zeros(0, np.int64)).shape == (0,)


def test_a_wider_label_set_has_no_classifiers_of_its_new_labels():
    known = made(1)
    wide = known.widened(10)
    assert known.widened(7) is known
    assert wide.weights.shape == (10, 12)
    assert not wide.learned[7:].any()
    words = drawn(1, 4, 12)
    found = wide.scores(words, *all_pairs(4, 10)).reshape(4, 10)
    assert np.array_equal(found[:, :7].ravel(), known.scores(words, *all_pairs(4, 7)))
    assert not found[:, 7:].any()


def test_nothing_is_held_of_labels_that_were_taken_out():
    known = made(2)
    rows = np.flatnonzero(known.learned)[:2]
    left = known.without(rows)
    assert not left.weights[rows].nnz
    assert not left.bias[rows].any()
    assert not np.signbit(left.bias[rows]).any()
    assert not left.learned[rows].any()
    others = np.setdiff1d(np.arange(7), rows)
    assert np.array_equal(left.weights[others].toarray(), known.weights[others].toarray())
    assert left.without(rows) is left


def test_joined_are_those_of_both():
    known = made(4)
    rows = np.flatnonzero(known.learned)[:2]
    few = known.without(np.setdiff1d(np.arange(7), rows))
    both = known.without(rows).joined(few)
    assert np.array_equal(both.weights.toarray(), known.weights.toarray())
    assert np.array_equal(both.bias, known.bias)
    assert np.array_equal(both.learned, known.learned)


def test_saved_and_loaded_they_are_the_same(tmp_path):
    known = made(5)
    known.save(tmp_path / "linear")
    again = LinearLabels.load(tmp_path / "linear")
    words = drawn(5, 4, 12)
    assert np.array_equal(again.scores(words, *all_pairs(4, 7)), known.scores(words, *all_pairs(4, 7)))


@pytest.mark.parametrize("part", ["bias", "learned"])
def test_parts_of_other_sizes_are_refused(tmp_path, part):
    known = made()
    shorter = replace(known, **{part: getattr(known, part)[:-1]})
    shorter.save(tmp_path / "linear")
    with pytest.raises(ArtifactError, match="do not fit each other"):
        LinearLabels.load(tmp_path / "linear")


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e9])
@pytest.mark.parametrize("part", ["weights", "bias"])
def test_numbers_that_were_not_learned_are_refused(tmp_path, number, part):
    known = made()
    values = known.weights.data if part == "weights" else known.bias
    values[0] = number
    known.save(tmp_path / "linear")
    with pytest.raises(ArtifactError, match="not finite or too large"):
        LinearLabels.load(tmp_path / "linear")


def test_of_features_below_zero_the_largest_are_the_strongest(monkeypatch):
    monkeypatch.setattr(linear, "STRONGEST", 2)
    found = strongest(sp.csr_matrix(np.array([[0.1, -3, 0.2, 4, -0.3]], np.float32)), 5)
    assert found.toarray()[0] == pytest.approx([0, -0.6, 0, 0.8, 0])


@QUICK
@given(seeds, st.integers(1, 12), st.integers(1, 6))
def test_the_strongest_words_of_each_row_are_left_at_unit_length(seed, n_words, most):
    features = drawn(seed, 6, 12, 0.6)
    before, linear.STRONGEST = linear.STRONGEST, most
    try:
        found = strongest(features, n_words)
    finally:
        linear.STRONGEST = before
    for row, kept in zip(features.toarray(), found.toarray(), strict=True):
        words = np.flatnonzero(row[:n_words])
        best = sorted(words, key=lambda i: (-row[i], i))[:most]
        wanted = np.zeros(12)
        wanted[best] = row[best] / max(np.linalg.norm(row[best]), 1e-9)
        assert kept == pytest.approx(wanted, abs=1e-6)
