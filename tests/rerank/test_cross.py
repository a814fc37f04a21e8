"""Texts of documents and labels read together, by a tiny encoder with drawn weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import data_files, docs_file, forged, index, labels_file, tag, xmc
from tests.edit.made import label_set
from tests.encoders.tiny import tiny_model
from xmc.artifacts import ArtifactWriter, save_array, save_json
from xmc.data.labels import LabelSet
from xmc.edit.labels import add_labels
from xmc.encoders.dense import DenseTower
from xmc.errors import ArtifactError, SettingError
from xmc.mix import Mix
from xmc.model import Model
from xmc.rerank.cross import DESCRIPTION, HEAD, NAMES, UNFITTED, CrossEncoder, load_base, text_pairs
from xmc.settings import RerankSettings, RunSettings
from xmc.shortlist import Candidates
from xmc.tag.tagger import Tagger

ON_CPU = ("device=cpu", "dtype=fp32")
LABELS = [
    ("L0", "air transport"),
    ("L1", "law of the sea"),
    ("L2", "fisheries"),
    ("L3", ""),
    ("L4", "rocket"),
]
TEXTS = ["air law", "", "the sea and the fisheries of the sea and the budget of the space", "annual budget"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny") / "tiny")


@pytest.fixture(scope="module")
def tower(folder) -> DenseTower:
    return load_base(RerankSettings(str(folder), tokens=16), RunSettings(device="cpu", dtype="fp32"))


@pytest.fixture(scope="module")
def labels() -> LabelSet:
    return label_set(LABELS)


@pytest.fixture(scope="module")
def cross(tower) -> CrossEncoder:
    head = np.random.default_rng(0).normal(0, 0.3, tower.dim + 1).astype(np.float32)
    return CrossEncoder(tower, head, Mix.of(NAMES, score=0.9, text=1.5, constant=-0.25), 2)


def words(tower: DenseTower, ids: np.ndarray) -> str:
    return " ".join(tower.tokenizer.id_to_token(int(i)) for i in ids)


def test_the_beginning_of_the_document_stands_before_the_label(tower, labels):
    of_doc, rows = np.array([0, 2, 2]), np.array([4, 1, 2])
    pairs, there = text_pairs(tower, TEXTS, labels, of_doc, rows)
    assert there.all()
    read = np.split(pairs.ids, np.cumsum(pairs.lengths)[:-1])
    assert [words(tower, ids) for ids in read] == [
        "[CLS] air law [SEP] rocket [SEP]",
        "[CLS] the sea [UNK] the fish ##eries of the sea [SEP] law of the sea [SEP]",
        "[CLS] the sea [UNK] the fish ##eries of the sea [UNK] the [SEP] fish ##eries [SEP]",
    ]
    assert pairs.lengths.max() == 16
    some = pairs.take(np.array([2, 0]))
    assert (some.ids == np.concatenate([read[2], read[0]])).all()


def test_a_long_label_takes_half(tower):
    pairs, _ = text_pairs(
        tower, ["rocket " * 20], label_set([("L", "sea " * 30)]), np.zeros(1, int), np.zeros(1, int)
    )
    assert words(tower, pairs.ids).split(" [SEP]")[:2] == ["[CLS]" + " rocket" * 7, " sea" * 6]


def test_where_either_has_no_token_there_is_no_pair(tower, labels):
    pairs, there = text_pairs(tower, TEXTS, labels, np.array([0, 0, 1, 3]), np.array([0, 3, 0, 4]))
    assert there.tolist() == [True, False, False, True]
    assert len(pairs.lengths) == 2
    none, there = text_pairs(tower, TEXTS, labels, np.zeros(0, int), np.zeros(0, int))
    assert len(none.ids) == len(none.lengths) == len(there) == 0


def candidates() -> tuple[Candidates, np.ndarray]:
    """Five of document 0, none of 1, three of 2, two of 3, with their log odds."""
    rows = np.array([0, 1, 2, 3, 4, 0, 1, 2, 2, 4])
    indptr = np.array([0, 5, 5, 8, 10])
    log_odds = np.array([-3, 1, 0, 2, -1, 0.5, -0.5, 0.2, -2, -1], np.float32)
    return Candidates(indptr, rows, np.zeros((10, 6), np.float32), None), log_odds


def test_the_best_of_a_document_are_read_and_the_others_stay(cross, labels):
    found, log_odds = candidates()
    again = cross.score(log_odds, found, TEXTS, labels)
    assert again.dtype == np.float32
    # The two best each, but for the label without a text.
    assert np.flatnonzero(again != log_odds).tolist() == [1, 5, 7, 8, 9]
    pairs, _ = text_pairs(cross.tower, TEXTS, labels, np.array([2]), np.array([2]))
    assert again[7] == pytest.approx(0.9 * log_odds[7] + 1.5 * cross.read(pairs)[0] - 0.25, abs=1e-5)


def test_a_pair_is_read_alike_in_any_batch(cross, labels):
    found, log_odds = candidates()
    again = cross.score(log_odds, found, TEXTS, labels)
    alone = Candidates(np.array([0, 3]), found.rows[5:8], found.features[5:8], None)
    assert cross.score(log_odds[5:8], alone, TEXTS[2:3], labels) == pytest.approx(again[5:8], abs=1e-5)


def test_what_is_said_depends_on_both_texts(cross, labels):
    pairs, _ = text_pairs(cross.tower, TEXTS, labels, np.array([0, 0, 3, 3]), np.array([0, 4, 0, 4]))
    read = cross.read(pairs).astype(float)
    assert abs(read[0] - read[1] - read[2] + read[3]) > 1e-3


def test_more_tokens_than_the_encoder_takes_are_refused(folder):
    with pytest.raises(SettingError, match=r"rerank\.tokens=65: .* wanted 8 to 64 tokens"):
        load_base(RerankSettings(str(folder), tokens=65), RunSettings(device="cpu"))


def saved(cross: CrossEncoder, at: Path) -> Path:
    cross.save(at)
    return at


def test_saved_and_loaded_it_says_the_same(cross, labels, tmp_path):
    again = CrossEncoder.load(saved(cross, tmp_path / "cross"), "cpu", "fp32")
    found, log_odds = candidates()
    assert (again.top, again.tower.max_length) == (cross.top, 16)
    assert (again.score(log_odds, found, TEXTS, labels) == cross.score(log_odds, found, TEXTS, labels)).all()


DAMAGES: dict[str, Callable[[Path, CrossEncoder], object]] = {
    "cross.json: top is 0": lambda at, c: save_json(at / DESCRIPTION, {"top": 0, "mix": c.mix.to_json()}),
    "cross.json: the fitted weights": lambda at, c: save_json(
        at / DESCRIPTION, {"top": 2, "mix": {"text": 1.0}}
    ),
    "head.npy: holds no weights for vectors of 32": lambda at, c: save_array(at / HEAD, c.head[1:]),
    "head.npy: holds no weights for": lambda at, c: save_array(at / HEAD, c.head * np.float32("nan")),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damaged_parts_are_refused_by_name(cross, tmp_path, message):
    at = saved(cross, tmp_path / "cross")
    DAMAGES[message](at, cross)
    with pytest.raises(ArtifactError, match=message):
        CrossEncoder.load(at, "cpu", "fp32")


@pytest.fixture(scope="module")
def path(cross, tmp_path_factory) -> Path:
    """A model of corpus T with a cross-encoder that nobody fitted."""
    folder = tmp_path_factory.mktemp("model")
    files = labels_file(folder / "labels.jsonl"), docs_file(folder / "docs.jsonl")
    model = Model.load(index(folder / "first", *files), "cpu", "fp32")
    with ArtifactWriter(folder / "model", "model") as writer:
        replace(model, cross=cross).save(writer.path)
    return folder / "model"


def scores(model: Model, text: str = "Air law") -> dict[str, float]:
    return {found.id: found.score for found in Tagger(model).tag([text])[0]}


def test_a_model_holds_it_and_scores_the_best_with_it(path, tmp_path):
    model = Model.load(path, "cpu", "fp32")
    plain = scores(replace(model, cross=None))
    assert sum(plain[name] != score for name, score in scores(model).items()) == 2
    docs = docs_file(tmp_path / "docs.jsonl", [("d", "Air law", [])])
    found = tag(path, docs, tmp_path / "out.jsonl", "tag.evidence=true", *ON_CPU)["d"]["suggestions"]
    assert {each["id"]: each["score"] for each in found} == pytest.approx(scores(model), abs=1e-6)
    for each in found:  # the reranker's share holds what the texts changed
        odds = np.log(each["score"] / (1 - each["score"]))
        assert sum(each["evidence"]["shares"].values()) == pytest.approx(odds, abs=2e-3)


def test_a_label_that_was_added_is_read_at_once(path):
    model = Model.load(path, "cpu", "fp32")
    changed, _ = add_labels(model, label_set([("new", "air law")]))
    assert changed.cross is model.cross
    assert scores(changed)["new"] != scores(replace(changed, cross=None))["new"]


def test_a_change_by_command_keeps_its_files(path, tmp_path):
    copy = forged(path, tmp_path / "model", lambda folder: None)
    labels = labels_file(tmp_path / "new.jsonl", [("new", "law of the sea")])
    assert xmc("labels", "add", "--model", copy, "--labels", labels, *ON_CPU) == 0
    before, after = data_files(path), data_files(copy)
    kept = [name for name in before if name.startswith("cross/")]
    assert len(kept) > 4
    assert all(after[name] == before[name] for name in kept)


def test_unfitted_it_adds_what_it_reads():
    assert UNFITTED(np.array([[2.0, 0.5, 1.0]], np.float32))[0] == 2.5
