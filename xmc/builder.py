"""Builder: encodes a source, trains where that is asked for, fits, and puts the model together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from xmc.artifacts import load_array, release
from xmc.crossed import Crossed
from xmc.data.records import DocumentBatch
from xmc.document_files import FEATURES, WINDOWS, WORDS, DocumentFiles
from xmc.encoders.cache import TextVectors, VectorCache
from xmc.encoders.dense import DenseTower
from xmc.encoders.dual import Encoded
from xmc.encoders.labels import LabelEncoder, LabelVectors
from xmc.encoders.lexical import LexicalTower
from xmc.encoders.writer import NpyAppender, read_features, read_vectors
from xmc.errors import InputError
from xmc.fit import (
    FitTask,
    Fitted,
    Weights,
    fit_share,
    fit_trained_share,
    held_out,
    with_duplicates,
    without_held_out,
)
from xmc.index.base import LabelIndex
from xmc.index.exact import ExactIndex
from xmc.index.kinds import make_index
from xmc.index.matcher import LabelMatcher
from xmc.label_text import label_names, label_texts, same_text
from xmc.linear import LinearLabels
from xmc.memory import DocumentMemory
from xmc.model import Model
from xmc.notices import notify
from xmc.progress import progress
from xmc.prototypes import LabelParts, centroids
from xmc.settings import BuildSettings, RerankSettings, TrainingSettings
from xmc.source import SHARD, Source
from xmc.stages import stage
from xmc.start import Start
from xmc.taught import Taught
from xmc.towers import first_encoder, pieces
from xmc.train.processes import team
from xmc.train.run import Split, Trained, TrainingSource, train
from xmc.trained_labels import TrainedLabels
from xmc.training_record import TrainingRecord
from xmc.tuned import Tunable

SMALL = 0.1  # share of held-out documents from which they are too many to be left untrained
EVEN = 0.5
N_QUERIES = 256  # documents on which the recall of an approximate index is measured


class Builder:
    """Encodes, fits and puts together the model of a source; ``tell`` gets lines about it meanwhile.

    ``start``: the model that training goes on from.
    """

    def __init__(
        self,
        source: Source,
        settings: BuildSettings,
        work: Path,
        tell: Callable[[list[str]], object] = notify,
        start: Start | None = None,
    ) -> None:
        self.source, self.settings, self.work, self.tell = source, settings, work, tell
        self.texts = label_texts(source.labels) if source.has_text else []
        self.start, run, known = start, settings.run, None
        if run.threads:
            torch.set_num_threads(run.threads)
        self.own = np.arange(len(source.ids)) < source.n_own  # what the model may hold
        self.fresh = self.own  # of these, what no training has learned from yet
        if start is not None:
            known = start.known(source.fingerprints, source.n_dev)
            self.fresh = self.own & ~known
        wanted = settings.rerank if source.has_text else RerankSettings()
        self.crossed = Crossed.wanted(wanted, run, source.labels, work / "cross", tell, self._bar)
        self.encoder = first_encoder(source, self.texts, settings, start)
        dense = self.encoder.dense
        self.training = settings.train if isinstance(settings, TrainingSettings) else None
        self.cache: TextVectors | None = None if dense is None else VectorCache(dense, work / "vectors")
        self.held = held_out(len(source.ids), run.seed, source.n_dev, known)
        self.apart = self.held  # what the fit leaves out, more once the documents are encoded

    def model(self) -> Model:
        """The whole model, in memory or memory-mapped from the work directory."""
        self._tune()
        team().dismiss()
        (labels, matcher), gold = self._labels(), self.source.gold
        towers, sample = self._documents()
        named = np.zeros(gold.shape[1], bool) if matcher is None else np.diff(matcher.starts) > 0
        self.apart = with_duplicates(self.held | ~self.own, towers[:, self.encoder.dense_dim :])
        rest = without_held_out(gold, self.apart, named, self.settings.run.seed)
        trained = self._train(labels, towers, rest) if self.training and gold[self.own].nnz else None
        if trained is not None:
            towers = self._with_trained(trained, towers, "training")
            sample = None if sample is None else self.encoder.with_trained(sample, trained.tower)
        self._share(towers)
        memory = self._memory(towers)
        taught = gold[self.own].nnz and self.settings.classifiers
        learn = self._taught(towers, rest, ~self.apart).classifiers if taught else None
        parts = self._parts(labels, towers, rest, trained)
        fitted = self._fit(parts, matcher, memory, sample, rest, learn)
        many_apart = self.fresh.any() and self.apart[self.fresh].mean() > SMALL
        learned = self.own if many_apart else ~self.apart
        if trained is not None and many_apart:
            trained = self._train_on_all(labels, towers, trained.n_epochs)
            towers = self._with_trained(trained, towers, "final")
            memory = self._memory(towers)
        model = self._whole(labels, towers[: self.source.n_own], matcher, memory, fitted.weights, trained)
        model = replace(model, cross=fitted.cross)
        if trained is not None:
            model = replace(model, record=self._record(trained.record, learned))
        if fitted.linear is None:
            return model
        known = gold.multiply(self.own[:, None]).tocsr()
        known.eliminate_zeros()  # or the labels of judging documents would still be entries
        learn = self._taught(towers, known, self.own).classifiers
        return replace(model, linear=learn(model.index, None if many_apart else fitted.linear))

    def _record(self, record: TrainingRecord, docs: np.ndarray) -> TrainingRecord:
        """The record with all documents learned from: ``docs`` (n_docs,) bool now, and those before."""
        before = [] if self.start is None else [self.start.record.learned]
        numbers = self.source.fingerprints[docs].view(np.int64)
        return replace(record, learned=np.unique(np.concatenate([*before, numbers])))

    def _taught(self, towers: np.ndarray, gold: sp.csr_matrix, docs: np.ndarray) -> Taught:
        """What classifiers are learned from: the documents ``docs`` (n_docs,) bool, with ``gold``."""
        return Taught(
            self.encoder,
            self.work / WORDS,
            towers,
            gold,
            np.flatnonzero(docs),
            ~self.source.labels.retired,
            same_text(self.source.labels),
            self.settings.run.seed,
            self.work / "linear",
            self._bar,
        )

    @stage("putting together")
    def _whole(
        self,
        labels: LabelVectors,
        towers: np.ndarray,
        matcher: LabelMatcher | None,
        memory: DocumentMemory,
        weights: Weights,
        trained: Trained | None,
    ) -> Model:
        """The model of all documents that it may hold; ``towers`` (n_own, dim) are theirs."""
        n_own = self.source.n_own
        parts = self._parts(labels, towers, self.source.gold[:n_own], trained)
        index = self._index(*self._folded(parts, weights), towers)
        labels_trained = None
        if trained is not None and trained.by_text:
            network, draw = trained.record.network, trained.record.draw
            labels_trained = TrainedLabels.of(network, trained.learned, trained.tower, draw)
        remembered = memory if n_own else None
        return Model(
            self.source.labels, self.encoder, index, matcher, remembered, weights, trained=labels_trained
        )

    @stage("tuning")
    def _tune(self) -> None:
        """Put a dense tower tuned to the documents in the place of the given one, where that is asked for."""
        tower, words = self.encoder.dense, self.encoder.lexical
        if not self.training or tower is None or not isinstance(words, LexicalTower):
            return
        names, starts = label_names(self.source.labels, self.texts)
        features = [words.features(part) for part in pieces(names)] or [words.features([])]
        matcher = LabelMatcher(sp.vstack(features, format="csr"), starts)
        run = self.settings.run
        known = self.source, self.texts, tower, words, matcher, self.held, self.training, run.seed
        folder = Tunable(*known).tuned(
            self.work / "tuning",
            lambda line: self.tell([line]),
            lambda what, total: self._bar(what, "steps", total),
        )
        if folder is not None:
            self.encoder.dense = DenseTower.load(str(folder), device=tower.device, dtype=tower.dtype)
            self.cache = VectorCache(self.encoder.dense, self.work / "vectors")

    def _parts(
        self, labels: LabelVectors, towers: np.ndarray, gold: sp.csr_matrix, trained: Trained | None
    ) -> LabelParts:
        """What is known of each label if documents carry ``gold`` (n_docs, n_labels)."""
        frequency = np.bincount(gold.indices, minlength=gold.shape[1])
        middle = centroids(gold, towers[:, : self.encoder.untrained_dim], self.encoder.dense_dim)
        release(towers)
        prototypes = None if trained is None else trained.without(frequency == 0)
        if prototypes is not None:
            frequency = frequency * prototypes.any(axis=1)  # as Model.counted
        return LabelParts(labels.towers, middle, self.encoder.dense_dim, frequency, prototypes)

    def _encode(self, batch: DocumentBatch) -> Encoded:
        dense = None
        if self.cache is not None and batch.texts is not None:
            dense = self.cache.encode(batch.texts, batch.ids)
        return self.encoder.encode(batch, dense)

    @stage("labels")
    def _labels(self) -> tuple[LabelVectors, LabelMatcher | None]:
        """All labels' texts, and their names as sparse features; without texts, nothing of both."""
        labels, words = self.source.labels, self.encoder.lexical
        if not isinstance(words, LexicalTower):
            return LabelVectors(len(labels), self.encoder.dim, words.n_features), None
        names, starts = label_names(labels, self.texts)
        encoder = LabelEncoder(words, self.cache, self.work / "labels", self.training is not None)
        with self._bar("encoding labels", "labels", len(labels)) as done:
            vectors, features = encoder.encode(labels.ids.to_pylist(), self.texts, names, starts, done)
        return vectors, LabelMatcher(features, starts)

    @stage("documents")
    def _documents(self) -> tuple[np.ndarray, Encoded | None]:
        """(n_docs, dim) tower vectors, memory-mapped, and the held-out documents encoded."""
        kept = self.training is not None, self.settings.classifiers
        files = DocumentFiles(self.work, self.encoder, *kept)
        sample, start = [], 0
        with self._bar("encoding documents", "documents", len(self.source.ids)) as done:
            for batch in self.source.batches():
                encoded = self._encode(batch)
                files.append(encoded)
                held = np.flatnonzero(self.held[start : start + len(batch)])
                sample.append(encoded.take(held))
                if self.crossed is not None:
                    self.crossed.see(batch, held)
                start += len(batch)
                done(len(batch))
        towers = files.close()
        if start != len(self.source.ids):
            raise InputError("the documents changed while they were read; run the command again")
        return towers, Encoded.concat(sample) if sample else None

    def _train(self, labels: LabelVectors, towers: np.ndarray, rest: sp.csr_matrix) -> Trained:
        """Train on what the fit may know (``rest``), and judge by the held-out documents."""
        split = Split(np.flatnonzero(~self.apart), np.flatnonzero(self.held), _without_documents(rest), None)
        return self._trained(labels, towers, split, "training")

    def _train_on_all(self, labels: LabelVectors, towers: np.ndarray, n_epochs: int) -> Trained:
        """Train again, on the held-out documents too, where they are many among few."""
        docs, n_labels = np.flatnonzero(self.own), self.source.gold.shape[1]
        split = Split(docs, np.zeros(0, np.int64), np.zeros(n_labels, bool), n_epochs)
        return self._trained(labels, towers, split, "final")

    @stage("training")
    def _trained(self, labels: LabelVectors, towers: np.ndarray, split: Split, name: str) -> Trained:
        trained = train(
            self._training_source(labels, towers),
            self.source.gold,
            split,
            self.work / name,
            lambda line: self.tell([line]),
            lambda what, total: self._bar(what, "steps", total),
        )
        trained_share = self.encoder.trained_share or EVEN  # until it is fitted, if it can be
        self.encoder.trained, self.encoder.trained_share = trained.tower, trained_share
        return trained

    def _training_source(self, texts: LabelVectors, towers: np.ndarray) -> TrainingSource:
        assert self.training is not None
        return TrainingSource(
            self.work / FEATURES,
            towers,
            self.encoder.dense_dim,
            texts,
            self.encoder.lexical,
            ~self.source.labels.retired,
            same_text(self.source.labels),
            self.training,
            self.settings.run.seed,
            self.source.n_own,
            self.start,
            None if self.start is None else self.start.rows(self.source.labels),
        )

    @stage("training")
    def _with_trained(self, trained: Trained, towers: np.ndarray, name: str) -> np.ndarray:
        """(n_docs, dim) the untrained towers' columns and the trained tower's, memory-mapped."""
        path, base = self.work / f"towers-{name}.npy", self.encoder.untrained_dim
        out = NpyAppender(path, "float32", (base + trained.tower.dim,))
        features = read_features(self.work / FEATURES, self.encoder.lexical.n_features)
        for start in range(0, len(towers), SHARD):
            block = np.asarray(towers[start : start + SHARD, :base])
            vectors = trained.tower.encode(
                features[start : start + SHARD], block[:, : self.encoder.dense_dim]
            )
            out.append(np.hstack([block, vectors]))
        out.close()
        release(towers)
        return load_array(path)

    @stage("fit: weights")
    def _share(self, towers: np.ndarray) -> None:
        """Fit what each tower is worth, by how well neighbours vote for held-out documents."""
        encoder, gold = self.encoder, self.source.gold
        encoder.share = fit_share(encoder, towers, gold, self.held)
        encoder.trained_share = fit_trained_share(encoder, towers, gold, self.held)

    def _fit(
        self,
        parts: LabelParts,
        matcher: LabelMatcher | None,
        memory: DocumentMemory,
        sample: Encoded | None,
        rest: sp.csr_matrix,
        learn: Callable[[LabelIndex], LinearLabels] | None,
    ) -> Fitted:
        gold, held, encoder = self.source.gold, self.held, self.encoder
        if sample is None or not held.any():
            return Fitted(Weights.unfitted(encoder))
        usable = np.random.default_rng(self.settings.run.seed).permutation(np.flatnonzero(sample.ok))
        active = ~self.source.labels.retired
        task = FitTask(
            encoder,
            sample.take(usable),
            gold[held][usable],
            parts,
            matcher,
            replace(memory, labels=rest[: len(memory)]),
            ~self.apart[: len(memory)],
            active,
            self.work,
            self.settings.run.seed,
            _without_documents(rest) & ~_without_documents(gold[~self.apart]),
            learn,
            None if self.crossed is None else self.crossed.fitter(usable),
        )
        return task.fit()

    def _folded(self, parts: LabelParts, weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the labels that have a vector, and their (n, dim + 1) vectors, memory-mapped."""
        path, rows = self.work / "prototypes.npy", [np.zeros(0, np.int64)]
        out = NpyAppender(path, "float32", (self.encoder.dim + 1,))
        for at, vectors in parts.folded(weights.prototype, self.encoder.scale):
            out.append(vectors)
            rows.append(at)
        out.close()
        return np.concatenate(rows), load_array(path)

    def _index(self, rows: np.ndarray, vectors: np.ndarray, towers: np.ndarray) -> LabelIndex:
        """The index over the (n, dim + 1) vectors of the labels in (n,) rows."""
        chosen = self.settings.index
        index = make_index(
            chosen.kind,
            vectors.shape[1],
            "ip",
            len(rows),
            strict=self.settings.strict,
            recall=chosen.recall,
            use=chosen.use,
            memory=round(chosen.memory * 1e9),
        )
        index.add(rows, vectors)
        queries = towers[:: max(1, len(towers) // N_QUERIES)][:N_QUERIES] * self.encoder.scale
        queries = np.hstack([queries, np.ones((len(queries), 1), np.float32)])
        index.compact(queries if len(queries) else None)
        return index

    @stage("remembering")
    def _memory(self, towers: np.ndarray) -> DocumentMemory:
        """The memory of all documents that the model may hold, with these ``towers``.

        The fit finds neighbours by it too, and leaves out what it may not know.
        """
        n, encoder = self.source.n_own, self.encoder

        def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for start in range(0, n, SHARD):
                vectors = np.asarray(towers[start : min(n, start + SHARD)]) * encoder.scale
                rows = np.flatnonzero(vectors.any(axis=1))
                yield rows + start, vectors[rows]

        index = ExactIndex.written(self.work / "memory.npy", encoder.dim, "cosine", blocks())
        release(towers)
        windows = read_vectors(self.work / WINDOWS).first(n) if self.cache else None
        ids = pa.array(self.source.ids[:n], pa.large_string())
        return DocumentMemory.over(index, self.source.gold[:n], ids, windows)

    def _bar(self, what: str, unit: str, total: int) -> AbstractContextManager[Callable[[int], object]]:
        return progress(self.settings.run.progress, what, unit, lambda: total)


def _without_documents(gold: sp.csr_matrix) -> np.ndarray:
    """(n_labels,) bool: no document has the label."""
    return np.bincount(gold.indices, minlength=gold.shape[1]) == 0
