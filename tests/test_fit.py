from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cases.corpus_t import synthetic
from xmc.data.records import DocumentBatch
from xmc.encoders.dual import DualEncoder
from xmc.encoders.lexical import LexicalSettings, LexicalTower, unit
from xmc.fit import (
    MAX_HELD_OUT,
    FitTask,
    Weights,
    fit_share,
    fit_trained_share,
    held_out,
    with_duplicates,
    without_held_out,
)
from xmc.index.kinds import make_index
from xmc.index.matcher import LabelMatcher
from xmc.memory import DocumentMemory
from xmc.prototypes import LabelParts, centroids

LABELS, DOCS = synthetic(60, 150)


@pytest.mark.parametrize(("n_docs", "n_held"), [(0, 0), (4, 0), (5, 1), (99, 19), (50_000, MAX_HELD_OUT)])
def test_a_fifth_is_held_out_at_most_so_many(n_docs, n_held):
    assert held_out(n_docs, 0).shape == (n_docs,)
    assert held_out(n_docs, 0).sum() == n_held


def test_which_are_held_out_follows_from_the_seed():
    assert (held_out(200, 3) == held_out(200, 3)).all()
    assert (held_out(200, 3) != held_out(200, 4)).any()


@pytest.mark.parametrize(
    ("n_dev", "n_held"), [(1, 1), (30, 30), (200, 200), (MAX_HELD_OUT + 50, MAX_HELD_OUT)]
)
def test_documents_given_for_it_are_held_out_and_no_others(n_dev, n_held):
    held = held_out(n_dev + 40, 0, n_dev)
    assert held.sum() == n_held
    assert not held[:40].any()


class TwoTowers:
    """What `fit_share` asks of an encoder."""

    dense_dim, untrained_dim, share, trained = 6, 12, 0.5, None


@pytest.mark.parametrize(("informative", "wanted"), [(slice(0, 6), 0.8), (slice(6, 12), 0.2)])
def test_the_share_goes_to_the_tower_that_finds_documents_alike(informative, wanted):
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 4, 400)
    towers = rng.standard_normal((400, 12)).astype(np.float32)
    towers[:, informative] = np.eye(6)[topic] * 5 + 0.8 * rng.standard_normal((400, 6))
    towers[:, :6], towers[:, 6:] = unit(towers[:, :6]), unit(towers[:, 6:])
    labels = sp.csr_matrix(np.eye(4, dtype=np.float32)[topic])
    assert fit_share(TwoTowers(), towers, labels, held_out(400, 0)) == wanted


class ThreeTowers(TwoTowers):
    """What the fits of shares ask of an encoder with a trained tower."""

    trained, trained_share = object(), 0.0
    lexical = SimpleNamespace(dim=6)


@pytest.mark.parametrize("informative", [slice(0, 6), slice(6, 12), slice(12, 18)])
def test_the_shares_of_the_three_towers(informative):
    """That of the dense tower is as if there were no trained one."""
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 4, 400)
    towers = rng.standard_normal((400, 18)).astype(np.float32)
    towers[:, informative] = np.eye(6)[topic] * 5 + 0.8 * rng.standard_normal((400, 6))
    towers = np.hstack([unit(towers[:, i : i + 6]) for i in (0, 6, 12)])
    labels, held = sp.csr_matrix(np.eye(4, dtype=np.float32)[topic]), held_out(400, 0)
    two = fit_share(TwoTowers(), towers[:, :12], labels, held)
    assert fit_share(ThreeTowers(), towers, labels, held) == two
    found = fit_trained_share(ThreeTowers(), towers, labels, held)
    assert found >= 0.5 if informative.start == 12 else found <= 0.35


