from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from tests.cases.corpus_t import DOCS, LABELS, data_files, docs_file, jsonl, labels_file, synthetic
from xmc import builder, source
from xmc.build import build_model
from xmc.errors import InputError, SettingError
from xmc.model import Model
from xmc.settings import (
    BuildSettings,
    EncoderSettings,
    IndexSettings,
    RunSettings,
    TrainingSettings,
    TrainSettings,
    WordSettings,
)

FAST = BuildSettings(encoder=EncoderSettings(dense="none"))
TRAINED = TrainingSettings(encoder=EncoderSettings(dense="none"), train=TrainSettings(epochs=1, dim=8))


@pytest.fixture
def labels(tmp_path) -> Path:
    return labels_file(tmp_path / "labels.jsonl")


@pytest.fixture
def docs(tmp_path) -> Path:
    return docs_file(tmp_path / "docs.jsonl")


def built(labels, docs, out: Path, settings: BuildSettings = FAST, filter_pairs: Path | None = None) -> Model:
    build_model(labels, docs, filter_pairs, out, settings)
    return Model.load(out)


def leftovers(folder: Path) -> list[str]:
    """Hidden files beside a model, but for the lock."""
    return sorted(p.name for p in folder.glob(".*") if not p.name.endswith(".xmc-lock"))


def test_a_model_of_labels_and_documents(labels, docs, tmp_path, capsys):
    model = built(labels, [docs], tmp_path / "model")
    assert model.labels.ids.to_pylist() == ["L1", "L2", "L3", "L4"]
    assert model.frequency.tolist() == [1, 2, 1, 2]
    assert model.memory.ids.to_pylist() == ["d1", "d2", "d3", "d4", "d5"]
    assert model.index.n_searchable == 4
    assert leftovers(tmp_path) == []
    assert "4 labels, 4 of them scoreable, 4 with documents; 5 documents" in capsys.readouterr().err


def test_labels_alone(labels, tmp_path):
    model = built(labels, None, tmp_path / "model")
    assert model.memory is None
    assert model.index.n_searchable == 4


def test_labels_without_words_and_documents_are_kept_counted_and_listed(docs, tmp_path, capsys):
    odd = [*LABELS, ("L5", ""), ("L6", "!!!"), ("L7", "\u200b")]
    model = built(labels_file(tmp_path / "odd.jsonl", odd), [docs], tmp_path / "model")
    assert len(model.labels) == 7
    assert model.scoreable.tolist() == [True] * 4 + [False] * 3
    said = capsys.readouterr().err
    assert "7 labels, 4 of them scoreable" in said
    assert "3 labels without words and documents, not scoreable yet: 'L5', 'L6', 'L7'" in said


def test_a_label_without_text_but_with_a_document_is_scoreable(tmp_path):
    labels = labels_file(tmp_path / "labels.jsonl", [("L1", ""), ("L2", "")])
    docs = docs_file(tmp_path / "docs.jsonl", [("d1", "fish", ["L1"])])
    assert built(labels, [docs], tmp_path / "model").scoreable.tolist() == [True, False]


def test_what_is_wrong_in_the_data_leaves_nothing_behind(labels, tmp_path):
    docs = docs_file(tmp_path / "docs.jsonl", [("d1", "fish", ["L9"])])
    with pytest.raises(InputError, match="1 gold label outside vocabulary"):
        build_model(labels, [docs], None, tmp_path / "model", FAST)
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "model").exists()


def test_an_error_in_the_middle_leaves_nothing_behind(labels, docs, tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "held_out", grow_after(docs))
    with pytest.raises(InputError, match="the documents changed while they were read"):
        build_model(labels, [docs], None, tmp_path / "model", FAST)
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "model").exists()


def grow_after(docs: Path):
    """`held_out`, behind which somebody writes another document into the file."""

    def held_out(n_docs: int, seed: int, n_dev: int, known: None) -> np.ndarray:
        with docs.open("a") as file:
            file.write(json.dumps({"id": "d9", "text": "late"}) + "\n")
        return np.zeros(n_docs, bool)

    return held_out


def test_a_model_is_not_replaced(labels, docs, tmp_path):
    before = data_files(built(labels, [docs], tmp_path / "model") and tmp_path / "model")
    with pytest.raises(InputError, match="already exists"):
        build_model(labels, None, None, tmp_path / "model", FAST)
    assert data_files(tmp_path / "model") == before


