"""Documents into the memory of a model and out of it; functions from a model to a changed one.

A document counts at once: as a neighbour, and in the centroid and the frequency of its labels, whose vectors
are folded anew. The fitted weights stay as they are, and so do trained prototypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xmc.data.options import ReadOptions, ReadReport
from xmc.edit.fold import refolded
from xmc.edit.labels import add_labels
from xmc.encoders.dual import DualEncoder, Encoded
from xmc.encoders.windows import WindowVectors
from xmc.errors import InputError, some
from xmc.memory import DocumentMemory
from xmc.model import Model
from xmc.progress import progress
from xmc.source import Source

WAY_OUT = (
    "take them out with `xmc learn --remove` first, or pass on_duplicate=first to keep those of the model"
)


def learn(
    model: Model, source: Source, options: ReadOptions, report: ReadReport, show: str = "off"
) -> tuple[Model, int]:
    """The model that remembers the documents of ``source`` too, and how many are new.

    ``source`` was read with the model's labels; those that it has besides are added to the model. A document
    that is remembered already is an error, or is left out and counted under ``on_duplicate=first``.

    Raises: InputError for documents that are remembered already, or not of the kind that the model knows.
    """
    new = _new_documents(model, source, options, report)
    if not new.any():
        return model, 0
    base = _with_labels_of(model, source, show)
    vectors, windows = _encoded(model.encoder, source, new, show)
    memory, gold = _memory_of(base), source.gold[new]
    ids = [source.ids[i] for i in np.flatnonzero(new)]
    changed = replace(base, memory=memory.extended(ids, gold, vectors, windows))
    return refolded(changed, np.unique(gold.indices), base, show), len(ids)


def forget(model: Model, ids: Sequence[str], show: str = "off") -> tuple[Model, int]:
    """The model without the documents ``ids``, and how many these are.

    What training, classifiers of labels with other documents and fitted weights took from them stays.

    Raises: InputError for ids of documents that are not remembered.
    """
    memory = _memory_of(model)
    rows = memory.rows(ids)
    unknown = [ids[i] for i in np.flatnonzero(rows < 0).tolist()]
    if unknown:
        counted = f"{len(unknown)} of {len(ids)} documents are not in the model: {some(unknown)}"
        raise InputError(f"{counted}; correct the ids")
    rows = np.unique(rows)
    left = np.setdiff1d(np.arange(len(memory)), rows)
    labels = np.unique(memory.labels[rows].indices)
    labels = labels[model.index.has(labels) | ~model.labels.retired[labels]]
    changed = replace(model, memory=memory.take(left) if len(left) else None)
    return refolded(changed, labels, model, show), len(rows)


def _new_documents(model: Model, source: Source, options: ReadOptions, report: ReadReport) -> np.ndarray:
    """(n_docs,) bool: documents that are not remembered yet."""
    known = _memory_of(model).rows(source.ids) >= 0
    ids = [source.ids[i] for i in np.flatnonzero(known)]
    if ids and options.on_duplicate == "error":
        raise InputError(
            f"{len(ids)} of {len(known)} documents are in the model already: {some(ids)}; {WAY_OUT}"
        )
    for doc_id in ids:
        report.count("documents were left out: ids that the model has", doc_id)
    return ~known


def _with_labels_of(model: Model, source: Source, show: str) -> Model:
    """The model with the labels that reading the documents added."""
    n_labels = len(model.labels)
    if len(source.labels) == n_labels:
        return model
    return add_labels(model, source.labels.take(np.arange(n_labels, len(source.labels))), show)[0]


def _memory_of(model: Model) -> DocumentMemory:
    """The model's memory; an empty one where it has none."""
    encoder = model.encoder
    return model.memory or DocumentMemory.empty(encoder.dim, len(model.labels), encoder.dense_dim)


def _encoded(
    encoder: DualEncoder, source: Source, chosen: np.ndarray, show: str
) -> tuple[np.ndarray, WindowVectors | None]:
    """(n, dim) vectors and the windows of the documents that are ``chosen``, (n_docs,) bool."""
    vectors, windows, start = [], [], 0
    with progress(show, "encoding documents", "documents", lambda: int(chosen.sum())) as done:
        for batch in source.batches():
            rows = np.flatnonzero(chosen[start : start + len(batch)])
            start += len(batch)
            if not len(rows):
                continue
            encoded: Encoded = encoder.encode(batch.take(rows))
            vectors.append(encoded.towers * encoder.scale)
            if encoded.dense is not None:
                windows.append(encoded.dense)
            done(len(rows))
    if start != len(chosen):
        raise InputError("the documents changed while they were read; run the command again")
    return np.concatenate(vectors), WindowVectors.concat(windows) if windows else None
