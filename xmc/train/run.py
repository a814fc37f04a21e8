"""From encoded documents to a trained tower and trained prototypes: which features, which loss, how long."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xmc.encoders.grown import Words
from xmc.encoders.labels import LabelVectors
from xmc.encoders.lexical import LexicalTower
from xmc.encoders.trained import Draw, TrainedTower
from xmc.encoders.writer import FeatureWriter, read_features
from xmc.errors import SettingError
from xmc.settings import TrainSettings
from xmc.start import Start
from xmc.train.batches import batch_size
from xmc.train.checkpoint import Checkpoints
from xmc.train.data import TrainingData
from xmc.train.loop import RECIPES, Before, Recipe, Trainer
from xmc.training_record import TrainingRecord

EPOCHS = (3, 8)
STEPS, MOST_EPOCHS = 90, 40  # few documents are passed more often, for so many steps but not oftener
FEW_DOCUMENTS = 15_000  # where most passes are made; fewer with the fourth root of the number beyond
ENOUGH = 8  # documents of a label, on average, from which each label can be learned alone
MAX_NONZEROS = 10_000_000  # features of all documents up to which parts of words are trained too
BLOCK = 4096

Bar = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]


@dataclass(frozen=True)
class TrainingSource:
    """What training reads: ``store`` holds all features of the documents, ``texts`` the encoded labels.

    Documents behind the first ``n_own`` may only judge. ``start``: the model that training goes on from, and
    ``start_rows`` the rows here of the labels of its record; None: it starts anew.
    """

    store: Path
    towers: np.ndarray
    dense_dim: int
    texts: LabelVectors
    lexical: Words
    active: np.ndarray
    same_text: np.ndarray
    settings: TrainSettings
    seed: int
    n_own: int
    start: Start | None = None
    start_rows: np.ndarray | None = None


@dataclass(frozen=True)
class Trained:
    """A trained tower and the (n_labels, dim + 1) prototypes and biases, zero rows where there is none.

    ``learned`` (n_labels,) bool: labels with documents in training; ``record``: what training left, without
    the documents' numbers.
    """

    tower: TrainedTower
    prototypes: np.ndarray
    n_epochs: int
    learned: np.ndarray
    record: TrainingRecord

    @property
    def by_text(self) -> bool:
        """Labels without documents have a prototype too, and hidden ones were hidden in training."""
        return self.record.by_text

    def without(self, hidden: np.ndarray) -> np.ndarray:
        """The prototypes as they would be if no document had the ``hidden`` (n_labels,) labels."""
        return self.prototypes if self.by_text else self.prototypes * ~hidden[:, None]


@dataclass(frozen=True)
class Split:
    """Which documents train (``docs``, rows) and which judge (``dev``).

    ``hidden`` (n_labels,) bool: labels to be learned as if no document had them, where labels are learned by
    text at all; ``n_epochs``: stop after so many, None: keep the epoch that ``dev`` likes best.
    """

    docs: np.ndarray
    dev: np.ndarray
    hidden: np.ndarray
    n_epochs: int | None


def train(
    source: TrainingSource,
    gold: sp.csr_matrix,
    split: Split,
    work: Path,
    report: Callable[[str], object],
    bar: Bar,
) -> Trained:
    """Train on documents with ``gold`` (n_docs, n_labels); features and checkpoints are kept in ``work``."""
    recipe = recipe_for(gold[: source.n_own], source.settings, source.seed, source.start)
    recipe = replace(recipe, stop_after=split.n_epochs)
    data, tower, draw, before = _prepared(source, gold, split, recipe, work)
    trainer = Trainer(data, tower, recipe, before)
    made_for = _identity(data, recipe, source.settings.dim, tower.columns, source.start)
    checkpoints = Checkpoints(work / "checkpoints", made_for)
    with bar("training", trainer.n_steps) as tick:
        trainer.run(checkpoints, report, tick)
    labels = trainer.labels
    out = np.zeros((gold.shape[1], tower.dim + 1), np.float32)
    out[labels.rows] = labels.prototypes(labels.rows).numpy()
    epoch, learned = trainer.progress.best_epoch, data.frequency > 0
    return Trained(tower, out, epoch, learned, _record(trainer, draw))


def _record(trainer: Trainer, draw: Draw) -> TrainingRecord:
    free, labels = trainer.labels.free, trainer.labels.seen
    tables = labels, free.rows, free.own, free.drawn
    none = np.zeros(0, np.int64)
    return TrainingRecord(trainer.recipe.by_text, trainer.network, draw, trainer.bag.squares, *tables, none)


def _prepared(
    source: TrainingSource, gold: sp.csr_matrix, split: Split, recipe: Recipe, work: Path
) -> tuple[TrainingData, TrainedTower, Draw, Before | None]:
    """The data in the form that the loop reads; the tower before training, how it was drawn, and its past."""
    everything = read_features(source.store, source.texts.features.shape[1])
    columns = choose_columns(everything, split.docs, source)
    tower, draw, before = _begun(columns, everything.shape[1], source)
    data = TrainingData(
        _selected(everything, tower, work / "selected"),
        source.towers,
        source.dense_dim,
        _only(gold, split.docs, ~source.active | (split.hidden & (recipe.by_text))),
        tower.select(source.texts.features),
        source.texts.towers[:, : source.dense_dim],
        source.active,
        source.same_text,
        split.docs,
        split.dev,
        gold[split.dev],
    )
    return data, tower, draw, before


def _begun(
    columns: np.ndarray, n_features: int, source: TrainingSource
) -> tuple[TrainedTower, Draw, Before | None]:
    """The tower for the features ``columns`` (n,) before training, how it was drawn, and its past."""
    shape = n_features, source.dense_dim, source.settings.dim
    if source.start is None or source.start_rows is None:
        draw = Draw.once(source.seed, len(columns))
        return TrainedTower.drawn(columns, *shape, draw), draw, None
    tower, draw, squares = source.start.tower(columns, source.lexical, source.seed)
    texts = TrainedTower.drawn(columns, *shape, draw)
    return tower, draw, Before(source.start.record, source.start_rows, texts, squares)


def recipe_for(gold: sp.csr_matrix, settings: TrainSettings, seed: int, start: Start | None = None) -> Recipe:
    """Loss and length for all documents' labels (n_docs, n_labels), whichever of them are trained on.

    What goes on from a model (``start``) learns labels as that did. Raises SettingError where it shall not.
    """
    n_seen = max(1, int((np.bincount(gold.indices, minlength=1) > 0).sum()))
    chosen, by_text = settings.loss, gold.nnz / n_seen < ENOUGH if start is None else start.record.by_text
    if chosen == "auto" and by_text:
        chosen = "decoupled_softmax"
    elif chosen == "auto":
        chosen = "bce" if n_seen <= RECIPES["bce"].label_limit else "sampled_softmax"
    recipe = RECIPES[chosen]
    if start is not None and recipe.by_text != by_text:
        alike = ", ".join(["auto", *(name for name, each in RECIPES.items() if each.by_text == by_text)])
        raise SettingError(
            f"train.loss={chosen}: the model of --from {start.path} learned labels another way; "
            f"wanted one of {alike}, or no --from"
        )
    epochs = settings.epochs or _n_epochs(recipe.by_text, gold.shape[0])
    recipe = replace(recipe, epochs=epochs, seed=seed, metric=settings.metric)
    recipe = replace(recipe, free_limit=settings.free_vectors)
    return replace(recipe, bag_rate=recipe.bag_rate * settings.rate, rate=recipe.rate * settings.rate)


def _n_epochs(by_text: bool, n_docs: int) -> int:
    """Passes over ``n_docs`` documents at most; the more there are, the fewer are needed."""
    if by_text:
        epochs = EPOCHS[0]  # more would learn some thousand documents by heart
    else:
        epochs = int(np.clip(round(EPOCHS[1] * (FEW_DOCUMENTS / max(1, n_docs)) ** 0.25), *EPOCHS))
    per_epoch = math.ceil(max(1, n_docs) / batch_size(n_docs))
    return max(epochs, min(MOST_EPOCHS, math.ceil(STEPS / per_epoch)))


def choose_columns(features: sp.csr_matrix, docs: np.ndarray, source: TrainingSource) -> np.ndarray:
    """The features that get an embedding: the most frequent, in two training documents at least.

    Parts of words are left out where the documents have many features: there words are enough.
    """
    counts = np.zeros(features.shape[1], np.int64)
    for start in range(0, len(docs), BLOCK):
        counts += np.bincount(features[docs[start : start + BLOCK]].indices, minlength=len(counts))
    columns = frequent_columns(counts, source.lexical, source.settings.max_features)
    return columns if source.start is None else _with_known(columns, source)


def _with_known(columns: np.ndarray, source: TrainingSource) -> np.ndarray:
    """``columns`` and other features that the model has learned, as many as there is room for."""
    assert source.start is not None
    known = np.setdiff1d(np.flatnonzero(source.start.places(source.lexical) >= 0), columns)
    rarest_last = known[np.argsort(source.lexical.idf[known], kind="stable")]
    room = max(0, source.settings.max_features - len(columns))
    return np.sort(np.concatenate([columns, rarest_last[:room]]))


def frequent_columns(counts: np.ndarray, lexical: object, limit: int) -> np.ndarray:
    """At most ``limit`` features that get an embedding; ``counts`` (n_features,): documents with each."""
    if isinstance(lexical, LexicalTower):
        n_words = len(lexical.keys)
        n_grams = 1 << lexical.settings.ngram_bits
        counts[n_words : len(counts) - n_grams] = 0  # unknown words share these
        if counts.sum() > MAX_NONZEROS:
            counts[-n_grams:] = 0
    counts[counts < 2] = 0
    n = min(limit, int((counts > 0).sum()))
    return np.sort(np.argsort(-counts, kind="stable")[:n]).astype(np.int64)


def _selected(features: sp.csr_matrix, tower: TrainedTower, directory: Path) -> sp.csr_matrix:
    writer = FeatureWriter(directory)
    for start in range(0, features.shape[0], BLOCK):
        writer.append(tower.select(features[start : start + BLOCK]))
    writer.close()
    return read_features(directory, len(tower.columns))


def _only(gold: sp.csr_matrix, docs: np.ndarray, hidden: np.ndarray) -> sp.csr_matrix:
    """``gold`` without the labels of other documents, and without the hidden ones."""
    keep = np.zeros(gold.shape[0], np.float32)
    keep[docs] = 1
    shown = (~hidden).astype(np.float32)[gold.indices]
    data = gold.data * shown * np.repeat(keep, np.diff(gold.indptr))
    kept = sp.csr_matrix((data, gold.indices, gold.indptr), gold.shape, copy=True)
    kept.eliminate_zeros()
    return kept


def _identity(
    data: TrainingData, recipe: Recipe, bag_dim: int, columns: np.ndarray, start: Start | None
) -> str:
    """Changes with anything that the trained weights depend on."""
    before = "" if start is None else start.id
    digest = hashlib.sha256(json.dumps([repr(recipe), data.dense_dim, bag_dim, before]).encode())
    arrays = [columns, data.docs, data.dev, data.active, data.same_text, data.label_dense]
    for matrix in (data.gold, data.dev_gold, data.features, data.label_features):
        arrays += [matrix.indptr, matrix.indices, matrix.data]
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    if data.dense_dim:
        digest.update(np.ascontiguousarray(data.towers[:: max(1, len(data.towers) // 1000)]).data)
        digest.update(np.ascontiguousarray(data.towers[data.dev]).data)
    return digest.hexdigest()
