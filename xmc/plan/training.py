"""What training costs: steps of the real loop on few documents, with labels and words as there will be."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from xmc.encoders.given import GivenTower
from xmc.encoders.lexical import LexicalTower
from xmc.encoders.trained import TrainedTower
from xmc.label_text import label_texts
from xmc.model import Model
from xmc.settings import TrainSettings
from xmc.source import Source
from xmc.stages import Cost, measured
from xmc.train.batches import batch_size
from xmc.train.checkpoint import Checkpoints
from xmc.train.data import TrainingData
from xmc.train.loop import Recipe, Trainer
from xmc.train.run import frequent_columns

MOST_LABELS = 20_000  # of a probe; what more of them cost is scaled up
MOST_SEEN = 8192  # labels with documents in a probe: more than a step scores
N_STEPS = 4  # an epoch of the probe, at least
N_EPOCHS = 2
N_DEV = 200  # documents that judge in the probe


@dataclass(frozen=True)
class TrainProbe:
    """Costs of a ``step``, of ``judging`` once, and for one document of ``mining`` and of ``encoding``.

    ``peak``: bytes that the probe added at most; ``per_doc``: those of each document; ``n_docs`` and
    ``n_labels`` of the probe; ``n_features``: words that have an embedding; ``checkpoint``: bytes.
    """

    step: Cost
    judging: Cost
    mining: Cost
    encoding: Cost
    peak: int
    per_doc: float
    n_docs: int
    n_labels: int
    n_features: int
    checkpoint: int


@dataclass(frozen=True)
class Whole:
    """What is to be trained on: documents, labels, how many have documents, labels a document."""

    n_docs: int
    n_labels: int
    n_seen: int
    labels_a_document: float


def probe_training(
    sample: Source, model: Model, whole: Whole, recipe: Recipe, settings: TrainSettings, work: Path
) -> TrainProbe:
    """Some steps with the ``recipe`` on the documents of the ``sample``; ``model``: made of it."""
    with measured() as spent:
        data, tower = _data(sample, model, whole, settings, recipe.seed)
        trainer = Trainer(data, tower, replace(recipe, epochs=N_EPOCHS, stop_after=None))
        trainer.batch = batch_size(whole.n_docs)
        trainer.per_epoch = -(-len(data.docs) // trainer.batch)
        clock = _Clock()
        trainer.run(Checkpoints(work / "checkpoints", "plan"), clock.judged, clock.stepped)
    step, judging, epoch = clock.costs()
    n_dev = len(data.dev)
    mining = (epoch - judging).times(1 / max(1, len(data.docs) - n_dev))
    every = _with_length([trainer.labels, data], data.features.shape[0])
    return TrainProbe(
        step,
        judging,
        mining if recipe.by_text else Cost(),
        _encoding(sample, model),
        spent[0].peak - spent[0].before,
        every / data.features.shape[0],
        data.features.shape[0],
        data.gold.shape[1],
        len(tower.columns),
        _nbytes([*trainer.best.values()]) * 2 + _nbytes([*trainer.labels.state().values()]),
    )


class _Clock:
    """When steps and judgements of a run ended."""

    def __init__(self) -> None:
        self._times: list[tuple[str, float, float]] = []

    def stepped(self, n: int) -> None:
        self._times.append(("step", time.process_time(), time.perf_counter()))

    def judged(self, line: str) -> None:
        self._times.append(("judged", time.process_time(), time.perf_counter()))

    def costs(self) -> tuple[Cost, Cost, Cost]:
        """Medians: of a step, of judging, and of what an epoch does before its first step."""
        found: dict[tuple[str, str], list[Cost]] = {}
        for (kind, cpu, wall), (then, cpu2, wall2) in zip(self._times[1:], self._times[2:], strict=False):
            found.setdefault((kind, then), []).append(Cost(cpu2 - cpu, wall2 - wall))
        step = _median(found.get(("step", "step"), []))
        return (
            step,
            _median(found.get(("step", "judged"), [])),
            _median(found.get(("judged", "step"), [])) - step,
        )


def _median(costs: list[Cost]) -> Cost:
    if not costs:
        return Cost()
    return Cost(median(c.cpu for c in costs), median(c.wall for c in costs))


def _data(
    sample: Source, model: Model, whole: Whole, settings: TrainSettings, seed: int
) -> tuple[TrainingData, TrainedTower]:
    """Training data of the sample's documents, repeated as often as it takes, with labels drawn at random."""
    random = np.random.default_rng(seed)
    each = max(1, round(whole.labels_a_document))
    n_labels = min(whole.n_labels, MOST_LABELS)
    n_seen = max(1, min(whole.n_seen, MOST_SEEN, n_labels))
    n_docs = min(whole.n_docs, max(N_STEPS * batch_size(whole.n_docs), -(-n_seen // each)))
    n_dev = min(N_DEV, n_docs)
    docs, labels, tower = _selected(sample, model, whole, settings, seed)
    repeated = np.arange(n_docs + n_dev) % docs.shape[0]
    dense_dim = model.encoder.dense_dim
    of_docs = np.resize(random.permutation(n_seen), n_docs * each)
    gold = _matrix(np.repeat(np.arange(n_docs), each), of_docs, (n_docs + n_dev, n_labels))
    dev_gold = _matrix(np.arange(n_dev), of_docs[:n_dev], (n_dev, n_labels))
    data = TrainingData(
        docs[repeated],
        random.standard_normal((len(repeated), dense_dim), dtype=np.float32),
        dense_dim,
        gold,
        labels[np.arange(n_labels) % labels.shape[0]],
        random.standard_normal((n_labels, dense_dim), dtype=np.float32),
        np.ones(n_labels, bool),
        np.arange(n_labels),
        np.arange(n_docs),
        np.arange(n_docs, n_docs + n_dev),
        dev_gold,
    )
    return data, tower


def _matrix(docs: np.ndarray, labels: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    matrix = sp.csr_matrix((np.ones(len(docs), np.float32), (docs, labels)), shape)
    matrix.data[:] = 1
    return matrix


def _selected(
    sample: Source, model: Model, whole: Whole, settings: TrainSettings, seed: int
) -> tuple[sp.csr_matrix, sp.csr_matrix, TrainedTower]:
    """The features of documents and labels that are trained, and a tower with as many as there will be."""
    batch = next(sample.batches())
    words = model.encoder.lexical
    names = sp.csr_matrix((len(sample.labels), words.n_features), dtype=np.float32)
    if batch.texts is not None:
        texts = label_texts(sample.labels)
        # Words that only one of the sample's documents has will stand in others too.
        words = LexicalTower.fit([batch.texts], [texts], replace(words.settings, min_documents=1))
        names = words.features(texts)
    features = words.features_of(batch)[0]
    factor = max(1.0, whole.n_docs / features.shape[0])
    counts = (np.bincount(features.indices, minlength=features.shape[1]) * factor).astype(np.int64)
    columns = frequent_columns(counts, words, settings.max_features)
    more = max(0, min(settings.max_features, _expected(features, words, factor)) - len(columns))
    n_all = features.shape[1]
    columns = np.concatenate([columns, n_all + np.arange(more)])
    tower = TrainedTower.untrained(columns, n_all + more, model.encoder.dense_dim, settings.dim, seed)
    return tower.select(features), tower.select(names), tower


def _expected(features: sp.csr_matrix, words: LexicalTower | GivenTower, factor: float) -> int:
    """How many there will be to choose from: words, and parts of words, of which there are only so many."""
    if isinstance(words, GivenTower):
        return min(words.n_features, expected_features(features, factor))
    n_grams = 1 << words.settings.ngram_bits
    exact = expected_features(features[:, : len(words.keys)], factor)
    return exact + min(n_grams, expected_features(features[:, -n_grams:], factor))


def expected_features(features: sp.csr_matrix, factor: float) -> int:
    """How many features at least two of ``factor`` times as many documents will have (Heaps' law).

    ``features`` (n_docs, n_features) of a sample; the exponent comes from it and its half.
    """
    counts = [np.bincount(part.indices, minlength=part.shape[1]) for part in (features[::2], features)]
    few, all_ = (max(1, int((c > 1).sum())) for c in counts)
    return int(all_ * factor ** np.log2(max(1.0, all_ / few)))


def _encoding(sample: Source, model: Model) -> Cost:
    """What one document costs the trained tower."""
    batch, tower = next(sample.batches()), model.encoder.trained
    if tower is None:
        return Cost()
    features = model.encoder.lexical.features_of(batch)[0]
    dense = np.ones((len(batch), model.encoder.dense_dim), np.float32)
    with measured() as found:
        tower.encode(features, dense)
    return found[0].times(1 / len(batch))


def _with_length(holders: Iterable[object], n: int) -> int:
    """Bytes of all arrays that the objects hold and that have ``n`` rows."""
    held = {id(v): v for holder in holders for v in vars(holder).values()}.values()
    return _nbytes(v for v in held if getattr(v, "shape", (None,))[0] == n)


def _nbytes(arrays: Iterable[Any]) -> int:
    total = 0
    for array in arrays:
        if isinstance(array, sp.csr_matrix):
            total += array.data.nbytes + array.indices.nbytes + array.indptr.nbytes
        elif isinstance(array, np.ndarray | Tensor):
            total += array.nbytes
    return total