def test_documents_that_define_no_labels_need_a_label_file(docs, tmp_path):
    with pytest.raises(SettingError, match="--labels F is missing"):
        build_model(None, [docs], None, tmp_path / "model", FAST)


def test_pairs_of_a_filter_do_not_count(labels, docs, tmp_path):
    pairs = tmp_path / "filter.txt"
    pairs.write_text("1 3\n1 3\n0 2\n")
    assert built(labels, [docs], tmp_path / "model", FAST, pairs).frequency.tolist() == [1, 2, 1, 1]


@pytest.mark.parametrize("pair", ["5 0", "0 4"])
def test_a_filter_beyond_the_data_is_refused(labels, docs, tmp_path, pair):
    pairs = tmp_path / "filter.txt"
    pairs.write_text(pair + "\n")
    with pytest.raises(InputError, match=r"filter\.txt: names document or label rows beyond 5 and 4"):
        build_model(labels, [docs], pairs, tmp_path / "model", FAST)


def test_without_takes_out_what_is_there_and_nothing_else():
    gold = sp.csr_matrix(np.array([[1, 1, 0], [0, 0, 1]], np.float32))
    pairs = np.array([[0, 1], [1, 0], [0, 1]])
    assert source._without(gold, pairs, "f", 2).toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    assert source._without(gold, pairs[:0], "f", 2).toarray().tolist() == gold.toarray().tolist()


def test_blocks_that_know_fewer_labels_are_widened():
    blocks = [sp.csr_matrix(np.eye(2, dtype=np.float32)), sp.csr_matrix(np.ones((1, 3), np.float32))]
    assert source._stack(blocks, 3).toarray().tolist() == [[1, 0, 0], [0, 1, 0], [1, 1, 1]]
    assert source._stack([], 3).shape == (0, 3)


def test_unknown_gold_labels_can_be_added(labels, tmp_path):
    docs = docs_file(tmp_path / "docs.jsonl", [*DOCS, ("d6", "rockets in orbit", ["space"])])
    read = type(FAST.read)(on_unknown_label="add")
    model = built(labels, [docs], tmp_path / "model", BuildSettings(FAST.encoder, read=read))
    assert model.labels.ids.to_pylist()[-1] == "space"
    assert model.scoreable.all()


@pytest.mark.parametrize("kind", ["hnsw", "ivf_flat"])
def test_the_index_is_built_as_it_was_asked_for(tmp_path, kind):
    labels, docs = synthetic(500, 20)
    settings = BuildSettings(FAST.encoder, IndexSettings(kind, recall=0.5))
    paths = labels_file(tmp_path / "l.jsonl", labels), [docs_file(tmp_path / "d.jsonl", docs)]
    model = built(*paths, tmp_path / "model", settings)
    assert model.index.built_as == kind
    assert model.index.recall == 0.5
    assert (tmp_path / "model" / "index" / "index.faiss").is_file()


def test_too_few_labels_for_an_index(labels, tmp_path, capsys):
    few = BuildSettings(FAST.encoder, IndexSettings("ivf_pq"))
    assert built(labels, None, tmp_path / "model", few).index.built_as == "exact"
    assert "exact is used instead" in capsys.readouterr().err
    with pytest.raises(SettingError, match="39 per cluster"):
        build_model(labels, None, None, tmp_path / "m2", BuildSettings(few.encoder, few.index, strict=True))


def test_retired_labels_are_kept_and_not_scoreable(docs, tmp_path):
    records = ({"id": i, "text": t, "retired": i == "L2"} for i, t in LABELS)
    model = built(jsonl(tmp_path / "labels.jsonl", records), [docs], tmp_path / "model")
    assert model.scoreable.tolist() == [True, False, True, True]


def test_threads_are_what_was_asked_for(labels, docs, tmp_path):
    before = torch.get_num_threads()
    try:
        built(labels, [docs], tmp_path / "model", BuildSettings(FAST.encoder, run=RunSettings(threads=1)))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_the_same_input_and_seed_give_the_same_bytes(tmp_path):
    labels, docs = synthetic(30, 80)
    paths = labels_file(tmp_path / "l.jsonl", labels), [docs_file(tmp_path / "d.jsonl", docs)]
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        build_model(*paths, None, tmp_path / name, BuildSettings(FAST.encoder, run=RunSettings(seed=seed)))
    one, other, third = (data_files(tmp_path / name) for name in "abc")
    assert one == other
    assert one["index/vectors.npy"] != third["index/vectors.npy"]
    assert one["weights.json"] != third["weights.json"]