def test_with_too_few_documents_or_one_tower_the_share_stays():
    towers, labels = np.ones((90, 12), np.float32), sp.csr_matrix(np.ones((90, 1), np.float32))
    assert fit_share(TwoTowers(), towers, labels, held_out(90, 0)) == 0.5
    words = LexicalTower.fit([], [["a"]], LexicalSettings(dim=12, ngram_bits=8, nonzeros=4))
    assert fit_share(DualEncoder(None, words), towers, labels, np.ones(90, bool)) == 0


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> FitTask:
    """The first 30 documents held out of 150."""
    texts, names = [t for _, t, _ in DOCS], [t for _, t in LABELS]
    rows = {label_id: row for row, (label_id, _) in enumerate(LABELS)}
    words = LexicalTower.fit([texts], [names], LexicalSettings(dim=128, ngram_bits=12))
    encoder = DualEncoder(None, words)
    ids = [i for i, _, _ in DOCS]
    encoded = encoder.encode(DocumentBatch(ids, texts, None, None, ids))
    of_doc = np.repeat(np.arange(150), [len(gold) for _, _, gold in DOCS])
    columns = [rows[label] for _, _, gold in DOCS for label in gold]
    gold = sp.csr_matrix((np.ones(len(columns), np.float32), (of_doc, columns)), (150, 60))
    held = np.arange(150) < 30
    rest = gold.multiply(~held[:, None]).tocsr()
    rest.eliminate_zeros()
    parts = LabelParts(
        words.encode(names), centroids(rest, encoded.towers, 0), 0, np.bincount(rest.indices, minlength=60)
    )
    index = make_index("exact", 128, "cosine")
    index.add(np.arange(150), encoded.towers)
    memory = DocumentMemory(index, gold, np.array(ids))
    matcher = LabelMatcher(words.features(names), np.arange(61))
    sample = encoded.take(np.flatnonzero(held))
    active, work = np.ones(60, bool), tmp_path_factory.mktemp("fit")
    return FitTask(encoder, sample, gold[:30], parts, matcher, memory, ~held, active, work)


def precision(task: FitTask, weights: Weights) -> float:
    shortlister = task._shortlister(weights.prototype)
    found = shortlister.candidates(task.encoded)
    scores = weights.score(found, task.parts.frequency, task.encoded, shortlister)
    right = task._right(found)
    best = [a + int(np.argmax(scores[a:b])) for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True)]
    return float(right[best].mean())


def test_the_fit_is_no_worse_than_where_it_starts(task):
    fitted = task.fit()[0]
    assert precision(task, fitted) >= max(0.9, precision(task, Weights.unfitted(task.encoder)))


def test_fitted_probabilities_are_about_right(task):
    fitted = task.fit()[0]
    shortlister = task._shortlister(fitted.prototype)
    found = shortlister.candidates(task.encoded)
    scores = fitted.score(found, task.parts.frequency, task.encoded, shortlister).astype(float)
    expected = (1 / (1 + np.exp(-scores))).sum()
    assert expected == pytest.approx(task._right(found).sum(), rel=0.05)


def test_held_out_documents_are_nobodys_neighbours(task):
    found = task._shortlister(Weights.unfitted(task.encoder).prototype).candidates(task.encoded)
    assert found.neighbours.rows.min() >= 30


def test_retired_labels_are_no_candidates_of_the_fit(task):
    active = np.arange(60) % 2 == 0
    few = replace(task, active=active)
    found = few._shortlister(Weights.unfitted(task.encoder).prototype).candidates(task.encoded)
    assert set(found.rows % 2) == {0}


def test_where_all_labels_are_retired_nothing_is_fitted(task):
    start, found = Weights.unfitted(task.encoder), replace(task, active=np.zeros(60, bool)).fit()[0]
    assert (found.final.weights == start.final.weights).all()
    assert (found.reranker, found.calibration) == (None, None)


def test_without_gold_labels_nothing_is_fitted(task):
    none = sp.csr_matrix((30, 60), dtype=np.float32)
    start = Weights.unfitted(task.encoder)
    found = replace(task, gold=none).fit()[0]
    assert (found.final.weights == start.final.weights).all()
    assert found.probability == start.probability
    nobody = task.encoded.take(np.zeros(0, int))
    assert replace(task, encoded=nobody, gold=none[:0]).fit()[0].probability == start.probability


def test_the_same_again_gives_the_same_weights(task):
    one, other = task.fit()[0], task.fit()[0]
    assert (one.final.weights == other.final.weights).all()
    assert (one.prototype.weights == other.prototype.weights).all()
    assert one.probability == other.probability


