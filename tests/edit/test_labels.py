"""Labels in and out of a model: rows stay, and what may be suggested is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.edit.made import (
    LABELS,
    N_LABELS,
    NEW_DOCS,
    NEW_LABELS,
    folded_anew,
    label_set,
    made,
    suggested,
    vectors,
)
from xmc.edit.labels import add_labels, compact_labels, replace_labels, restore_labels, retire_labels
from xmc.errors import InputError
from xmc.model import Model

TEXTS = [text for _, text, _ in NEW_DOCS]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Model:
    return Model.load(made(tmp_path_factory.mktemp("edit")))


def test_refolding_gives_the_vectors_that_building_gave(model):
    assert folded_anew(model) == pytest.approx(vectors(model), abs=1e-4)


def test_a_new_label_is_found_by_its_text_and_no_row_moves(model):
    changed, n = add_labels(model, label_set())
    assert n == len(NEW_LABELS)
    assert changed.labels.ids.to_pylist() == [i for i, _ in [*LABELS, *NEW_LABELS]]
    assert np.array_equal(vectors(changed)[:N_LABELS], vectors(model))
    for (label_id, text), found in zip(
        NEW_LABELS, suggested(changed, [t for _, t in NEW_LABELS]), strict=True
    ):
        assert max(found, key=found.get) == label_id, text
    assert changed.frequency[N_LABELS:].tolist() == [0] * len(NEW_LABELS)


def test_the_model_that_was_changed_is_as_before(model):
    before = vectors(model), suggested(model, TEXTS)
    changed, _ = add_labels(model, label_set())
    retire_labels(changed, np.arange(9))
    compact_labels(retire_labels(model, np.arange(9))[0])
    replace_labels(model, label_set([("L1", "other words")]))
    assert np.array_equal(vectors(model), before[0])
    assert suggested(model, TEXTS) == before[1]


def test_labels_added_have_the_vectors_of_labels_built_at_once(tmp_path_factory):
    """With the same encoder, and weights that are not fitted."""
    one, other = (tmp_path_factory.mktemp(name) for name in ("part", "whole"))
    whole = Model.load(made(other, labels=[*LABELS, *NEW_LABELS], docs=[]))
    part = replace(Model.load(made(one, docs=[])), encoder=whole.encoder, matcher=None)
    changed, _ = add_labels(part, label_set())
    rows = np.arange(N_LABELS, N_LABELS + len(NEW_LABELS))
    assert np.array_equal(changed.index.vectors(rows), whole.index.vectors(rows))


@pytest.mark.parametrize(
    ("retired", "way_out"), [(False, "xmc labels replace"), (True, "xmc labels restore")]
)
def test_an_id_that_is_there_is_refused_with_the_way_out(model, retired, way_out):
    known = retire_labels(model, np.array([3]))[0] if retired else model
    with pytest.raises(InputError, match=f"'L3': .*{way_out}"):
        add_labels(known, label_set([*NEW_LABELS, LABELS[3]]))


def test_a_replaced_text_is_what_finds_the_label(model):
    changed, n = replace_labels(model, label_set([("L5", "quixotic zeppelin"), LABELS[6]]))
    assert n == 1
    assert changed.labels.text(5) == "quixotic zeppelin"
    (found,) = suggested(changed, ["a quixotic zeppelin"])
    assert max(found, key=found.get) == "L5"
    others = np.delete(np.arange(N_LABELS), 5)
    assert np.array_equal(vectors(changed)[others], vectors(model)[others])
    back, _ = replace_labels(changed, label_set([LABELS[5]]))
    assert suggested(back, TEXTS) == suggested(model, TEXTS)


def test_a_text_replaced_by_itself_changes_nothing(model):
    same, n = replace_labels(model, label_set(LABELS[:3]))
    assert (same is model, n) == (True, 0)


def test_replacing_what_is_not_there_is_refused(model):
    with pytest.raises(InputError, match=r"'L42': not in the model; .*xmc labels add"):
        replace_labels(model, label_set([NEW_LABELS[2]]))


def test_replacing_a_retired_label_does_not_bring_it_back(model):
    retired, _ = retire_labels(model, np.array([5]))
    changed, n = replace_labels(retired, label_set([("L5", "quixotic zeppelin")]))
    assert n == 1
    assert "L5" not in suggested(changed, ["a quixotic zeppelin"])[0]


@pytest.mark.parametrize("k", [1, 10, 10_000])
def test_a_retired_label_is_never_suggested(model, k):
    gone = np.array([0, 7, 8])
    changed, n = retire_labels(model, gone)
    assert n == 3
    for found in suggested(changed, [text for _, text in LABELS], k):
        assert not set(found) & {"L0", "L7", "L8"}
    again, n = retire_labels(changed, gone)
    assert (again is changed, n) == (True, 0)


def test_a_restored_label_is_as_it_was(model):
    rows = np.array([0, 7, 8])
    changed, n = restore_labels(retire_labels(model, rows)[0], np.array([7, 8, 0, 9]))
    assert n == 3
    assert changed.index is model.index
    assert suggested(changed, TEXTS) == suggested(model, TEXTS)


def test_compaction_takes_the_vectors_of_retired_labels_out(model, tmp_path):
    rows = np.array([0, 7, 8])
    gone = model.index.vectors(rows)
    compacted, n = compact_labels(retire_labels(model, rows)[0])
    assert n == 3
    assert not compacted.index.has(rows).any()
    compacted.save(tmp_path)
    for file in (tmp_path / "index").iterdir():
        assert not any(vector.tobytes() in file.read_bytes() for vector in gone)
    left = np.delete(np.arange(N_LABELS), rows)
    assert np.array_equal(vectors(compacted)[left], vectors(model)[left])
    assert len(compacted.labels) == N_LABELS
    restored, n = restore_labels(compacted, rows)
    assert n == 3
    assert vectors(restored) == pytest.approx(vectors(model), abs=1e-4)
    assert (restored.matcher.features != model.matcher.features).nnz == 0


def test_compaction_merges_what_was_changed(model, tmp_path):
    changed, _ = replace_labels(model, label_set([("L5", "quixotic zeppelin")]))
    compacted, n = compact_labels(changed)
    assert n == 0
    compacted.save(tmp_path)
    assert np.load(tmp_path / "index" / "tail.npy").shape[0] == 0
    assert suggested(compacted, TEXTS) == suggested(changed, TEXTS)


def test_a_label_without_a_word_is_kept_and_becomes_scoreable_with_its_first_text(model):
    changed, _ = add_labels(model, label_set([("odd", "!!!")]))
    assert not changed.scoreable[-1]
    changed, _ = replace_labels(changed, label_set([("odd", "quixotic zeppelin")]))
    assert changed.scoreable[-1]
    changed, _ = replace_labels(changed, label_set([("odd", "—")]))
    assert not changed.scoreable[-1]


step = st.tuples(
    st.sampled_from(["add", "replace", "retire", "restore", "compact"]),
    st.lists(st.integers(0, N_LABELS + len(NEW_LABELS) - 1), min_size=1, max_size=6, unique=True),
)


@settings(max_examples=8, deadline=None)
@given(steps=st.lists(step, max_size=8))
def test_any_changes_leave_what_may_be_suggested(model, steps):
    """Against a plain account of which labels there are and which are retired."""
    everything = [*LABELS, *NEW_LABELS]
    order, retired, changed = [i for i, _ in LABELS], set(), model
    for name, chosen in steps:
        labels = [everything[i] for i in chosen if (everything[i][0] in order) != (name == "add")]
        ids = {i for i, _ in labels}
        rows = np.array(sorted(order.index(i) for i in ids if i in order), np.int64)
        if name == "compact":
            changed, _ = compact_labels(changed)
        elif not labels:
            continue
        elif name == "add":
            changed, _ = add_labels(changed, label_set(labels))
            order += [i for i, _ in labels]
        elif name == "replace":
            changed, _ = replace_labels(changed, label_set([(i, f"{t} {t}") for i, t in labels]))
        elif name == "retire":
            changed, _ = retire_labels(changed, rows)
            retired |= ids
        else:
            changed, _ = restore_labels(changed, rows)
            retired -= ids
    assert changed.labels.ids.to_pylist() == order
    texts = " ".join(text for _, text in everything)
    assert set(suggested(changed, [texts])[0]) == set(order) - retired


def test_an_approximate_index_takes_changes_and_is_built_anew(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("hnsw")
    model = Model.load(made(folder, "preset=fast", "index.kind=hnsw"))
    changed, _ = add_labels(model, label_set())
    changed, _ = retire_labels(changed, np.arange(3))
    compacted, _ = compact_labels(changed)
    assert compacted.index.built_as == "hnsw"
    texts = [text for _, text in NEW_LABELS]
    for one, other in zip(suggested(changed, texts), suggested(compacted, texts), strict=True):
        assert max(one, key=one.get) == max(other, key=other.get)
        assert not {"L0", "L1", "L2"} & (set(one) | set(other))