def test_shards_of_any_size_give_the_same_bytes(tmp_path, monkeypatch):
    labels, docs = synthetic(30, 80)
    paths = labels_file(tmp_path / "l.jsonl", labels), [docs_file(tmp_path / "d.jsonl", docs)]
    build_model(*paths, None, tmp_path / "whole", FAST)
    monkeypatch.setattr(builder, "SHARD", 7)
    monkeypatch.setattr(source, "SHARD", 7)
    build_model(*paths, None, tmp_path / "pieces", FAST)
    assert data_files(tmp_path / "pieces") == data_files(tmp_path / "whole")


def test_no_document_meets_its_duplicate_in_the_fit(tmp_path, monkeypatch):
    tasks = []

    class Seen(builder.FitTask):
        def fit(self):
            tasks.append(self)
            return super().fit()

    monkeypatch.setattr(builder, "FitTask", Seen)
    label_records, documents = synthetic(60, 150)
    twins = [(f"again-{i}", text, gold) for i, text, gold in documents]
    docs = docs_file(tmp_path / "docs.jsonl", [*documents, *twins])
    model = built(labels_file(tmp_path / "labels.jsonl", label_records), [docs], tmp_path / "model")
    assert len(model.memory) == 300
    task = tasks[0]
    found = task.memory.neighbours(task.encoded.towers * task.encoder.scale, 10, task.among)
    assert found.scores.max() < 0.999
    apart = np.flatnonzero(~task.among)
    assert len(set(apart % 150)) * 2 == len(apart)
    known = sum(len(documents[i % 150][2]) for i in np.flatnonzero(task.among))
    assert task.parts.frequency.sum() == task.memory.labels.nnz <= known


def test_classifiers_learn_nothing_of_the_documents_that_judge(tmp_path):
    taught = [(f"d{i}", f"fish w{i % 5}", ["L1"]) for i in range(30)]
    judging = [(f"e{i}", f"boat w{i % 5}", ["L2"]) for i in range(10)]
    paths = docs_file(tmp_path / "docs.jsonl", taught), docs_file(tmp_path / "dev.jsonl", judging)
    names = [("L1", "fish"), ("L2", "boat")]
    labels = labels_file(tmp_path / "labels.jsonl", names)
    build_model(labels, [paths[0]], None, tmp_path / "model", FAST, [paths[1]])
    assert Model.load(tmp_path / "model").linear.learned.tolist() == [True, False]


def test_documents_whose_words_are_all_unknown(tmp_path):
    draw = np.random.default_rng(0)
    words = ["".join(draw.choice(list("abcdefgh"), 12)) for _ in range(30)]
    docs = docs_file(tmp_path / "docs.jsonl", [(w, w, [f"L{1 + i % 3}"]) for i, w in enumerate(words)])
    model = built(labels_file(tmp_path / "labels.jsonl"), [docs], tmp_path / "model")
    assert model.linear.learned.tolist() == [True, True, True, False]
    assert not model.linear.weights.nnz


@pytest.mark.parametrize("train", [False, True])
def test_documents_that_are_all_or_nearly_all_the_same(tmp_path, train):
    for n_others in (0, 1):
        folder = tmp_path / str(n_others)
        folder.mkdir()
        same = [(f"same{i}", "Fisheries and the annual budget", ["L2", "L4"]) for i in range(40)]
        docs = docs_file(folder / "docs.jsonl", [*same, *DOCS[:n_others]])
        settings = TRAINED if train else FAST
        model = built(labels_file(folder / "labels.jsonl"), [docs], folder / "model", settings)
        assert len(model.memory) == 40 + n_others


def test_the_lexical_tower_is_as_the_settings_ask(labels, docs, tmp_path):
    words = WordSettings(dim=16, ngram=3, max_features=5)
    settings = replace(FAST, encoder=replace(FAST.encoder, lexical=words))
    lexical = built(labels, [docs], tmp_path / "model", settings).encoder.lexical
    assert (lexical.dim, lexical.settings.ngram, len(lexical.keys)) == (16, 3, 5)
