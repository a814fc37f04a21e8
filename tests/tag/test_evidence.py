from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import docs_file, index, labels_file, synthetic, tag
from xmc.context import NAMES as CONTEXT
from xmc.data.corpus import Corpus
from xmc.data.records import DocumentBatch
from xmc.data.text import clean
from xmc.mix import Mix
from xmc.tag.job import TagJob
from xmc.tag.suggestions import PARTS, Evidence, TagOptions
from xmc.tag.tagger import Tagger

LABELS = [("L1", "air transport"), ("L2", "fisheries"), ("L3", "قانون البحر"), ("L4", "漁業"), ("L5", "Café")]
LABELS += [("L6", "Straßenbau"), ("L7", "मत्स्य पालन"), ("L8", "naval history")]
DOCS = [("d1", "Air transport between islands", ["L1"]), ("d2", "Fisheries in the north", ["L2"])]
DOCS += [("d3", "Frigates and galleons of the armada", ["L8"])]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    labels, docs = labels_file(folder / "l.jsonl", LABELS), docs_file(folder / "d.jsonl", DOCS)
    return index(folder / "model", labels, docs)


@pytest.fixture(scope="module")
def tagger(path: Path) -> Tagger:
    return Tagger.load(path)


def evidence(tagger: Tagger, text: str) -> dict[str, Evidence]:
    """What is told of each label suggested for a text, which is read as the corpus reads it."""
    found = tagger.tag_batch(
        DocumentBatch(["q"], [clean(text)[0]], None, None, ["q"]), TagOptions(evidence=True)
    )
    return {tagger.labels.id(row): e for row, e in zip(found.rows, found.evidence or [], strict=True)}


FILLER = "Nothing of the kind stands here, nor there. "


@pytest.mark.parametrize(
    ("text", "label", "wanted"),
    [
        ("Air transport", "L1", "Air transport"),
        (
            f"On boats\n{FILLER * 20}The air is cold. Cheap air transport, e.g. now! {FILLER}",
            "L1",
            "Cheap air",
        ),
        ("  \t The fisheries of 1999  ", "L2", "The fisheries of 1999"),
        (
            "Fish &amp; chips. The fisheries &lt;b&gt;North&lt;/b&gt;. More.",
            "L2",
            "The fisheries &lt;b&gt;North",
        ),
        ("One\x00two. Of\x07the fisheries. And \ud800.", "L2", "Of\x07the fisheries."),
        ("Tea. Le cafe\u0301 noir. Milk.", "L5", "Le cafe\u0301 noir."),
        ("👩‍⚖️ 👍🏽. 🐟 fisheries 🐟️! 👩‍⚖️", "L2", "🐟 fisheries 🐟️!"),
        ("Über den STRASSENBAU. Der Straßenbau in Bern. Ende.", "L6", "Der Straßenbau in Bern."),
        ("هذا كتاب. عن قانون البحر؟ نعم", "L3", "عن قانون البحر؟"),
        ("海は広い。日本の漁業について。山。", "L4", "日本の漁業について。"),
        ("यह पुस्तक है। मत्स्य पालन पर। अंत।", "L7", "मत्स्य पालन पर।"),
        ("Ｔｈｅ　ＦＩＳＨＥＲＩＥＳ．　Ｎｏ．", "L2", "Ｔｈｅ　ＦＩＳＨＥＲＩＥＳ．"),
    ],
)
def test_a_passage_holds_the_words_that_matched(tagger, text, label, wanted):
    passage = evidence(tagger, text)[label].passage
    assert passage is not None
    start = text.index(wanted)
    assert passage.start == start
    assert text[start : passage.end].startswith(wanted)
    assert passage.text == clean(text)[0][start : passage.end]
    assert len(passage.text) < 80


@pytest.mark.parametrize("gap", [" ", ", ", ""])
def test_long_text_without_an_end_of_sentence_is_cut_at_words(tagger, gap):
    text = gap.join(["東京の海の"] * 100 + ["漁業"] + ["東京の海の"] * 100)
    passage = evidence(tagger, text)["L4"].passage
    assert passage is not None
    assert passage.start <= text.index("漁業") < passage.end
    assert 100 < passage.end - passage.start <= 300


def test_no_cut_within_a_combined_character(tagger):
    text = "e\u0301\u0323" * 400 + " fisheries"
    passage = evidence(tagger, text)["L2"].passage
    assert passage is not None
    assert text[passage.start : passage.end] == "fisheries"


def test_a_label_of_neighbours_alone_has_no_passage(tagger):
    found = evidence(tagger, "Galleons, frigates")["L8"]
    assert [doc_id for doc_id, _ in found.neighbours] == ["d3"]
    assert found.words == []
    assert found.passage is None
    assert found.shares["neighbours"] > 0


