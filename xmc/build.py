"""``xmc index``: labels, and tagged documents if there are any, into a model, without gradient training."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from xmc.artifacts import ArtifactWriter
from xmc.commands.notices import notify
from xmc.data.corpus import Corpus
from xmc.data.formats import labels_of, open_corpus, read_filter, read_labels
from xmc.data.gold import GoldReader
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch
from xmc.encoders.cache import VectorCache
from xmc.encoders.dense import DenseTower
from xmc.encoders.dual import DualEncoder, Encoded
from xmc.encoders.given import GivenTower
from xmc.encoders.lexical import LexicalSettings, LexicalTower
from xmc.encoders.windows import WindowVectors
from xmc.encoders.writer import NpyAppender, VectorWriter, read_vectors
from xmc.errors import InputError, SettingError, some
from xmc.fit import FitTask, Weights, fit_share, held_out, without_held_out
from xmc.index.base import LabelIndex
from xmc.index.kinds import make_index
from xmc.index.matcher import LabelMatcher
from xmc.label_text import label_names, label_texts
from xmc.memory import DocumentMemory
from xmc.model import KIND, Model
from xmc.progress import progress
from xmc.prototypes import LabelParts, centroids
from xmc.settings import BuildSettings

N_QUERIES = 256  # documents on which the recall of an approximate index is measured
SHARD = 2000  # texts encoded, and kept for resuming, at a time


def build_model(
    labels: str | Path | None,
    docs: Sequence[str | Path] | None,
    filter_pairs: str | Path | None,
    out: str | Path,
    settings: BuildSettings,
) -> None:
    """Build the model ``out`` from a label file and document files.

    Killed and run again it takes up the texts that were encoded. An existing model is not replaced.

    Raises:
        InputError: the files are not what was asked for.
        ResourceError: disk, memory, a device or a package is missing.
    """
    out, report = Path(out), ReadReport()
    work = out.parent / f".{out.name}.xmc-build"
    with (
        ArtifactWriter(out, KIND, settings=_recorded(settings), built_by="xmc index") as writer,
        _workplace(work),
    ):
        source = _read(labels, docs, filter_pairs, settings.read, report)
        notify(report.lines())
        builder = _Builder(source, settings, work)
        model = builder.model()
        model.save(writer.path)
        notify(builder.summary(model))
    shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _workplace(work: Path) -> Iterator[None]:
    """Makes a directory to work in; in the end only encoded texts stay in it, for the next time."""
    work.mkdir(exist_ok=True)
    try:
        yield
    finally:
        for leftover in [work / "towers.npy", *(work / "windows").glob("*")]:
            leftover.unlink(missing_ok=True)
        for folder in (work / "windows", work):
            with suppress(OSError):  # encoded texts are in it, or it was never made
                folder.rmdir()


@dataclass
class _Source:
    """What was read in the first pass over the documents."""

    labels: LabelSet
    corpus: Corpus | None
    gold: sp.csr_matrix
    ids: list[str]

    @property
    def has_text(self) -> bool:
        return self.corpus is None or self.corpus.has_text

    def batches(self) -> Iterator[DocumentBatch]:
        return iter(()) if self.corpus is None else self.corpus.batches(SHARD)


def _recorded(settings: BuildSettings) -> dict[str, object]:
    return {
        "encoder.dense": settings.encoder.dense,
        "encoder.max_length": settings.encoder.max_length,
        "index.kind": settings.index.kind,
        "seed": settings.run.seed,
        "dtype": settings.run.dtype,
    }


def _read(
    labels: str | Path | None,
    docs: Sequence[str | Path] | None,
    filter_pairs: str | Path | None,
    options: ReadOptions,
    report: ReadReport,
) -> _Source:
    """Labels and gold labels; texts are read again when they are needed."""
    corpus = open_corpus(docs, options, report) if docs else None
    if labels is not None:
        label_set: LabelSet | None = read_labels(labels, options, report)
    else:
        label_set = labels_of(docs[0], options, report) if docs else None
    if label_set is None:
        raise SettingError("--labels F is missing: the format of --docs does not define the labels itself")
    ids: list[str] = []
    blocks: list[sp.csr_matrix] = []
    reader = GoldReader(label_set, options, report)
    for batch in corpus.batches(SHARD) if corpus else ():
        ids.extend(batch.ids)
        blocks.append(reader.batch(batch))
    label_set = reader.finish()
    gold = _stack(blocks, len(label_set))
    if filter_pairs is not None:
        gold = _without(gold, read_filter(filter_pairs, options), filter_pairs)
    return _Source(label_set, corpus, gold, ids)


def _stack(blocks: list[sp.csr_matrix], n_labels: int) -> sp.csr_matrix:
    """(n_docs, n_labels) bool; earlier blocks may know fewer labels."""
    if not blocks:
        return sp.csr_matrix((0, n_labels), dtype=np.float32)
    wide = [sp.csr_matrix((b.data, b.indices, b.indptr), (b.shape[0], n_labels)) for b in blocks]
    return sp.vstack(wide, format="csr", dtype=np.float32)


def _without(gold: sp.csr_matrix, pairs: np.ndarray, path: object) -> sp.csr_matrix:
    """``gold`` without the (document row, label row) pairs of a filter file."""
    if len(pairs) and (pairs.max(axis=0) >= gold.shape).any():
        raise InputError(f"{path}: names document or label rows beyond {gold.shape[0]} and {gold.shape[1]}")
    cut = sp.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), gold.shape)
    kept = gold - gold.multiply(cut > 0)
    kept.eliminate_zeros()
    return kept.tocsr()


class _Builder:
    """Encodes, fits and puts together the model of a source."""

    def __init__(self, source: _Source, settings: BuildSettings, work: Path) -> None:
        self.source, self.settings, self.work = source, settings, work
        self.texts = label_texts(source.labels) if source.has_text else []
        dense = None
        run = settings.run
        if run.threads:
            torch.set_num_threads(run.threads)
        if settings.encoder.dense != "none" and source.has_text:
            dense = DenseTower.load(
                settings.encoder.dense, settings.encoder.max_length, run.device, run.dtype
            )
        self.encoder = DualEncoder(dense, self._lexical())
        self.cache = None if dense is None else VectorCache(dense, work / "vectors")
        self.held = held_out(len(source.ids), settings.run.seed)

    def model(self) -> Model:
        """The whole model, in memory or memory-mapped from the work directory."""
        encoded_labels = self._labels()
        matcher = None
        if isinstance(words := self.encoder.lexical, LexicalTower):
            names, starts = label_names(self.source.labels, self.texts)
            features = [words.features(part) for part in _pieces(names)] or [words.features([])]
            matcher = LabelMatcher(sp.vstack(features, format="csr"), starts)
        towers, sample = self._documents()
        texts = encoded_labels.towers
        weights = self._fit(texts, matcher, towers, sample)
        gold = self.source.gold
        middle = centroids(gold, towers, self.encoder.dense_dim)
        frequency = np.bincount(gold.indices, minlength=gold.shape[1])
        vectors = LabelParts(texts, middle, self.encoder.dense_dim, frequency).fold(
            weights.prototype, self.encoder.scale
        )
        index = self._index(vectors, towers)
        memory = None
        if self.source.ids:
            windows = read_vectors(self.work / "windows") if self.cache else None
            memory = self._memory(towers, np.ones(len(self.source.ids), bool), windows)
        return Model(self.source.labels, self.encoder, index, matcher, memory, weights)

    def summary(self, model: Model) -> list[str]:
        """What the user should know of the model."""
        n_labels, n_seen = len(model.labels), int((model.frequency > 0).sum())
        lines = [
            f"{_counted(n_labels, 'label')}, {int(model.scoreable.sum()):,} of them scoreable, "
            f"{n_seen:,} with documents; {_counted(len(self.source.ids), 'document')}"
        ]
        missing = np.flatnonzero(~model.index.has(np.arange(n_labels)) & ~model.labels.retired)
        if len(missing):
            named = some([model.labels.id(row) for row in missing[:5]] + [""] * max(0, len(missing) - 5))
            lines.append(
                f"{_counted(len(missing), 'label')} without words and documents, not scoreable yet: {named}"
            )
        if model.index.notice:
            lines.append(model.index.notice)
        return lines

    def _lexical(self) -> LexicalTower | GivenTower:
        settings = LexicalSettings(seed=self.settings.run.seed)
        if self.source.has_text:
            texts = (batch.texts or [] for batch in self.source.batches())
            return LexicalTower.fit(texts, _pieces(self.texts), settings)
        corpus = self.source.corpus
        n_features = 0 if corpus is None else corpus.n_features or 0
        rows = (b.features for b in self.source.batches() if b.features is not None)
        return GivenTower.fit(rows, n_features, settings)

    def _encode(self, batch: DocumentBatch) -> Encoded:
        dense = None
        if self.cache is not None and batch.texts is not None:
            dense = self.cache.encode(batch.texts, batch.ids)
        return self.encoder.encode(batch, dense)

    def _labels(self) -> Encoded:
        """All labels' texts; without texts, empty rows."""
        n_labels, words = len(self.source.labels), self.encoder.lexical
        if not self.source.has_text:
            none = sp.csr_matrix((n_labels, words.n_features), dtype=np.float32)
            return Encoded(None, none, np.zeros((n_labels, words.dim), np.float32), none)
        parts = []
        ids = self.source.labels.ids
        with self._bar("encoding labels", "labels", n_labels) as done:
            for start in range(0, n_labels, 10 * SHARD):
                texts = self.texts[start : start + 10 * SHARD]
                names = ids.slice(start, len(texts)).to_pylist()
                parts.append(self._encode(DocumentBatch(names, texts, None, None, names)))
                done(len(texts))
        return Encoded.concat(parts)

    def _documents(self) -> tuple[np.ndarray, Encoded | None]:
        """(n_docs, dim) tower vectors, memory-mapped, and the held-out documents encoded."""
        path = self.work / "towers.npy"
        out, sample, start = NpyAppender(path, "float32", (self.encoder.dim,)), [], 0
        windows = VectorWriter(self.work / "windows", self.encoder.dense_dim) if self.cache else None
        with self._bar("encoding documents", "documents", len(self.source.ids)) as done:
            for batch in self.source.batches():
                encoded = self._encode(batch)
                out.append(encoded.towers)
                if windows is not None and encoded.dense is not None:
                    windows.append(encoded.dense)
                sample.append(encoded.take(np.flatnonzero(self.held[start : start + len(batch)])))
                start += len(batch)
                done(len(batch))
        out.close()
        if windows is not None:
            windows.close()
        if start != len(self.source.ids):
            raise InputError("the documents changed while they were read; run the command again")
        towers = np.load(path, mmap_mode="r", allow_pickle=False)
        return towers, Encoded.concat(sample) if sample else None

    def _fit(
        self, texts: np.ndarray, matcher: LabelMatcher | None, towers: np.ndarray, sample: Encoded | None
    ) -> Weights:
        gold, held, encoder = self.source.gold, self.held, self.encoder
        if sample is None or not held.any():
            return Weights.unfitted(encoder)
        encoder.share = fit_share(encoder, towers, gold, held)
        named = np.zeros(gold.shape[1], bool) if matcher is None else np.diff(matcher.starts) > 0
        rest = without_held_out(gold, held, named, self.settings.run.seed)
        parts = LabelParts(
            texts,
            centroids(rest, towers, encoder.dense_dim),
            encoder.dense_dim,
            np.bincount(rest.indices, minlength=gold.shape[1]),
        )
        usable = np.flatnonzero(sample.ok)
        memory = replace(self._memory(towers, ~held), labels=rest)
        active = ~self.source.labels.retired
        task = FitTask(
            encoder, sample.take(usable), gold[held][usable], parts, matcher, memory, ~held, active
        )
        return task.fit()

    def _index(self, vectors: np.ndarray, towers: np.ndarray) -> LabelIndex:
        """The index over the labels' (n_labels, dim + 1) vectors, those that are not zero."""
        chosen, rows = self.settings.index, np.flatnonzero(vectors.any(axis=1))
        index = make_index(
            chosen.kind, vectors.shape[1], "ip", len(rows), strict=self.settings.strict, recall=chosen.recall
        )
        index.add(rows, vectors[rows])
        queries = towers[:: max(1, len(towers) // N_QUERIES)][:N_QUERIES] * self.encoder.scale
        queries = np.hstack([queries, np.ones((len(queries), 1), np.float32)])
        index.compact(queries if len(queries) else None)
        return index

    def _memory(
        self, towers: np.ndarray, among: np.ndarray, windows: WindowVectors | None = None
    ) -> DocumentMemory:
        """The memory of the documents ``among`` that have a vector."""
        index = make_index("exact", self.encoder.dim, "cosine")
        for start in range(0, len(towers), SHARD):
            vectors = np.asarray(towers[start : start + SHARD]) * self.encoder.scale
            rows = np.flatnonzero(vectors.any(axis=1) & among[start : start + SHARD])
            index.add(rows + start, vectors[rows])
        index.compact()
        ids = pa.array(self.source.ids, pa.large_string())
        return DocumentMemory(index, self.source.gold, ids, windows)

    def _bar(self, what: str, unit: str, total: int) -> AbstractContextManager[Callable[[int], object]]:
        return progress(self.settings.run.progress, what, unit, lambda: total)


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _pieces(texts: list[str]) -> Iterator[list[str]]:
    """Texts in lists of bounded length."""
    return (texts[start : start + 50_000] for start in range(0, len(texts), 50_000))
