from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from xmc.artifacts import save_array
from xmc.data.records import DocumentBatch
from xmc.deadline import TooSlowError, time_limit
from xmc.encoders import lexical
from xmc.encoders.leads import LEAD_SHARE
from xmc.encoders.lexical import (
    FrequencyCount,
    LexicalSettings,
    LexicalTower,
    random_projection,
    unit,
    unit_rows,
)
from xmc.encoders.tokens import split_words
from xmc.errors import ArtifactError, InputError, SettingError

SMALL = LexicalSettings(dim=64, ngram_bits=10, min_documents=1)
DOCS = ["Air transport between islands", "The annual budget of fisheries", "fisheries and air", ""]
LABELS = ["air transport", "fisheries", "قانون", "budget, annual"]


@pytest.fixture(scope="module")
def tower() -> LexicalTower:
    return LexicalTower.fit([DOCS[:2], DOCS[2:]], [LABELS], SMALL)


def keys(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("dim", 7), ("ngram", 1), ("ngram_bits", 25), ("min_documents", 0), ("nonzeros", 65), ("seed", -1)],
)
def test_a_setting_out_of_range_is_named(setting, value):
    with pytest.raises(SettingError, match=rf"encoder\.lexical\.{setting}={value}: wanted"):
        replace(SMALL, **{setting: value}).validate()


def test_a_key_counts_once_a_text():
    count = FrequencyCount()
    count.add(keys(5, 5, 3, 5), np.array([0, 0, 0, 1]))
    count.add(keys(), np.zeros(0, np.int64))
    count.add(keys(2**64 - 1, 3), np.array([0, 4]))
    assert [part.tolist() for part in count.at_least(1)] == [[3, 5, 2**64 - 1], [2, 2, 1]]
    assert [part.tolist() for part in count.at_least(2)] == [[3, 5], [2, 2]]


def test_rare_keys_are_forgotten_before_memory_is_full(monkeypatch):
    monkeypatch.setattr(lexical, "MAX_COUNTED", 10)
    count = FrequencyCount()
    count.add(keys(1, 2), np.array([0, 1]))
    count.add(keys(*range(2, 14)), np.arange(12))
    assert [part.tolist() for part in count.at_least(1)] == [[2], [2]]


def test_words_of_labels_are_kept_even_where_rare_ones_are_forgotten(monkeypatch):
    monkeypatch.setattr(lexical, "MAX_COUNTED", 3)
    tower = LexicalTower.fit([["one two three four five", "one"]], [["rare"]], SMALL)
    known = LexicalTower.fit([], [["rare"]], SMALL).keys
    assert np.isin(known, tower.keys).all()


def test_features_are_unit_rows_and_repeat_in_any_batch(tower):
    together = tower.features(DOCS)
    norms = np.sqrt(np.asarray(together.multiply(together).sum(axis=1)).ravel())
    assert norms == pytest.approx([1, 1, 1, 0])
    for row, text in enumerate(DOCS):
        alone = tower.features([text])
        assert (together[row] != alone).nnz == 0
        assert (tower.encode([text])[0] == tower.encode(DOCS)[row]).all()
    assert tower.features([]).shape == (0, tower.n_features)
    assert tower.encode([]).shape == (0, 64)


def test_rare_words_weigh_more_and_repeated_ones_by_their_logarithm(tower):
    counts = tower.counts(["air air air islands"])
    counts.sum_duplicates()
    found = tower.features(["air air air islands"])
    by_word = {word: tower.features([word]).indices.min() for word in ("air", "islands")}
    weights = {word: float(found[0, column]) for word, column in by_word.items()}
    idf = {word: float(tower.idf[column]) for word, column in by_word.items()}
    assert idf["islands"] > idf["air"] > 0
    assert weights["air"] / weights["islands"] == pytest.approx(
        (1 + np.log(3)) * idf["air"] / idf["islands"], rel=1e-5
    )


def test_idf_is_the_smoothed_one(tower):
    column = tower.features(["air"]).indices.min()
    assert tower.idf[column] == pytest.approx(1 + np.log((1 + 8) / (1 + 3)))