def test_long_documents_are_quick(tagger):
    text = "".join(f"In the year {n} of the fisheries nothing is known. " for n in range(40_000))
    runs = "(10E,14E)-" * 100_000 + "漁業" * 100_000 + "x" * 500_000
    started = time.process_time()
    assert evidence(tagger, text + "Air transport, fisheries.")["L2"].passage is not None
    assert evidence(tagger, runs)["L4"].passage is not None
    assert time.process_time() - started < 30


def test_shares_add_up_to_the_probability(tagger):
    for text in ("Air transport of fisheries", "Galleons", "قانون"):
        batch = DocumentBatch(["q"], [text], None, None, ["q"])
        found = tagger.tag_batch(batch, TagOptions(evidence=True))
        for score, each in zip(found.scores, found.evidence or [], strict=True):
            assert list(each.shares) == list(PARTS)
            assert 1 / (1 + np.exp(-sum(each.shares.values()))) == pytest.approx(score, abs=2e-4)


def test_words_and_neighbours_get_what_is_theirs(tagger):
    found = evidence(tagger, "Cafe\u0301")["L5"].shares
    assert found["words"] > 0
    assert found["neighbours"] <= 0
    assert found["trained"] == found["reranker"] == 0


@pytest.mark.parametrize("scale", [0.5, 40.0])
def test_shares_add_up_whatever_the_weights(path, scale):
    tagger = Tagger.load(path)
    draw = np.random.default_rng(3)
    final, beside = tagger.weights.final, tagger.weights.beside
    weights = replace(
        tagger.weights,
        final=Mix(final.names, final.weights + draw.normal(size=len(final.weights)) * scale),
        beside=Mix(CONTEXT, beside.weights + draw.normal(size=len(CONTEXT)) * 0.1),
    )
    tagger.weights = weights
    batch = DocumentBatch(["a", "b"], ["Air transport of fisheries", "Galleons"], None, None, ["a", "b"])
    found = tagger.tag_batch(batch, TagOptions(evidence=True))
    total = np.array([sum(each.shares.values()) for each in found.evidence or []])
    assert 1 / (1 + np.exp(-total)) == pytest.approx(found.scores, abs=1e-3)
    for first, last in zip(found.indptr[:-1], found.indptr[1:], strict=True):
        assert len({each.shares["average"] for each in (found.evidence or [])[first:last]}) == 1


def test_nothing_is_computed_without_evidence(tagger, monkeypatch):
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("xmc.tag.evidence.read", never)
    monkeypatch.setattr("xmc.tag.evidence.shares", never)
    assert tagger.tag(["Air transport"])[0][0].id == "L1"


def test_shards_of_any_size_give_the_same_evidence(tmp_path):
    labels, docs = synthetic(60, 40)
    docs[5] = ("d5", "", [])
    files = labels_file(tmp_path / "labels.jsonl", labels), docs_file(tmp_path / "docs.jsonl", docs)
    model = index(tmp_path / "model", *files)
    outputs = []
    for size in (1, 7, 1000):
        out = tmp_path / f"out{size}.jsonl"
        found = tag(model, files[1], out, f"tag.shard_size={size}", "tag.evidence=true")
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]
    for doc_id, text, _ in docs:
        for suggestion in found[doc_id]["suggestions"]:
            told = suggestion["evidence"].get("passage")
            assert told is None or text[told["start"] : told["end"]] == told["text"]


def test_a_title_is_joined_to_the_text_by_a_line_end(path, tmp_path):
    docs = tmp_path / "docs.jsonl"
    docs.write_text('{"id": "a", "title": "On boats", "text": "No fish. Fisheries."}\n')
    (first, *_) = tag(path, docs, tmp_path / "out.jsonl", "tag.evidence=true")["a"]["suggestions"]
    assert first["evidence"]["passage"] == {"start": 18, "end": 28, "text": "Fisheries."}
    assert "On boats\nNo fish. Fisheries."[18:28] == "Fisheries."


@pytest.mark.parametrize("name", ["tags.jsonl", "tags.parquet"])
def test_an_interrupted_job_gives_the_same_evidence(tagger, tmp_path, name):
    docs = docs_file(tmp_path / "docs.jsonl", [(f"q{i}", f"The fisheries, {i}.", []) for i in range(7)])

    def job(out: str, progress: Callable[[int], None] | None = None) -> bytes:
        options = TagOptions(evidence=True)
        TagJob(tagger, Corpus([docs]), tmp_path / out, options, shard_size=2, progress=progress).run()
        return (tmp_path / out).read_bytes()

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(name, stop)
    assert not (tmp_path / name).exists()
    assert job(name) == job(f"whole.{name}")