def test_words_alone_start_from_weights_of_their_own(task):
    both, alone = Weights.unfitted(TwoTowers()), Weights.unfitted(task.encoder)
    assert (both.final.weights != alone.final.weights).any()


def test_some_labels_are_hidden_where_held_out_documents_bring_no_new_ones():
    gold = sp.csr_matrix(np.random.default_rng(1).random((400, 60)) < 0.1, dtype=np.float32)
    held = held_out(400, 0)
    rest = without_held_out(gold, held, np.ones(60, bool), 0)
    frequency = np.asarray(rest.sum(axis=0)).ravel()
    unseen = gold[held][:, frequency == 0].sum() / gold[held].sum()
    assert 0.02 < unseen <= 0.05
    assert rest[held].nnz == 0
    kept = frequency > 0
    assert (rest[~held][:, kept] != gold[~held][:, kept]).nnz == 0


def test_labels_that_were_hidden_for_the_fit_choose_no_threshold(task):
    hidden = np.zeros(60, bool)
    hidden[np.flatnonzero(np.bincount(task.gold.indices, minlength=60))[:5]] = True
    sample = replace(task, hidden=hidden).fit()[0].calibration.sample
    assert sample.gold.nnz
    assert not hidden[sample.gold.indices].any()
    assert not hidden[sample.probabilities.indices].any()


def test_labels_without_names_are_never_hidden():
    gold = sp.csr_matrix(np.random.default_rng(1).random((400, 60)) < 0.1, dtype=np.float32)
    held = held_out(400, 0)
    rest = without_held_out(gold, held, np.zeros(60, bool), 0)
    assert rest.nnz == gold[~held].nnz


def test_documents_with_the_words_of_a_held_out_one_are_put_apart_with_it():
    rng = np.random.default_rng(0)
    of = np.array([0, 1, 2, 0, 4, 5, 1, 0, 5])  # which vector each document has
    words = rng.standard_normal((6, 8)).astype(np.float32)[of]
    held = np.arange(9) < 2
    assert np.flatnonzero(with_duplicates(held, words)).tolist() == [0, 1, 3, 6, 7]
    near = words.copy()
    near[3, 2] = np.nextafter(near[3, 2], np.float32(9))
    assert np.flatnonzero(with_duplicates(held, near)).tolist() == [0, 1, 6, 7]
    assert (with_duplicates(np.zeros(9, bool), words) == 0).all()


def test_documents_without_words_are_no_duplicates_and_someone_is_always_left():
    held = np.arange(9) < 2
    assert (with_duplicates(held, np.zeros((9, 8), np.float32)) == held).all()
    assert (with_duplicates(held, np.ones((9, 8), np.float32)) == held).all()
    assert with_duplicates(held[:0], np.zeros((0, 8), np.float32)).shape == (0,)


def test_duplicates_are_found_across_blocks():
    words = np.zeros((25_000, 2), np.float32)
    words[:, 0] = 1 + np.arange(25_000)
    words[[9_999, 10_000, 24_999]] = words[3]
    found = with_duplicates(np.arange(25_000) == 3, words)
    assert np.flatnonzero(found).tolist() == [3, 9_999, 10_000, 24_999]


def test_a_cross_encoder_comes_last_and_the_calibration_sees_what_it_says(task):
    """It is given what the fit found, and gives other log odds: here those of a seer."""
    seen: list[np.ndarray] = []

    def read(found, log_odds, right):
        seen.append(log_odds)
        return None, np.where(right, 5, -5).astype(np.float32)

    plain, told = task.fit(), replace(task, read=read).fit()
    assert told.cross is None
    assert (told.weights.final.weights == plain.weights.final.weights).all()
    assert len(seen[0]) == plain.weights.calibration.sample.probabilities.nnz
    sample = told.weights.calibration.sample
    of_right = sample.probabilities.multiply(sample.gold > 0).tocsr()
    assert (of_right.data[of_right.data > 0] > 0.9).all()
    assert sample.probabilities.data[sample.probabilities.data > 0.9].sum() == pytest.approx(of_right.sum())
