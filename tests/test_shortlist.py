from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from tests.cases.corpus_t import docs_file, index, labels_file, synthetic
from xmc.data.records import DocumentBatch
from xmc.encoders.dual import Encoded
from xmc.index.matcher import best_columns
from xmc.linear import LinearLabels, strongest
from xmc.model import Model
from xmc.prototypes import label_kinds
from xmc.shortlist import DEFAULT, DEFAULT_WORDS, NAMES, SOURCES, Candidates, Shortlister

LABELS, DOCS = synthetic(40, 60)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    folder = tmp_path_factory.mktemp("model")
    labels, docs = labels_file(folder / "labels.jsonl", LABELS), docs_file(folder / "docs.jsonl", DOCS[10:])
    return Model.load(index(folder / "model", labels, docs))


@pytest.fixture(scope="module")
def encoded(model) -> Encoded:
    names, texts, _ = zip(*DOCS[:10], strict=True)
    return model.encoder.encode(DocumentBatch(list(names), list(texts), None, None, list(names)))


def by_doc(found: Candidates) -> list[list[int]]:
    return [found.rows[a:b].tolist() for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True)]


def same(one: Candidates, other: Candidates) -> bool:
    parts = ("indptr", "rows", "features")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in parts)


def queries(model: Model, encoded: Encoded) -> np.ndarray:
    vectors = encoded.towers * model.encoder.scale
    return np.hstack([vectors, np.ones((len(vectors), 1), np.float32)])


def test_candidates_are_those_of_the_three_sources(model, encoded):
    found = model.shortlister().candidates(encoded, k=3)
    asked, everything = queries(model, encoded), np.ones(len(LABELS), bool)
    near = model.index.search(asked, 3).rows
    cosine = next(model.matcher.blocks(encoded.features, encoded.leads)).cosine
    matched = best_columns(cosine, 100, everything)
    votes = model.memory.votes(model.memory.neighbours(asked[:, :-1], 50))
    for doc, rows in enumerate(by_doc(found)):
        wanted = {*near[doc], *matched[1][matched[0] == doc], *votes[doc].indices[votes[doc].data > 0]}
        assert rows == sorted(wanted)


def test_features_are_what_the_sources_say(model, encoded):
    found = model.shortlister().candidates(encoded)
    at = (found.of_doc, found.rows)
    asked = queries(model, encoded)
    prototypes = model.index.vectors(np.arange(len(LABELS)))
    matches = next(model.matcher.blocks(encoded.features, encoded.leads))
    votes = model.memory.votes(model.memory.neighbours(asked[:, :-1], 50)).toarray()
    wanted = [asked @ prototypes.T, matches.cosine, matches.containment, matches.lead, votes]
    for i, scores in enumerate(wanted):
        assert found.features[:, i] == pytest.approx(scores[at], rel=1e-5, abs=1e-5), SOURCES[i]


def test_a_documents_candidates_do_not_depend_on_the_others(model, encoded):
    shortlister = model.shortlister()
    whole = shortlister.candidates(encoded, k=5)
    for doc in range(len(encoded.ok)):
        alone = shortlister.candidates(encoded.take(np.array([doc])), k=5)
        part = slice(whole.indptr[doc], whole.indptr[doc + 1])
        assert (alone.rows == whole.rows[part]).all()
        assert (alone.features == whole.features[part]).all()


def test_only_allowed_and_scoreable_labels_are_candidates(model, encoded):
    allowed = np.arange(len(LABELS)) % 3 == 0
    scoreable = model.scoreable & (np.arange(len(LABELS)) % 2 == 0)
    found = replace(model.shortlister(), scoreable=scoreable).candidates(encoded, allowed)
    assert set(found.rows) == set(range(0, len(LABELS), 6))
    none = model.shortlister().candidates(encoded, np.zeros(len(LABELS), bool))
    assert (len(none.rows), none.indptr.tolist()) == (0, [0] * 11)
    assert none.features.shape == (0, len(SOURCES))


def test_without_memory_or_matcher_their_features_are_zero(model, encoded):
    alone = Shortlister(model.encoder, model.index, None, None, model.scoreable).candidates(encoded, k=7)
    assert alone.neighbours is None
    assert np.diff(alone.indptr).tolist() == [7] * 10
    assert not alone.features[:, 1:].any()


def test_excluded_documents_neither_vote_nor_are_shown(model, encoded):
    among = np.arange(50) < 5
    found = replace(model.shortlister(), among=among).candidates(encoded)
    assert set(found.neighbours.rows.ravel()) == set(range(5))
    nobody = replace(model.shortlister(), among=np.zeros(50, bool)).candidates(encoded)
    assert nobody.neighbours.rows.shape == (10, 0)
    assert not nobody.features[:, SOURCES.index("votes")].any()
    without = replace(model.shortlister(), memory=None).candidates(encoded)
    assert same(nobody, without)


def test_classifiers_score_what_the_sources_found(model, encoded):
    n_labels, n_features = len(LABELS), model.encoder.lexical.n_features
    rng = np.random.default_rng(0)
    weights = sp.random(n_labels, n_features, 0.3, "csr", np.float32, rng)
    learned = rng.random(n_labels) < 0.5
    linear = LinearLabels(weights, np.zeros(n_labels, np.float32), learned)
    found = replace(model.shortlister(), linear=linear).candidates(encoded)
    plain = model.shortlister().candidates(encoded)
    assert np.array_equal(found.rows, plain.rows)
    assert np.array_equal(found.features[:, :-1], plain.features[:, :-1])
    words = strongest(encoded.features, model.encoder.lexical.n_words)
    assert np.array_equal(found.features[:, -1], linear.scores(words, found.of_doc, found.rows))
    assert found.features[learned[found.rows], -1].any()


def test_features_by_kind_of_label():
    features = np.arange(2 * len(SOURCES), dtype=np.float32).reshape(2, -1)
    found = Candidates(np.array([0, 1, 2]), np.array([1, 0]), features, None).mix_features(np.array([0, 3]))
    kinds = label_kinds(np.array([3, 0]))
    for i, source in enumerate(SOURCES):
        for j, kind in enumerate(("", "*seen", "*frequency")):
            column = NAMES.index(source + kind)
            assert found[:, column] == pytest.approx(features[:, i] * kinds[:, j])
    assert found[:, -2:] == pytest.approx(kinds[:, 1:])


def test_defaults_name_their_sources():
    for mix in (DEFAULT, DEFAULT_WORDS):
        named = dict(zip(mix.names, mix.weights, strict=True))
        assert all(named[source] for source in SOURCES if source != "linear")