def test_only_words_in_enough_documents_but_all_of_labels():
    tower = LexicalTower.fit([["one two", "one three"]], [["nine"]], replace(SMALL, min_documents=2))
    n_words = len(tower.keys)
    assert n_words == 2  # one, nine; two, three and the pairs are rare
    fewer = LexicalTower.fit([["one two", "one three"]], [["nine"]], replace(SMALL, max_features=1))
    assert fewer.keys.tolist() == LexicalTower.fit([], [["nine"]], SMALL).keys.tolist()


def test_unknown_words_meet_by_their_hash_and_by_their_grams(tower):
    similarity = (
        tower.features(["zeppelin"]) @ tower.features(["zeppelins", "zeppelin", "tractor"]).T
    ).toarray()
    assert similarity[0, 1] == pytest.approx(1)
    assert similarity[0, 0] > 0.3
    assert similarity[0, 2] < 0.1


def test_inflected_forms_meet_in_any_language(tower):
    pairs = [
        ("Fischerei", "Fischereien"),
        ("kalastus", "kalastuksen"),
        ("القانون", "قانون"),
        ("渔业法", "渔业"),
    ]
    for one, other in pairs:
        assert (tower.features([one]) @ tower.features([other]).T).toarray()[0, 0] > 0.15, (one, other)


def test_projection_keeps_inner_products_in_expectation():
    rng = np.random.default_rng(0)
    rows = unit_rows(sp.random(6, 300, 0.1, format="csr", random_state=rng, dtype=np.float32))
    exact = (rows @ rows.T).toarray()
    seeds = [replace(SMALL, seed=seed) for seed in range(200)]
    found = [(p := rows @ random_projection(300, s)) @ p.T for s in seeds]
    mean = np.mean([f.toarray() for f in found], axis=0)
    assert abs(mean - exact).max() < 4 * np.sqrt(2 / 64 / 200)
    spread = np.std([f.toarray() for f in found], axis=0)
    assert spread.max() < 1.5 * np.sqrt(2 / 64)


def test_projection_follows_from_the_seed_alone():
    one, two = random_projection(50, SMALL), random_projection(50, SMALL)
    assert (one != two).nnz == 0
    assert (one != random_projection(50, replace(SMALL, seed=1))).nnz > 100
    assert (one[:20] != random_projection(20, SMALL)).nnz == 0


def test_encoded_rows_are_unit_or_zero(tower):
    norms = np.linalg.norm(tower.encode(DOCS), axis=1)
    assert norms == pytest.approx([1, 1, 1, 0], abs=1e-6)


def matched(tower, text, label):
    words = tower.words_of(split_words([text]).distinct)
    return [str(words.words[i]) for i in words.found(label)[0].tolist()]


@pytest.mark.parametrize(
    ("text", "label", "wanted"),
    [
        ("Fisheries in the north", "fisheries", ["fisheries"]),
        ("The fishery of the north", "fisheries", ["fishery"]),
        ("an Air-Transport plan", "air transport", ["air", "transport"]),
        ("nothing here", "fisheries", []),
        ("", "fisheries", []),
        ("قانون البحر", "قانون", ["قانون"]),
        ("渔业法", "渔业", ["渔", "业"]),
        ("👩‍⚖️ decides", "👩‍⚖️", ["👩", "⚖"]),
    ],
)
def test_matched_words(tower, text, label, wanted):
    assert sorted(matched(tower, text, tower.features([label]))) == sorted(wanted)


def test_matched_words_of_any_name_of_a_label_those_that_tell_most_first(tower):
    names = tower.features(["air", "islands"])
    assert matched(tower, "by air to the islands", names) == ["islands", "air"]


def test_the_word_itself_holds_more_of_a_label_than_one_alike(tower):
    words = tower.words_of(split_words(["fish of the fisheries"]).distinct)
    found, weights = words.found(tower.features(["fisheries"]))
    held = dict(zip([str(words.words[i]) for i in found.tolist()], weights.tolist(), strict=True))
    assert set(held) <= {"fish", "fisheries"}
    assert held["fisheries"] == pytest.approx(1, abs=1e-5)
    assert held.get("fish", 0) < 0.5


def test_a_word_of_repeated_grams_matches_only_what_is_alike(tower):
    assert matched(tower, "aaaaaaaaaa", tower.features(["baaaab"])) == []


