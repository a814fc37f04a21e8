"""`xmc train --from MODEL`: what goes on, what begins anew, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cases.corpus_t import data_files, docs_file, index, labels_file, synthetic, tag, xmc
from tests.cases.test_sparse_features import N_FEATURES, corpus
from tests.edit.made import folded_anew, vectors
from xmc.artifacts import open_artifact
from xmc.edit.labels import add_labels
from xmc.errors import ResourceError
from xmc.model import Model
from xmc.settings import RunSettings
from xmc.start import Start
from xmc.train import loop

QUICK = ("preset=fast", "threads=1", "train.dim=32", "train.epochs=2")
LABELS, DOCS = synthetic(25, 200)
OLD, NEW = DOCS[:100], DOCS[100:]
GONE, LATE = LABELS[0][0], ("late", "quixotic zeppelin")
LATER = [*LABELS[1:], LATE]
KNOWN = [(i, text, [x for x in found if x != GONE]) for i, text, found in DOCS]
ALL = [*KNOWN, ("z", "a quixotic zeppelin", [LATE[0]]), ("y", "zeppelin", [LATE[0]])]


def train(out: Path, labels, docs, *more: object) -> int:
    out.parent.mkdir(exist_ok=True)
    paths = labels_file(out.parent / "l.jsonl", labels), docs_file(out.parent / "d.jsonl", docs)
    return xmc("train", "--labels", paths[0], "--docs", paths[1], "-o", out, *QUICK, *more)


@pytest.fixture(scope="module", params=["bce", "decoupled_softmax"])
def old(request, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("old") / "model"
    assert train(out, LABELS, OLD, f"train.loss={request.param}") == 0
    return out


def started(path: Path) -> Start:
    return Start.load(path, RunSettings(), {})


def test_it_begins_with_what_was_learned(old, tmp_path, capsys):
    """Steps of next to no length leave words, network and free vectors of known labels as they were."""
    out = tmp_path / "new" / "model"
    assert train(out, LATER, ALL, "--from", old, "train.rate=1e-12") == 0
    assert "went on from" in capsys.readouterr().err
    one, other = started(old), started(out)
    assert open_artifact(out, "model").parents == {"from": one.id}
    kept = one.places(other.encoder.lexical)[other.trained.columns]
    assert np.count_nonzero(kept >= 0) > 100
    known = torch.from_numpy(kept[kept >= 0])
    assert torch.allclose(other.trained.bag[np.flatnonzero(kept >= 0)], one.trained.bag[known], atol=1e-6)
    for name, value in one.record.network.state_dict().items():
        assert torch.allclose(other.record.network.state_dict()[name], value, atol=1e-6)
    assert one.labels.id(one.record.labels[0]) == GONE
    rows = one.rows(other.labels)
    assert rows[0] == -1
    places = np.searchsorted(other.record.labels, rows[1:])
    assert torch.allclose(other.record.free[places], one.record.free[1:], atol=1e-6)
    assert not other.record.free[-1].any()  # the label that is new
    assert set(one.record.learned) < set(other.record.learned)


def test_a_model_that_went_on_suggests_its_labels_and_takes_changes(old, tmp_path):
    assert train(tmp_path / "new" / "model", LATER, ALL, "--from", old) == 0
    docs = docs_file(tmp_path / "q.jsonl", [("q", "quixotic zeppelin", [])])
    found = tag(tmp_path / "new" / "model", docs, tmp_path / "out.jsonl")["q"]["suggestions"]
    assert found[0]["id"] == LATE[0]
    assert GONE not in {each["id"] for each in found}
    model = Model.load(tmp_path / "new" / "model")
    assert vectors(model) == pytest.approx(folded_anew(model), rel=1e-3, abs=1e-3)
    changed, _ = add_labels(model, Model.load(old).labels.take(np.array([0])))
    assert vectors(changed) == pytest.approx(folded_anew(changed), rel=1e-3, abs=1e-3)


def test_killed_and_run_again_it_is_the_same(old, tmp_path, monkeypatch):
    assert train(tmp_path / "a" / "model", LATER, ALL, "--from", old) == 0
    steps, step = [], loop.Trainer._step

    def failing(self, rows):
        steps.append(0)
        if len(steps) == 3:
            raise ResourceError("something is missing")
        return step(self, rows)

    monkeypatch.setattr(loop.Trainer, "_step", failing)
    monkeypatch.setattr(loop, "SAVE_EVERY", 0)
    assert train(tmp_path / "b" / "model", LATER, ALL, "--from", old) == 3
    assert list((tmp_path / "b" / ".model.xmc-build" / "training" / "checkpoints").iterdir())
    assert train(tmp_path / "b" / "model", LATER, ALL, "--from", old) == 0
    assert data_files(tmp_path / "b" / "model") == data_files(tmp_path / "a" / "model")


def test_new_documents_alone_are_enough(old, tmp_path, capsys):
    few = [(i, text, [x for x in found if x != LABELS[1][0]]) for i, text, found in NEW]
    assert train(tmp_path / "new" / "model", LABELS, few, "--from", old) == 0
    assert "1 label had documents there, and none among these" in capsys.readouterr().err
    model = Model.load(tmp_path / "new" / "model")
    assert len(model.memory) == len(NEW)
    assert set(Start.load(old, RunSettings(), {}).encoder.lexical.keys) <= set(model.encoder.lexical.keys)


def test_what_judges_was_not_learned_from(old, tmp_path):
    judged = docs_file(tmp_path / "dev.jsonl", OLD[:40])
    assert train(tmp_path / "a" / "model", LABELS, NEW, "--from", old, "--dev", judged) == 2
    assert train(tmp_path / "b" / "model", LABELS, OLD, "--from", old) == 2
    assert train(tmp_path / "c" / "model", LABELS, [*OLD, *NEW[:5]], "--from", old) == 2


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("encoder.lexical.dim=64", "encoder.lexical.dim=64: the model of --from"),
        ("encoder.dense=all-MiniLM-L6-v2", "encoder.dense=all-MiniLM-L6-v2: the model of --from"),
        ("train.loss", "learned labels another way"),
    ],
)
def test_other_settings_are_refused(old, setting, said, tmp_path, capsys):
    if setting == "train.loss":
        by_text = started(old).record.by_text
        setting = "train.loss=bce" if by_text else "train.loss=decoupled_softmax"
    assert train(tmp_path / "new" / "model", LABELS, DOCS, "--from", old, setting) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "new" / "model").exists()


def test_a_model_that_was_not_trained_is_refused(tmp_path, capsys):
    labels, docs = labels_file(tmp_path / "l.jsonl", LABELS), docs_file(tmp_path / "d.jsonl", OLD)
    untrained = index(tmp_path / "model", labels, docs)
    assert train(tmp_path / "new" / "model", LABELS, DOCS, "--from", untrained) == 2
    assert "holds nothing to go on from" in capsys.readouterr().err


def test_rows_of_features_go_on_and_texts_do_not_go_on_from_them(tmp_path, capsys):
    """Rows are numbered, so that the new ones have the ids of old ones, and are new all the same."""
    rows = [corpus(tmp_path / name, 120, seed) for name, seed in (("a.txt", 0), ("b.txt", 1))]
    assert xmc("train", "--docs", rows[0], "-o", tmp_path / "old", *QUICK) == 0
    assert xmc("train", "--docs", rows[1], "-o", tmp_path / "new", *QUICK, "--from", tmp_path / "old") == 0
    assert "went on from" in capsys.readouterr().err
    assert started(tmp_path / "new").encoder.lexical.n_features == N_FEATURES
    assert train(tmp_path / "other" / "model", LABELS, DOCS, "--from", tmp_path / "old") == 2
    assert "wanted documents of the same kind" in capsys.readouterr().err
