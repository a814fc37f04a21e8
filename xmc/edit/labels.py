"""Labels of a model added, given other names, retired, restored; functions from a model to a changed one.

No other label's row moves. A label that is retired keeps its vector, so that restoring it costs nothing,
until ``compact_labels`` takes it out of the files.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xmc.data.labels import LabelSet
from xmc.edit.fold import named, refolded
from xmc.errors import InputError, some
from xmc.memory import DocumentMemory
from xmc.model import Model

N_QUERIES = 256  # documents on which the recall of an approximate index is measured


def add_labels(model: Model, new: LabelSet, show: str = "off") -> tuple[Model, int]:
    """The model with ``new`` labels in the next rows, found at once by their texts, and how many they are.

    Raises: InputError for ids that the model has, with what to do instead.
    """
    rows = model.labels.rows(new.ids.to_pylist())
    known = rows[rows >= 0]
    retired = model.labels.retired[known]
    _refuse(
        model, known[retired], "are retired labels of the model; bring them back with `xmc labels restore`"
    )
    _refuse(model, known[~retired], "are in the model; give them new texts with `xmc labels replace`")
    labels = model.labels.extended(new)
    return _with_labels(model, labels, np.arange(len(model.labels), len(labels)), show), len(new)


def replace_labels(model: Model, new: LabelSet, show: str = "off") -> tuple[Model, int]:
    """The model with other names, descriptions and broader ids of labels, and how many of them changed.

    What ``new`` marks as retired is retired then; a retired label is not restored. The trained prototype of
    a label stays: its documents taught it, not its name.

    Raises: InputError for ids that the model does not have.
    """
    ids = new.ids.to_pylist()
    rows = model.labels.rows(ids)
    unknown = [ids[i] for i in np.flatnonzero(rows < 0)]
    if unknown:
        raise InputError(f"{some(unknown)}: not in the model; new labels come in with `xmc labels add`")
    labels = model.labels.replaced(rows, new)
    changed = rows[_differ(model.labels.take(rows), labels.take(rows))]
    if not len(changed):
        return model, 0
    return _with_labels(model, labels, changed, show), len(changed)


def retire_labels(model: Model, rows: np.ndarray, show: str = "off") -> tuple[Model, int]:
    """The model that never suggests the labels in (n,) rows, and how many of them it did suggest so far."""
    retired = model.labels.retired.copy()
    n_new = int((~retired[np.unique(rows)]).sum())
    retired[rows] = True
    return (_with_retired(model, retired) if n_new else model), n_new


def restore_labels(model: Model, rows: np.ndarray, show: str = "off") -> tuple[Model, int]:
    """The model that suggests the labels in (n,) rows again, and how many of them were retired.

    Their vectors are the same as before; one that ``compact_labels`` took out is made anew from the label's
    text and documents, without its trained prototype and its classifier.
    """
    rows = np.unique(rows)
    rows = rows[model.labels.retired[rows]]
    if not len(rows):
        return model, 0
    retired = model.labels.retired.copy()
    retired[rows] = False
    changed, without = _with_retired(model, retired), rows[~model.index.has(rows)]
    return (_with_labels(changed, changed.labels, without, show) if len(without) else changed), len(rows)


def compact_labels(model: Model) -> tuple[Model, int]:
    """The model without the vectors and names of retired labels, and how many had any.

    Rows and texts of these labels stay. The parts of both indexes that changed since they were built are
    merged into their main parts, and an approximate index is built anew.
    """
    retired = np.flatnonzero(model.labels.retired)
    gone = retired[model.index.has(retired)]
    index = model.index.copy()
    index.remove(gone)
    index.compact(_queries(model))
    matcher = model.matcher
    if matcher is not None:
        matcher = matcher.replaced(
            retired, matcher.features[:0], np.zeros(len(retired) + 1, np.int64), matcher.n_labels
        )
    linear = None if model.linear is None else model.linear.without(retired)
    memory = _compacted_memory(model)
    return replace(model, index=index, matcher=matcher, memory=memory, linear=linear), len(gone)


def _with_labels(model: Model, labels: LabelSet, rows: np.ndarray, show: str) -> Model:
    """The model with another label set, in which the labels in (n,) rows are new or have other names."""
    memory = None if model.memory is None else model.memory.widened(len(labels))
    weights = model.weights.widened(len(labels))
    linear = None if model.linear is None else model.linear.widened(len(labels))
    matcher = named(model, rows, labels)
    changed = replace(model, labels=labels, matcher=matcher, memory=memory, weights=weights, linear=linear)
    return refolded(changed, rows, model, show)


def _with_retired(model: Model, retired: np.ndarray) -> Model:
    return replace(model, labels=model.labels.with_retired(retired))


def _compacted_memory(model: Model) -> DocumentMemory | None:
    if model.memory is None:
        return None
    index = model.memory.index.copy()
    index.compact()
    return replace(model.memory, index=index)


def _queries(model: Model) -> np.ndarray | None:
    """(n, dim + 1) remembered documents as the label index is asked for them; None without any."""
    if model.memory is None:
        return None
    rows = np.flatnonzero(model.memory.index.has(np.arange(len(model.memory))))
    vectors = model.memory.index.vectors(rows[:: max(1, len(rows) // N_QUERIES)][:N_QUERIES])
    return np.hstack([vectors, np.ones((len(vectors), 1), np.float32)]) if len(vectors) else None


def _differ(one: LabelSet, other: LabelSet) -> np.ndarray:
    """(n,) bool: labels that are not the same in both."""
    left, right = one.table.to_pylist(), other.table.to_pylist()
    return np.array([a != b for a, b in zip(left, right, strict=True)], bool)


def _refuse(model: Model, rows: np.ndarray, reason: str) -> None:
    if len(rows):
        raise InputError(f"{some([model.labels.id(row) for row in rows])}: {reason}")
