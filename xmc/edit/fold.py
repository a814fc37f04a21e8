"""The vectors of some labels anew: text, documents and trained prototype folded with the fitted weights.

A label's vector follows from its text, which is encoded again, from the documents that the memory has of it,
and from its trained prototype, which is taken out of the vector that it had.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from xmc.data.labels import LabelSet
from xmc.data.records import DocumentBatch
from xmc.encoders.given import GivenTower
from xmc.encoders.lexical import LexicalTower, unit
from xmc.index.base import LabelIndex
from xmc.index.matcher import LabelMatcher
from xmc.label_text import label_names, label_texts
from xmc.memory import DocumentMemory
from xmc.model import Model
from xmc.progress import progress
from xmc.prototypes import LabelParts, centroids, unfolded
from xmc.source import SHARD


def refolded(model: Model, rows: np.ndarray, before: Model, show: str = "off") -> Model:
    """``model`` with new vectors of the labels in (n,) rows.

    ``before``: the model whose index this one has still; ``show``: as the setting ``progress``.
    """
    encoder, frequency = model.encoder, model.frequency[rows]
    texts, in_trained = encoded_texts(model, rows, show)
    dense, base = encoder.dense_dim, encoder.untrained_dim
    middle = document_centroids(model, rows, (slice(0, dense), slice(dense, base)))
    prototypes = None
    if encoder.trained is not None:
        model, prototypes = _trained(model, rows, before, in_trained)
        frequency = frequency * prototypes.any(axis=1)  # as Model.counted
    parts = LabelParts(texts, middle, dense, frequency, prototypes)
    index = model.index.copy()
    _put(index, rows, parts.fold(model.weights.prototype, encoder.scale))
    # What taught the classifier of a label that has no document any more is gone.
    linear = model.linear and model.linear.without(rows[model.frequency[rows] == 0])
    return replace(model, index=index, linear=linear)


def encoded_texts(model: Model, rows: np.ndarray, show: str) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of the texts of labels in (n,) rows: (n, untrained_dim), and (n, trained_dim) before training.

    Zeros where documents have no text; the second also where the model has no use for it.
    """
    encoder, labels = model.encoder, model.labels.take(rows)
    out = np.zeros((len(rows), encoder.dim), np.float32)
    base, trained = encoder.untrained_dim, model.trained
    if isinstance(encoder.lexical, GivenTower):
        return out[:, :base], out[:, base:]
    tower = trained.text_tower(encoder.trained) if trained and encoder.trained else None
    texts, ids = label_texts(labels), labels.ids.to_pylist()
    with progress(show, "encoding labels", "labels", lambda: len(texts)) as done:
        for start in range(0, len(texts), SHARD):
            names, part = ids[start : start + SHARD], texts[start : start + SHARD]
            encoded = encoder.encode(DocumentBatch(names, part, None, None, names))
            out[start : start + SHARD, :base] = encoded.towers[:, :base]
            if tower is not None:
                out[start : start + SHARD, base:] = encoder.with_trained(encoded, tower).trained
            done(len(part))
    return out[:, :base], out[:, base:]


def named(model: Model, rows: np.ndarray, labels: LabelSet) -> LabelMatcher | None:
    """The model's matcher among ``labels``, of which those in (n,) rows are new or have other names."""
    words = model.encoder.lexical
    if model.matcher is None or not isinstance(words, LexicalTower):
        return model.matcher
    chosen = labels.take(rows)
    names, starts = label_names(chosen, label_texts(chosen))
    return model.matcher.replaced(rows, words.features(names), starts, len(labels))


@dataclass(frozen=True)
class RememberedTowers:
    """(n_docs, dim) vectors of a memory's documents ``rows`` in some towers, read a block at a time.

    ``towers``: the columns of each. What the memory holds are the towers' unit vectors, each times a number:
    so unit length brings them back.
    """

    memory: DocumentMemory
    rows: np.ndarray
    towers: tuple[slice, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """(n_docs, dim)."""
        return len(self.rows), sum(columns.stop - columns.start for columns in self.towers)

    def __getitem__(self, block: slice) -> np.ndarray:
        rows = self.rows[block]
        out = np.zeros((len(rows), self.shape[1]), np.float32)
        known = self.memory.index.has(rows)
        vectors = self.memory.index.vectors(rows[known])
        out[known] = np.hstack([unit(vectors[:, columns]) for columns in self.towers])
        return out


def document_centroids(model: Model, rows: np.ndarray, towers: tuple[slice, ...]) -> np.ndarray:
    """(n, dim) centroids of the remembered documents of labels in (n,) rows, in some one or two towers."""
    memory, first = model.memory, towers[0].stop - towers[0].start
    if memory is None:
        return np.zeros((len(rows), sum(columns.stop - columns.start for columns in towers)), np.float32)
    carried: sp.csr_matrix = memory.labels.tocsc()[:, rows].tocsr()
    docs = np.flatnonzero(np.diff(carried.indptr))
    return centroids(carried[docs], RememberedTowers(memory, docs, towers), first)


def _trained(model: Model, rows: np.ndarray, before: Model, texts: np.ndarray) -> tuple[Model, np.ndarray]:
    """The model with what is trained of its labels, and (n, trained_dim + 1) trained prototypes of (n,) rows.

    A label that learned from documents, of which some are left, keeps its prototype; where labels were
    learned by text, every other gets one from its text and documents. A zero row is no prototype.
    """
    out, frequency = _old_prototypes(before, rows), model.frequency[rows]
    if model.trained is None:
        return model, out * (frequency > 0)[:, None]
    learned = np.zeros(len(model.labels), bool)
    learned[: len(model.trained.learned)] = model.trained.learned
    learned[rows] &= before.index.has(rows) & (frequency > 0)
    trained = replace(model.trained, learned=learned)
    new = ~learned[rows]
    base, end = model.encoder.untrained_dim, model.encoder.dim
    middle = document_centroids(model, rows[new], (slice(base, end),))
    out[new] = trained.prototypes(texts[new], middle, frequency[new])
    return replace(model, trained=trained), out


def _old_prototypes(before: Model, rows: np.ndarray) -> np.ndarray:
    """(n, trained_dim + 1) trained prototypes that labels had; zero rows for labels without a vector."""
    encoder = before.encoder
    out = np.zeros((len(rows), encoder.dim - encoder.untrained_dim + 1), np.float32)
    known = before.index.has(rows)
    old = rows[known]
    vectors, frequency = before.index.vectors(old), before.frequency[old]
    out[known] = unfolded(vectors, frequency, before.weights.prototype, encoder.scale, encoder.untrained_dim)
    return out


def _put(index: LabelIndex, rows: np.ndarray, vectors: np.ndarray) -> None:
    """Give the (n,) rows their vectors; a zero row takes away the one that there was."""
    had, has = index.has(rows), vectors.any(axis=1)
    index.replace(rows[had & has], vectors[had & has])
    index.add(rows[~had & has], vectors[~had & has])
    index.remove(rows[had & ~has])
