"""Changes of a trained model: what is trained of a label stays, is made from its text, or is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import docs_file, labels_file, xmc
from tests.edit.made import DOCS, LABELS, NEW_DOCS, NEW_LABELS, folded_anew, label_set, suggested, vectors
from tests.edit.test_documents import learned
from xmc.artifacts import ArtifactWriter
from xmc.edit.documents import forget
from xmc.edit.labels import add_labels, compact_labels, replace_labels, restore_labels, retire_labels
from xmc.errors import ResourceError
from xmc.model import UNFITTED_VOTE, Model

TEXTS = [text for _, text, _ in NEW_DOCS]
QUICK = ("preset=fast", "threads=1", "train.dim=32", "train.epochs=3")
# One of the labels has no document, so that there is one that was learned by its text alone.
UNSEEN = 7
SEEN_DOCS = [(i, text, [x for x in found if x != f"L{UNSEEN}"]) for i, text, found in DOCS]


def trained(folder: Path, loss: str) -> Model:
    labels, docs = labels_file(folder / "l.jsonl", LABELS), docs_file(folder / "d.jsonl", SEEN_DOCS)
    out = folder / "model"
    assert xmc("train", "--labels", labels, "--docs", docs, "-o", out, *QUICK, f"train.loss={loss}") == 0
    return Model.load(out)


@pytest.fixture(scope="module", params=["bce", "decoupled_softmax"])
def model(request, tmp_path_factory) -> Model:
    return trained(tmp_path_factory.mktemp("trained"), request.param)


@pytest.fixture(scope="module")
def by_text(tmp_path_factory) -> Model:
    return trained(tmp_path_factory.mktemp("by_text"), "decoupled_softmax")


def trained_part(model: Model) -> np.ndarray:
    return vectors(model)[:, model.encoder.untrained_dim : -1]


def test_refolding_gives_the_vectors_that_building_gave(model):
    found, wanted = folded_anew(model), vectors(model)
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3)


def test_only_labels_learned_by_text_come_with_what_makes_prototypes(model, by_text):
    assert by_text.trained is not None
    assert not by_text.trained.learned[UNSEEN]
    assert np.count_nonzero(by_text.trained.learned) > 30
    if model.trained is None:
        assert not trained_part(model)[UNSEEN].any()


def test_a_new_label_with_an_old_one_s_text_has_its_vector(by_text):
    """As it would be if it had no document: the label that has none."""
    changed, _ = add_labels(by_text, label_set([("twin", LABELS[UNSEEN][1])]))
    found = vectors(changed)
    assert trained_part(changed)[-1].any()
    assert found[-1] == pytest.approx(found[UNSEEN], rel=1e-3, abs=1e-3)


def test_labels_and_documents_come_in_and_go_again(model):
    with_labels, _ = add_labels(model, label_set())
    changed = learned(with_labels, [*NEW_DOCS, ("n1", "quixotic zeppelin", [NEW_LABELS[0][0]])])
    assert vectors(changed) == pytest.approx(folded_anew(changed), rel=1e-3, abs=1e-3)
    back, _ = forget(changed, [*(d[0] for d in NEW_DOCS), "n1"])
    rows = model.frequency > 0
    assert vectors(back)[: len(LABELS)][rows] == pytest.approx(vectors(model)[rows], rel=1e-3, abs=1e-3)
    assert vectors(back)[len(LABELS) :] == pytest.approx(vectors(with_labels)[len(LABELS) :], abs=1e-3)


def test_a_label_counts_as_one_without_documents_where_nothing_is_trained_for_it(model):
    """Its weights would expect a trained score, which it does not have."""
    with_label, _ = add_labels(model, label_set(NEW_LABELS[:1]))
    changed = learned(with_label, [("n1", "quixotic zeppelin", [NEW_LABELS[0][0]])])
    assert trained_part(changed)[-1].any() == (model.trained is not None)
    assert changed.frequency[-1] == 1
    assert changed.counted[-1] == (model.trained is not None)
    assert np.array_equal(changed.counted[:-1], model.counted)
    votes = changed.shortlister().memory.labels[-1].toarray().ravel()
    assert votes[-1] == (1 if model.trained is not None else UNFITTED_VOTE)
    assert np.count_nonzero(votes) == 1
    found = suggested(changed, ["a quixotic zeppelin", *TEXTS])
    assert max(found[0], key=found[0].get) == NEW_LABELS[0][0]


def test_a_label_without_documents_is_as_if_it_had_never_had_any(by_text):
    row = int(np.argmax(by_text.frequency))
    docs = [d[0] for d in SEEN_DOCS if f"L{row}" in d[2]]
    changed, _ = forget(by_text, docs)
    assert not changed.trained.learned[row]
    twin, _ = add_labels(changed, label_set([("twin", LABELS[row][1])]))
    assert vectors(twin)[-1] == pytest.approx(vectors(changed)[row], rel=1e-3, abs=1e-3)


def test_a_replaced_text_changes_what_was_learned_by_text_alone(by_text):
    seen = int(np.argmax(by_text.frequency))
    changed, _ = replace_labels(by_text, label_set([(f"L{i}", "quixotic zeppelin") for i in (UNSEEN, seen)]))
    assert not np.allclose(trained_part(changed)[UNSEEN], trained_part(by_text)[UNSEEN])
    assert trained_part(changed)[seen] == pytest.approx(trained_part(by_text)[seen], rel=1e-3, abs=1e-3)


def test_restored_after_compaction_it_is_made_from_text_and_documents(model, tmp_path):
    rows = np.array([3, 4])
    compacted, _ = compact_labels(retire_labels(model, rows)[0])
    restored, _ = restore_labels(compacted, rows)
    assert restored.scoreable.all()
    assert vectors(restored) == pytest.approx(folded_anew(restored), rel=1e-3, abs=1e-3)
    assert trained_part(restored)[rows].any() == (model.trained is not None)


def test_saved_and_loaded_again(model, tmp_path):
    changed, _ = add_labels(model, label_set())
    with ArtifactWriter(tmp_path / "model", "model") as writer:
        changed.save(writer.path)
    loaded = Model.load(tmp_path / "model")
    assert suggested(loaded, TEXTS) == suggested(changed, TEXTS)
    assert (loaded.trained is None) == (model.trained is None)
    if loaded.trained is not None:
        assert loaded.trained.learned.tolist() == changed.trained.learned.tolist()


def test_another_random_generator_is_noticed(by_text, monkeypatch):
    monkeypatch.setattr("xmc.trained_labels._first", lambda tower: np.zeros(32, np.float32))
    with pytest.raises(ResourceError, match="draws other random numbers"):
        add_labels(by_text, label_set())
