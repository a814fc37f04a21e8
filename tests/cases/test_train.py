"""`xmc train` through the whole path, words only: the model loads, tags, and holds what was trained."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cases.corpus_t import (
    DOCS,
    LABELS,
    data_files,
    docs_file,
    ids,
    index,
    jsonl,
    labels_file,
    synthetic,
    tag,
    xmc,
)
from tests.cases.test_sparse_features import corpus
from xmc.builder import Builder
from xmc.data.records import DocumentBatch
from xmc.fit import held_out
from xmc.model import Model
from xmc.tag.suggestions import TagOptions
from xmc.tag.tagger import Tagger
from xmc.train import run
from xmc.train.loop import Recipe, Trainer

QUICK = ("preset=fast", "threads=1", "train.dim=32", "train.epochs=3")
SYNTHETIC = synthetic(25, 150)
DECOUPLED = "train.loss=decoupled_softmax"


def files(folder: Path, labels: Any = SYNTHETIC[0], docs: Any = SYNTHETIC[1]) -> tuple[Path, Path]:
    folder.mkdir(exist_ok=True)
    return labels_file(folder / "labels.jsonl", labels), docs_file(folder / "docs.jsonl", docs)


def train(out: Path, labels: Path | None, docs: Path, *more: object) -> Path:
    named = [] if labels is None else ["--labels", labels]
    assert xmc("train", *named, "--docs", docs, "-o", out, *QUICK, *more) == 0
    return out


def precision(model: Path, docs: Path, out: Path) -> float:
    found, gold = tag(model, docs, out), [json.loads(line) for line in docs.read_text().splitlines()]
    return float(np.mean([ids(found[doc["id"]])[0] in doc["labels"] for doc in gold]))


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    return train(folder / "model", *files(folder))


def test_train_tag_eval(model, tmp_path, capsys):
    tower = Tagger.load(model).encoder.trained
    assert tower is not None
    assert tower.dim == 32
    assert Model.load(model).encoder.trained_share > 0
    test = docs_file(tmp_path / "test.jsonl", synthetic(25, 250)[1][150:])
    assert precision(model, test, tmp_path / "out.jsonl") > 0.9
    capsys.readouterr()
    assert xmc("eval", "--gold", test, "--pred", tmp_path / "out.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["P@1"] > 90


def test_evidence_gives_the_trained_tower_its_share_and_adds_up(model):
    tagger, names = Tagger.load(model), [doc_id for doc_id, _, _ in SYNTHETIC[1]]
    batch = DocumentBatch(names, [text for _, text, _ in SYNTHETIC[1]], None, None, names)
    told = tagger.tag_batch(batch, TagOptions(evidence=True))
    encoded = tagger.encoder.encode(batch)
    found = tagger.shortlister.candidates(encoded)
    log_odds = tagger.weights.score(found, tagger.frequency, encoded, tagger.shortlister)
    wanted = dict(zip(zip(found.of_doc, found.rows, strict=True), log_odds, strict=True))
    pairs = zip(told.documents, told.rows, strict=True)
    total = [sum(each.shares.values()) for each in told.evidence]
    assert total == pytest.approx([wanted[pair] for pair in pairs], abs=2e-3)
    assert any(each.shares["trained"] > 0 for each in told.evidence)
    assert any(each.shares["reranker"] for each in told.evidence) == (tagger.weights.reranker is not None)


def test_what_is_said_and_what_is_left(tmp_path, capsys):
    labels, docs = files(tmp_path)
    torch.set_warn_always(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            train(tmp_path / "model", labels, docs)
        finally:
            torch.set_warn_always(False)
    said = capsys.readouterr()
    assert said.out == ""
    lines = said.err.splitlines()
    epochs = [line.split(":")[1].strip() for line in lines if "epoch" in line]
    assert epochs[:3] == ["epoch 1", "epoch 2", "epoch 3"]
    assert epochs[3:]  # on all documents, to the best of these
    assert epochs[3:] == epochs[: len(epochs) - 3]
    assert lines[-2] == "xmc: 25 labels, 25 of them scoreable, 25 with documents; 150 documents"
    assert lines[-1].startswith("xmc: calibration error ")
    assert [p.name for p in tmp_path.glob(".*")] == [".model.xmc-lock"]


def test_inspect_tells_how_it_was_trained(model, capsys):
    assert xmc("inspect", model, "--verify", "--json") == 0
    found = json.loads(capsys.readouterr().out)["artifacts"][0]["manifest"]
    assert found["built_by"] == "xmc train"
    assert found["settings"]["train.dim"] == 32


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(model, tmp_path):
    paths = files(tmp_path)
    again, other = (data_files(train(tmp_path / seed, *paths, f"seed={seed}")) for seed in "01")
    assert again == data_files(model)
    assert again["encoder/trained.safetensors"] != other["encoder/trained.safetensors"]


def test_it_differs_from_an_untrained_model_by_the_trained_part(model, tmp_path):
    untrained = index(tmp_path / "model", *files(tmp_path))
    one, other = data_files(model), data_files(untrained)
    of_training = {"encoder/trained.safetensors", "encoder/trained_columns.npy", "training/state.safetensors"}
    assert set(one) - set(other) == of_training
    assert Tagger.load(untrained).encoder.trained is None


def test_sparse_features(tmp_path, capsys):
    """Without texts: the labels are known by their documents alone."""
    model = train(tmp_path / "model", None, corpus(tmp_path / "train.txt", 120))
    assert Tagger.load(model).encoder.trained is not None
    test = corpus(tmp_path / "test.txt", 40, 1)
    tag(model, test, tmp_path / "out.jsonl")
    capsys.readouterr()
    assert xmc("eval", "--gold", test, "--pred", tmp_path / "out.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["P@1"] > 90


@pytest.mark.parametrize("more", [(), (DECOUPLED,)], ids=["bce", "decoupled_softmax"])
def test_label_texts_of_words_that_no_document_holds(more, tmp_path):
    """None of them has an embedding; the documents say what the labels mean."""
    labels = [(i, f"namen{i}") for i, _ in SYNTHETIC[0]]
    model = train(tmp_path / "model", *files(tmp_path, labels), *more)
    assert precision(model, tmp_path / "docs.jsonl", tmp_path / "out.jsonl") > 0.9


def test_labels_without_documents_are_still_found_by_name(tmp_path):
    labels = [*SYNTHETIC[0], ("new", "quixotry windmills"), ("blank", "")]
    paths = files(tmp_path, labels)
    docs = docs_file(tmp_path / "q.jsonl", [("q", "of quixotry and windmills", [])])
    for loss in ("bce", "decoupled_softmax"):
        model = train(tmp_path / loss, *paths, f"train.loss={loss}")
        assert ids(tag(model, docs, tmp_path / f"{loss}.jsonl")["q"])[0] == "new"
        assert Model.load(model).scoreable.tolist() == [True] * 26 + [False]


def test_retired_labels_are_not_suggested(tmp_path):
    labels = jsonl(
        tmp_path / "labels.jsonl", ({"id": i, "text": t, "retired": i == "L3"} for i, t in SYNTHETIC[0])
    )
    docs = docs_file(tmp_path / "docs.jsonl", SYNTHETIC[1])
    model = train(tmp_path / "model", labels, docs)
    assert not any("L3" in ids(each) for each in tag(model, docs, tmp_path / "out.jsonl").values())


@pytest.mark.parametrize("n_docs", [1, 4, 60])
def test_few_documents(n_docs, tmp_path):
    model = train(tmp_path / "model", *files(tmp_path, docs=SYNTHETIC[1][:n_docs]))
    assert precision(model, tmp_path / "docs.jsonl", tmp_path / "out.jsonl") == 1


def test_corpus_t_and_its_blank_relatives(tmp_path):
    blank = [("d6", "", ["L1"]), ("d7", "!!!", ["L2"]), ("d8", "Fish", [])]
    model = train(tmp_path / "model", *files(tmp_path, [*LABELS, ("L5", "")], [*DOCS, *blank]))
    found = tag(model, tmp_path / "docs.jsonl", tmp_path / "out.jsonl")
    assert [ids(found[f"d{i}"])[0] for i in (1, 3, 5)] == ["L1", "L3", "L2"]
    assert found["d6"]["suggestions"] == []


def test_where_only_held_out_documents_have_gold_labels(tmp_path):
    """Nothing is left to train on."""
    held = held_out(len(DOCS), 0)
    docs = [(i, text, gold if held[row] else []) for row, (i, text, gold) in enumerate(DOCS)]
    model = train(tmp_path / "model", *files(tmp_path, LABELS, docs))
    assert ids(tag(model, tmp_path / "docs.jsonl", tmp_path / "out.jsonl")["d1"])[0] == "L1"


def test_documents_without_any_gold_label_give_an_untrained_model(tmp_path):
    model = train(tmp_path / "model", *files(tmp_path, docs=[(i, text, []) for i, text, _ in SYNTHETIC[1]]))
    assert Tagger.load(model).encoder.trained is None


@pytest.mark.parametrize("n_docs", [4, 60])
def test_labels_are_searched_by_the_scores_that_were_fitted(n_docs, tmp_path, monkeypatch):
    """What was learned counts in the index as it did in the fit, with many documents or few."""
    seen: dict[str, Any] = {}
    make_index = Builder._index

    def watched(self: Builder, rows: np.ndarray, vectors: np.ndarray, towers: np.ndarray) -> Any:
        queries = np.hstack([towers * self.encoder.scale, np.ones((len(towers), 1), np.float32)])
        seen["found"] = queries @ vectors.T
        return make_index(self, rows, vectors, towers)

    def parts(self: Builder, labels: Any, towers: np.ndarray, gold: Any, trained: Any) -> Any:
        seen["parts"], seen["towers"] = make_parts(self, labels, towers, gold, trained), np.array(towers)
        return seen["parts"]

    make_parts = Builder._parts
    monkeypatch.setattr(Builder, "_index", watched)
    monkeypatch.setattr(Builder, "_parts", parts)
    model = Model.load(train(tmp_path / "model", *files(tmp_path, docs=SYNTHETIC[1][:n_docs]), DECOUPLED))
    of_doc, rows = np.arange(n_docs).repeat(25), np.tile(np.arange(25), n_docs)
    wanted = model.weights.prototype(seen["parts"].pair_features(seen["towers"], of_doc, rows))
    assert np.abs(seen["found"].ravel() - wanted).max() < 1e-2


def test_both_trainings_minimise_the_same(tmp_path, monkeypatch):
    """Although the labels have eight documents or more only if those held out are counted."""
    recipes: list[Recipe] = []

    def watched(data: Any, tower: Any, recipe: Recipe, before: None) -> Trainer:
        recipes.append(recipe)
        return Trainer(data, tower, recipe, before)

    monkeypatch.setattr(run, "Trainer", watched)
    model = Model.load(train(tmp_path / "model", *files(tmp_path, *synthetic(32, 150))))
    assert 0.8 * model.frequency.mean() < run.ENOUGH < model.frequency.mean()
    assert len({recipe.loss for recipe in recipes}) == 1
    assert len(recipes) == 2


def test_without_documents_it_is_the_other_command(tmp_path, capsys):
    labels = labels_file(tmp_path / "labels.jsonl")
    assert xmc("train", "--labels", labels, "-o", tmp_path / "model", *QUICK) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--docs" in said
    assert "xmc index" in said
    assert not (tmp_path / "model").exists()


def test_a_model_is_not_replaced(model, tmp_path, capsys):
    before = data_files(model)
    labels, docs = files(tmp_path)
    assert xmc("train", "--labels", labels, "--docs", docs, "-o", model, *QUICK) == 2
    assert "already exists" in capsys.readouterr().err
    assert data_files(model) == before


def test_a_rate_that_is_far_too_high_is_told_in_one_line(tmp_path, capsys):
    labels, docs = files(tmp_path)
    named = ("--labels", labels, "--docs", docs, "-o", tmp_path / "model")
    assert xmc("train", *named, "preset=fast", "threads=1", "train.rate=1e30") == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("xmc: error: ")
    assert "train.rate" in said[-1]
    assert not (tmp_path / "model").exists()


def test_documents_without_labels_train_nothing_and_it_is_said(tmp_path, capsys):
    labels, docs = files(tmp_path, docs=[(i, text, []) for i, text, _ in SYNTHETIC[1]])
    model = train(tmp_path / "model", labels, docs)
    assert "nothing was trained" in capsys.readouterr().err
    assert Tagger.load(model).encoder.trained is None
