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
from xmc.encoders.dual import DualEncoder
from xmc.encoders.given import GivenTower
from xmc.encoders.lexical import LexicalTower
from xmc.index.base import LabelIndex
from xmc.index.matcher import LabelMatcher
from xmc.label_text import label_names, label_texts
from xmc.memory import DocumentMemory
from xmc.model import Model
from xmc.progress import progress
from xmc.prototypes import LabelParts, centroids, unfolded, unit_towers
from xmc.source import SHARD


def refolded(model: Model, rows: np.ndarray, before: Model, show: str = "off") -> Model:
    """``model`` with new vectors of the labels in (n,) rows.

    ``before``: the model whose index this one has still; ``show``: as the setting ``progress``.
    """
    encoder = model.encoder
    texts = encoded_texts(encoder, model.labels.take(rows), show)
    middle, frequency = np.zeros_like(texts), model.frequency[rows]
    if model.memory is not None:
        middle = document_centroids(model.memory, rows, encoder)
    trained = None if encoder.trained is None else _trained(before, rows)
    parts = LabelParts(texts, middle, encoder.dense_dim, frequency, trained)
    index = model.index.copy()
    _put(index, rows, parts.fold(model.weights.prototype, encoder.scale))
    return replace(model, index=index)


def encoded_texts(encoder: DualEncoder, labels: LabelSet, show: str) -> np.ndarray:
    """(n_labels, untrained_dim) tower vectors of the labels' texts; zeros where documents have no text."""
    out = np.zeros((len(labels), encoder.untrained_dim), np.float32)
    if isinstance(encoder.lexical, GivenTower):
        return out
    texts, ids = label_texts(labels), labels.ids.to_pylist()
    with progress(show, "encoding labels", "labels", lambda: len(texts)) as done:
        for start in range(0, len(texts), SHARD):
            names, part = ids[start : start + SHARD], texts[start : start + SHARD]
            encoded = encoder.encode(DocumentBatch(names, part, None, None, names))
            out[start : start + SHARD] = encoded.towers[:, : encoder.untrained_dim]
            done(len(part))
    return out


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
    """(n_docs, untrained_dim) tower vectors of a memory's documents ``rows``, read a block at a time.

    The memory's vectors are the towers' unit vectors, each times a number: so unit length brings them back.
    """

    memory: DocumentMemory
    rows: np.ndarray
    encoder: DualEncoder

    @property
    def shape(self) -> tuple[int, int]:
        """(n_docs, untrained_dim)."""
        return len(self.rows), self.encoder.untrained_dim

    def __getitem__(self, block: slice) -> np.ndarray:
        rows = self.rows[block]
        out = np.zeros((len(rows), self.encoder.untrained_dim), np.float32)
        known = self.memory.index.has(rows)
        vectors = self.memory.index.vectors(rows[known])[:, : out.shape[1]]
        out[known] = unit_towers(vectors, self.encoder.dense_dim)
        return out


def document_centroids(memory: DocumentMemory, rows: np.ndarray, encoder: DualEncoder) -> np.ndarray:
    """(n, untrained_dim) centroids of the documents of the labels in (n,) rows."""
    carried: sp.csr_matrix = memory.labels.tocsc()[:, rows].tocsr()
    docs = np.flatnonzero(np.diff(carried.indptr))
    return centroids(carried[docs], RememberedTowers(memory, docs, encoder), encoder.dense_dim)


def _trained(before: Model, rows: np.ndarray) -> np.ndarray:
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