def test_very_long_words_and_texts_of_many_words(tower):
    features = tower.features(["x" * 200_000, "(10E,14E)-" * 3000])
    assert np.isfinite(features.data).all()
    assert (np.diff(features.indptr) > 0).all()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_unit_rows_of_very_small_and_very_large_values(scale):
    rows = unit_rows(sp.csr_matrix(np.array([[3, 4], [0, 0]], np.float32) * np.float32(scale)))
    assert rows.toarray() == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))
    assert rows.dtype == np.float32


def test_unit_keeps_zero_rows():
    assert unit(np.array([[0, 3], [0, 0]], np.float32)).tolist() == [[0, 1], [0, 0]]


def test_the_lead_of_a_document_has_its_share(tower):
    texts = ["fish law\nThe budget of the sea", "fish law"]
    documents, leads = tower.features_of(DocumentBatch(["a", "b"], texts, None, None, ["x:1", "x:2"]))
    whole, only = tower.features(texts).toarray(), tower.features(["fish law"]).toarray()
    assert leads.toarray() == pytest.approx(np.vstack([only, only]))
    wanted = unit((1 - LEAD_SHARE) * whole + LEAD_SHARE * only)
    assert documents.toarray() == pytest.approx(wanted, abs=1e-6)
    assert documents.toarray()[1] == pytest.approx(whole[1], abs=1e-6)


def test_documents_that_are_all_lead_are_not_counted_twice(tower, monkeypatch):
    texts, calls = ["fish law", "", " the sea \n"], []
    monkeypatch.setattr(tower, "counts", lambda t: calls.append(t) or type(tower).counts(tower, t))
    documents, leads = tower.features_of(DocumentBatch([*"abc"], texts, None, None, [*"abc"]))
    assert len(calls) == 1
    assert (documents != leads).nnz == 0


def test_features_of_documents_that_have_none(tower):
    batch = DocumentBatch(["d"], None, sp.csr_matrix((1, 3)), None, ["docs.txt:2"])
    with pytest.raises(InputError, match=r"docs\.txt:2: sparse features, but the model was built on texts"):
        tower.features_of(batch)


def test_saved_and_loaded(tower, tmp_path):
    tower.save(tmp_path)
    again = LexicalTower.load(tmp_path)
    assert again.settings == tower.settings
    assert (again.features(DOCS) != tower.features(DOCS)).nnz == 0
    assert (again.encode(DOCS) == tower.encode(DOCS)).all()


def settings_with(folder: Path, **changed: object) -> None:
    path = folder / "lexical.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("lexical.json", lambda f: settings_with(f, dim="many")),
        ("lexical.json", lambda f: settings_with(f, dim=2)),
        ("lexical.json", lambda f: settings_with(f, dim=64.0)),
        ("lexical.json", lambda f: settings_with(f, seed=-1)),
        ("lexical.json", lambda f: settings_with(f, more=1)),
        ("lexical.json", lambda f: (f / "lexical.json").write_text("[1]")),
        ("fit", lambda f: settings_with(f, ngram_bits=11)),
        ("lexical_keys.npy", lambda f: save_array(f / "lexical_keys.npy", np.zeros(3))),
        ("lexical_keys.npy", lambda f: save_array(f / "lexical_keys.npy", keys(3, 2, 1))),
        ("fit", lambda f: save_array(f / "lexical_keys.npy", keys(1, 2, 3))),
        ("lexical_idf.npy", lambda f: save_array(f / "lexical_idf.npy", np.full(7, np.nan, np.float32))),
        ("lexical_idf.npy", lambda f: save_array(f / "lexical_idf.npy", -np.ones(7, np.float32))),
        ("lexical_idf.npy", lambda f: save_array(f / "lexical_idf.npy", np.ones(7))),
        ("fit", lambda f: save_array(f / "lexical_idf.npy", np.ones(7, np.float32))),
    ],
)
def test_what_cannot_be_a_tower_is_refused_by_name(tower, tmp_path, file, damage):
    tower.save(tmp_path)
    damage(tmp_path)
    with pytest.raises(ArtifactError, match=file) as error:
        LexicalTower.load(tmp_path)
    assert "rebuild the model" in str(error.value)


def test_features_are_not_made_beyond_a_limit_of_time(tower: LexicalTower) -> None:
    with pytest.raises(TooSlowError), time_limit(0):
        tower.features(["air transport"])
