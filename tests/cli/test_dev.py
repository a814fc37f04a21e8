"""`--dev F`: documents that judge and that all is fitted on, and that the model does not hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import DOCS, data_files, docs_file, ids, labels_file, synthetic, tag, xmc
from tests.cases.corpus_t import LABELS as T_LABELS
from tests.cases.test_sparse_features import corpus
from xmc.artifacts import load_array
from xmc.builder import Builder
from xmc.model import Model
from xmc.train.run import Split, Trained

LABELS, DOCUMENTS = synthetic(25, 170)
OWN, DEV = DOCUMENTS[:120], DOCUMENTS[120:]
SETTINGS = ("preset=fast", "threads=1")
QUICK = (*SETTINGS, "train.dim=32", "train.epochs=3")
COMMANDS = {"index": SETTINGS, "train": QUICK}
each_command = pytest.mark.parametrize("command", COMMANDS)


def files(folder: Path, labels=LABELS, docs=OWN, dev=DEV) -> list[object]:
    folder.mkdir(exist_ok=True)
    named = ("--labels", labels_file(folder / "labels.jsonl", labels))
    docs, dev = docs_file(folder / "docs.jsonl", docs), docs_file(folder / "dev.jsonl", dev)
    return [*named, "--docs", docs, "--dev", dev, "-o", folder / "model"]


def made(command: str, folder: Path, *more: object, **given) -> Path:
    assert xmc(command, *files(folder, **given), *COMMANDS[command], *more) == 0
    return folder / "model"


@each_command
def test_the_model_holds_the_other_documents_alone(command, tmp_path, capsys):
    model = Model.load(made(command, tmp_path))
    said = capsys.readouterr().err
    assert "25 with documents; 120 documents" in said
    assert "fitted on 50 documents of --dev, which the model does not hold" in said
    assert model.memory.ids.to_pylist() == [i for i, _, _ in OWN]
    assert model.frequency.sum() == sum(len(gold) for _, _, gold in OWN)
    sample = model.weights.calibration.sample
    hidden = {model.labels.id(row) for row in np.flatnonzero((sample.frequency == 0) & (model.frequency > 0))}
    assert sample.gold.shape[0] == len(DEV)
    assert sample.gold.nnz == sum(label not in hidden for _, _, gold in DEV for label in gold)


@each_command
def test_texts_that_only_judge_are_learned_in_no_way(command, tmp_path):
    """Neither their words nor how often they occur: the same encoder and memory."""
    one = data_files(made(command, tmp_path / "one"))
    odd = [(i, f"quixotry {text} windmills", gold) for i, text, gold in DEV]
    other = data_files(made(command, tmp_path / "other", dev=odd))
    differs = {name for name in one if one[name] != other[name]}
    fitted = {"weights.json", "encoder/dual.json", "memory/index/vectors.npy"}
    assert "weights.json" in differs
    assert {name for name in differs if name.startswith(("encoder", "memory", "matcher"))} <= fitted


@each_command
def test_labels_that_only_documents_that_judge_have_are_found_by_name(command, tmp_path):
    fresh = [("new", "quixotry"), ("newer", "windmills")]
    dev = [*DEV, ("e1", "On quixotry", ["new"]), ("e2", "All windmills", ["newer"])]
    model = made(command, tmp_path, labels=[*LABELS, *fresh], dev=dev)
    assert Model.load(model).frequency.tolist()[-2:] == [0, 0]
    found = tag(model, tmp_path / "dev.jsonl", tmp_path / "out.jsonl")
    assert [ids(found[i])[0] for i in ("e1", "e2")] == ["new", "newer"]


@each_command
def test_what_is_wrong_is_told_in_one_line_and_leaves_nothing(command, tmp_path, capsys):
    arguments = files(tmp_path, dev=[*DEV, OWN[0]])
    assert xmc(command, *arguments, *COMMANDS[command]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "model").exists()
    assert [p.name for p in tmp_path.glob(".*") if not p.name.endswith("-lock")] == []


def test_nothing_is_trained_again(tmp_path, monkeypatch):
    splits = watched(monkeypatch)
    made("train", tmp_path)
    assert len(splits) == 1
    assert splits[0].docs.tolist() == list(range(120))
    assert splits[0].dev.tolist() == list(range(120, 170))


def test_many_documents_with_the_words_of_those_that_judge_are_trained_on_in_the_end(tmp_path, monkeypatch):
    splits = watched(monkeypatch)
    again = [(f"again-{i}", text, gold) for i, text, gold in OWN[:20]]
    model = Model.load(made("train", tmp_path, dev=[*DEV, *again]))
    assert [each.docs.tolist() for each in splits] == [list(range(20, 120)), list(range(120))]
    assert not len(splits[1].dev)
    assert len(model.memory) == 120


def watched(monkeypatch) -> list[Split]:
    """The splits of trainings to come."""
    splits: list[Split] = []
    trained = Builder._trained

    def seen(self, labels, towers, split: Split, name: str) -> Trained:
        splits.append(split)
        return trained(self, labels, towers, split, name)

    monkeypatch.setattr(Builder, "_trained", seen)
    return splits


def test_index_without_other_documents(tmp_path, capsys):
    """Labels by their names alone, with weights and probabilities that were fitted."""
    labels = labels_file(tmp_path / "labels.jsonl", LABELS)
    dev = docs_file(tmp_path / "dev.jsonl", DOCUMENTS)
    out = tmp_path / "model"
    assert xmc("index", "--labels", labels, "--dev", dev, "-o", out, *SETTINGS) == 0
    model = Model.load(out)
    assert model.memory is None
    assert model.weights.calibration is not None
    found = tag(out, dev, tmp_path / "out.jsonl", "threshold=precision=0.5")
    assert np.mean([ids(found[i])[0] in gold for i, _, gold in DOCUMENTS if ids(found[i])]) > 0.8


@each_command
def test_sparse_features(command, tmp_path):
    train, dev = corpus(tmp_path / "train.txt", 120), corpus(tmp_path / "dev.txt", 40, 1)
    arguments = ("--docs", train, "--dev", dev, "-o", tmp_path / "model")
    assert xmc(command, *arguments, *COMMANDS[command]) == 0
    assert len(Model.load(tmp_path / "model").memory) == 120


@each_command
def test_documents_without_words_judge_nothing(command, tmp_path):
    model = made(command, tmp_path, docs=DOCS, labels=T_LABELS, dev=[("e1", "", ["L1"]), ("e2", "!", ["L2"])])
    assert len(Model.load(model).memory) == 5
    assert ids(tag(model, tmp_path / "docs.jsonl", tmp_path / "out.jsonl")["d1"])[0] == "L1"


@each_command
def test_documents_whose_words_all_stand_in_those_that_judge(command, tmp_path):
    """Otherwise none would be left to fit with."""
    again = [(f"e{i}", text, gold) for i, text, gold in OWN]
    assert len(Model.load(made(command, tmp_path, dev=again)).memory) == 120


def test_windows_of_documents_that_judge_are_not_kept(tmp_path):
    settings = ("threads=1", "encoder.max_length=32")
    assert xmc("index", *files(tmp_path, docs=OWN[:30], dev=DEV[:10]), *settings) == 0
    assert len(load_array(tmp_path / "model" / "memory" / "windows" / "indptr.npy")) == 31
    assert len(Model.load(tmp_path / "model").memory.windows) == 30
