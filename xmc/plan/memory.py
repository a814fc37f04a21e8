"""Bytes: of memory at the widest places of a build, of the model, and of what lies beside it meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp

from xmc.encoders.lexical import LexicalTower
from xmc.linear import STRONGEST
from xmc.plan.estimate import Scale
from xmc.plan.probe import BuildProbe
from xmc.plan.training import TrainProbe, expected_features
from xmc.rerank.inputs import BLOCK, N_BEST, N_NEAR
from xmc.source import Source

NUMBER = 4  # bytes of a float32
ENTRY = 8  # bytes of a sparse entry: its column and its value
MATCHER = 3  # copies of the names' entries: by name, by feature, and squared
# Shares of what the fit and training took for a while that stay with the process: measured on two data sets.
LEFT, LEFT_TRAINING = 0.75, 0.25


@dataclass(frozen=True)
class Need:
    """Bytes: ``memory`` at most, ``model`` on disk when it is done, ``disk`` before with all beside it."""

    memory: int
    model: int
    disk: int


@dataclass(frozen=True)
class Widths:
    """How long vectors and sparse rows are, and how many features there will be."""

    untrained: int
    trained: int
    dense: int
    windows: float
    doc_entries: float
    label_entries: float
    name_entries: float
    n_features: int


def widths(probe: BuildProbe, sample: Source, scale: Scale) -> Widths:
    """Measured on the sample's model."""
    model = probe.model
    encoder, batch = model.encoder, next(sample.batches(), None)
    words, n_labels = encoder.lexical, max(1, len(sample.labels))
    features = sp.csr_matrix((1, words.n_features)) if batch is None else words.features_of(batch)[0]
    n_features = words.n_features
    if isinstance(words, LexicalTower):
        grown = expected_features(features[:, : len(words.keys)], scale.docs)
        n_features = (
            words.n_features - len(words.keys) + min(words.settings.max_features, max(grown, len(words.keys)))
        )
    names = 0 if model.matcher is None else model.matcher.features.nnz
    windows = None if model.memory is None else model.memory.windows
    return Widths(
        encoder.untrained_dim,
        0 if encoder.trained is None else encoder.trained.dim,
        encoder.dense_dim,
        0.0 if windows is None else len(windows.windows) / max(1, len(windows)),
        features.nnz / features.shape[0],
        names / n_labels,
        names / n_labels,
        n_features,
    )


def need(
    start: int, probe: BuildProbe, scale: Scale, of: Widths, training: TrainProbe | None, again: bool
) -> Need:
    """What building all takes; ``start``: bytes of memory that are held once all is read."""
    n_docs, n_labels = scale.whole.n_docs, scale.whole.n_labels
    encoded = n_labels * _label(of) + n_docs * NUMBER * of.untrained + _words(probe, of)
    fitting = n_labels * NUMBER * (of.untrained + 2 * (of.untrained + of.trained) + of.trained)
    fitting += n_docs * NUMBER * (of.untrained + of.trained) + _fit(probe, scale)
    peaks = [start + encoded + fitting]
    if training is not None:
        tower = training.n_features * NUMBER * (of.trained - of.dense)
        trained = _training(training, scale)
        more = n_docs * NUMBER * (of.untrained + of.trained) + tower + int(LEFT_TRAINING * (trained - tower))
        peaks = [start + encoded + trained, start + encoded + more + fitting]
        peaks += [start + encoded + more + int(LEFT * fitting) + trained] if again else []
    model = _model(probe, scale, of, training)
    return Need(max(peaks), model, model + _work(of, scale, training, again))


def _label(of: Widths) -> int:
    """Bytes of one encoded label: its vectors, side by side too where there are two towers; its features."""
    side_by_side = of.untrained if of.dense else 0
    vectors = NUMBER * (of.untrained + side_by_side) + NUMBER // 2 * of.dense
    return int(vectors + ENTRY * (2 * of.label_entries + MATCHER * of.name_entries))


def _words(probe: BuildProbe, of: Widths) -> int:
    """Bytes of the vocabulary and its random projection."""
    return of.n_features * (ENTRY * probe.model.encoder.lexical.settings.nonzeros + 3 * NUMBER)


def _fit(probe: BuildProbe, scale: Scale) -> int:
    """Bytes that the fit adds for its documents.

    The sample's fit without what it holds of labels, and without a block of documents with their candidates
    and neighbours, whose number does not grow: their vectors, and these at unit length.
    """
    costs = [probe.stages[name] for name in probe.fit]
    if not costs:
        return 0
    dim = probe.model.encoder.dim
    block = 2 * NUMBER * dim * min(BLOCK, scale.sample.n_held) * (N_BEST + 2 * N_NEAR)
    index = 2 * NUMBER * scale.sample.n_labels * (dim + 1)
    added = max(0, max(cost.peak for cost in costs) - costs[0].before - index - block)
    return int(block + added * scale.held)


def _training(probe: TrainProbe, scale: Scale) -> int:
    """Bytes of training on all."""
    more_docs = max(0, scale.whole.n_docs - probe.n_docs)
    return int(probe.peak + more_docs * probe.per_doc)


def _model(probe: BuildProbe, scale: Scale, of: Widths, training: TrainProbe | None) -> int:
    """Bytes of the model's files."""
    words = of.n_features / probe.model.encoder.lexical.n_features
    docs = scale.whole.n_own / max(1, scale.sample.n_docs)
    embeddings = 0 if training is None else training.n_features * NUMBER * (of.trained - of.dense)
    factors = {
        "encoder/trained": 0.0,
        "training/": scale.labels,
        "encoder/dense": 1.0,
        "encoder/lexical": words,
        "memory/": docs,
        "calibration/": scale.held,
        "index/": scale.labels,
        "labels.arrow": scale.labels,
        "matcher/": scale.labels,
        "trained_labels/": 1.0,
        # The more documents a classifier reads, the more words it has weights for, not in proportion.
        "linear/": scale.classifiers**0.3 * scale.read**0.7,
    }
    total = float(embeddings)
    for name, size in probe.sizes.items():
        total += size * next((f for start, f in factors.items() if name.startswith(start)), 1.0)
    return int(total)


def _work(of: Widths, scale: Scale, training: TrainProbe | None, again: bool) -> int:
    """Bytes beside the model: vectors, twice of labels; features of their names; words for classifiers.

    For training also features of all texts, vectors of documents anew and two checkpoints.
    """
    n_docs, n_labels = scale.whole.n_docs, scale.whole.n_labels
    window = of.dense * (NUMBER + NUMBER // 2 * of.windows)
    total = n_docs * (NUMBER * of.untrained + 2 * window) + n_labels * window
    total += n_labels * (NUMBER * (2 * of.untrained + of.trained + of.dense + 1) + ENTRY * of.name_entries)
    total += n_docs * ENTRY * min(STRONGEST, of.doc_entries)
    if training is not None:
        anew = NUMBER * (of.untrained + of.trained) * (2 if again else 1)
        total += n_docs * (anew + 2 * ENTRY * of.doc_entries) + 2 * training.checkpoint
        total += n_labels * ENTRY * of.label_entries
    return int(total)
