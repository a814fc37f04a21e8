"""From files to an Evaluation: what `xmc eval` does, and the same from Python."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from xmc.data.files import is_stdin
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.text import shorten
from xmc.errors import InputError
from xmc.evaluate.evaluation import EvalSettings, Evaluation, LabelNames, evaluate
from xmc.evaluate.predictions import IdSpace, read_predictions
from xmc.evaluate.ranked import Ranked, in_pairs, owners

if TYPE_CHECKING:
    from xmc.data.labels import LabelSet
    from xmc.data.records import DocumentBatch

BATCH = 4096
NO_TRAIN = "without --train there are no propensity-scored metrics and no label bins"


@dataclass(frozen=True)
class _Pairs:
    """(document row, label row) pairs of the documents ``doc_ids``; ``docs`` and ``rows`` (n_pairs,)."""

    doc_ids: list[str]
    docs: np.ndarray
    rows: np.ndarray

    def without(self, pairs: np.ndarray, n_labels: int) -> tuple[_Pairs, int]:
        """These without ``pairs`` (n, 2), and how many of them were among these."""
        drop = in_pairs(self.docs, self.rows, pairs[:, 0], pairs[:, 1], n_labels)
        return replace(self, docs=self.docs[~drop], rows=self.rows[~drop]), int(drop.sum())


@dataclass(frozen=True)
class Truth:
    """Gold labels, read once, that any number of suggestion files are measured against.

    ``space`` numbers the labels, ``vocabulary`` (with ``label_ids``, its ids) is None where no file
    defines one, ``trained`` holds the training documents, and ``removed`` (n_pairs, 2) the rows of the
    filter, of which ``counts`` tells how many were gold labels.
    """

    gold: _Pairs
    space: IdSpace
    vocabulary: LabelSet | None
    label_ids: list[str] | None
    trained: _Pairs | None
    removed: np.ndarray
    options: ReadOptions
    counts: Mapping[str, int]
    sources: Mapping[str, str]
    notes: tuple[str, ...]

    @classmethod
    def read(
        cls,
        gold: str | Path,
        train: str | Path | None = None,
        labels: str | Path | None = None,
        filter_pairs: str | Path | None = None,
        options: ReadOptions | None = None,
    ) -> Truth:
        """Read the files that `evaluate_files` describes."""
        options, report = options or ReadOptions(), ReadReport()
        options.validate()
        vocabulary, space, label_ids = _vocabulary(gold, labels, options, report), IdSpace(), None
        if vocabulary is None:
            truth = _pairs(gold, space, options, report)
        else:
            truth, vocabulary = _known_pairs(gold, vocabulary, options, report)
            label_ids = vocabulary.ids.to_pylist()
            space = IdSpace(zip(label_ids, count()))
        if not truth.doc_ids:
            raise InputError(f"{gold}: holds no document; documents with gold labels were wanted")
        trained = None if train is None else _pairs(train, space, options, report)
        removed, counts = _no_pairs(), {}
        if filter_pairs is not None:
            removed = _filter(filter_pairs, truth, label_ids)
            truth, n = truth.without(removed, len(space))
            counts["gold labels removed by the filter"] = n
        given = {"gold": gold, "train": train, "labels": labels, "filter": filter_pairs}
        sources = {name: str(path) for name, path in given.items() if path is not None}
        notes = (*report.lines(), *([NO_TRAIN] if train is None else []))
        return cls(truth, space, vocabulary, label_ids, trained, removed, options, counts, sources, notes)

    def measure(self, pred: str | Path, settings: EvalSettings | None = None) -> Evaluation:
        """The suggestions in ``pred``, measured."""
        settings = settings or EvalSettings()
        settings.validate()
        extra = dict(self.counts)
        ranked = self._read(pred, extra)
        if len(self.removed):
            removed = self.removed
            drop = in_pairs(ranked.docs, ranked.rows, removed[:, 0], removed[:, 1], len(self.space))
            extra["suggestions removed by the filter"] = int(drop.sum())
            ranked = ranked.keep(~drop)
        result = _measured(self.gold, ranked, self.trained, len(self.space), settings, extra)
        return replace(
            result,
            counts={**result.counts, **extra},
            names=_names(self.space, self.vocabulary),
            doc_ids=self.gold.doc_ids,
            sources={"pred": str(pred), **self.sources},
            notes=self.notes,
        )

    def _read(self, pred: str | Path, extra: dict[str, int]) -> Ranked:
        """The suggestions in the order of the gold documents; what does not fit is counted."""
        found = read_predictions(pred, self.space, self.options, self.gold.doc_ids, self.label_ids)
        ranked, missing, others = found.aligned(self.gold.doc_ids)
        extra["documents without a prediction line (misses)"] = missing
        extra["predictions for documents that are not in gold (left out)"] = others
        if self.label_ids is not None:
            n_outside = int((ranked.rows >= len(self.label_ids)).sum())
            extra["suggestions outside the vocabulary (misses)"] = n_outside
        return ranked

    def excerpts(self, rows: Sequence[int], n: int) -> dict[int, str]:
        """Row to the first ``n`` characters of each document's text; read again, so none from standard input.

        Documents that are rows of features have none.
        """
        wanted, start = sorted(set(rows)), 0
        found: dict[int, str] = {}
        if not wanted or is_stdin(self.sources["gold"]):
            return {}
        for batch, _ in _batches(self.sources["gold"], self.options, ReadReport()):
            here = wanted[bisect_left(wanted, start) : bisect_left(wanted, start + len(batch))]
            if batch.texts is not None:
                found |= {row: shorten(" ".join(batch.texts[row - start].split()), n) for row in here}
            start += len(batch)
        return found


def evaluate_files(
    gold: str | Path,
    pred: str | Path,
    train: str | Path | None = None,
    labels: str | Path | None = None,
    filter_pairs: str | Path | None = None,
    settings: EvalSettings | None = None,
    options: ReadOptions | None = None,
) -> Evaluation:
    """Measure the suggestions in ``pred`` against the documents with labels in ``gold``.

    ``train`` gives label frequencies, for propensities and label bins. ``labels`` is the vocabulary;
    without it (and where the gold format defines none) the labels are all ids that occur in a file.
    With it, a gold label that it lacks is dealt with by ``options.on_unknown_label``: ``error``
    refuses, ``skip`` leaves it out of the gold labels (a document's recall is then over the others),
    ``add`` counts it as one that can be missed. Retired gold labels are left out. A suggestion that
    the vocabulary lacks keeps its place in the list, as a miss. All of it is counted.

    Every gold document counts, one that ``pred`` lacks as a miss; predictions for other documents are
    left out. ``filter_pairs`` lists (document row of gold, label row) pairs, as the XMC repository has
    them for labels that are trivially right, such as a document's own title: they are removed from
    the gold labels and from the suggestions, where later ones move up, before anything is measured.
    """
    settings = settings or EvalSettings()
    settings.validate()
    return Truth.read(gold, train, labels, filter_pairs, options).measure(pred, settings)


def _measured(
    truth: _Pairs,
    ranked: Ranked,
    trained: _Pairs | None,
    n_labels: int,
    settings: EvalSettings,
    extra: dict[str, int],
) -> Evaluation:
    ones = np.ones(len(truth.docs), dtype=np.int8)
    gold = sp.csr_matrix((ones, (truth.docs, truth.rows)), shape=(len(truth.doc_ids), n_labels))
    if trained is None:
        return evaluate(gold, ranked, settings=settings)
    frequency = np.bincount(trained.rows, minlength=n_labels)
    extra["training documents"] = len(trained.doc_ids)
    extra["labels with a training document"] = int((frequency > 0).sum())
    if not _numbered(truth.doc_ids):
        both = set(truth.doc_ids).intersection(trained.doc_ids)
        extra["gold documents that are also training documents, by id (leakage)"] = len(both)
    return evaluate(gold, ranked, frequency, len(trained.doc_ids), settings)


def _vocabulary(
    gold: str | Path, labels: str | Path | None, options: ReadOptions, report: ReadReport
) -> LabelSet | None:
    from xmc.data.formats import labels_of, read_labels

    if labels is not None:
        return read_labels(labels, options, report)
    return labels_of(gold, options, report)


def _pairs(path: str | Path, space: IdSpace, options: ReadOptions, report: ReadReport) -> _Pairs:
    """The documents of a file and the rows of their labels; new label ids get rows in ``space``."""
    doc_ids: list[str] = []
    counts, rows = array("q"), array("q")
    for batch, label_ids in _batches(path, options, report):
        doc_ids += batch.ids
        counts.extend(map(len, label_ids))
        rows.extend(space.rows([label_id for ids in label_ids for label_id in ids]))
    docs = np.repeat(np.arange(len(doc_ids)), np.array(counts, dtype=np.int64))
    return _Pairs(doc_ids, docs, np.array(rows, dtype=np.int64))


def _known_pairs(
    path: str | Path, vocabulary: LabelSet, options: ReadOptions, report: ReadReport
) -> tuple[_Pairs, LabelSet]:
    """As `_pairs`, under the policy for labels that the vocabulary lacks, and the labels with any added."""
    from xmc.data.gold import GoldReader

    reader = GoldReader(vocabulary, options, report)
    doc_ids: list[str] = []
    docs, rows = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for batch, _ in _batches(path, options, report):
        found = reader.batch(batch)
        docs.append(len(doc_ids) + owners(found.indptr))
        rows.append(found.indices.astype(np.int64))
        doc_ids += batch.ids
    return _Pairs(doc_ids, np.concatenate(docs), np.concatenate(rows)), reader.finish()


def _batches(
    path: str | Path, options: ReadOptions, report: ReadReport
) -> Iterator[tuple[DocumentBatch, list[list[str]]]]:
    from xmc.data.formats import open_corpus

    for batch in open_corpus([path], options, report).batches(BATCH):
        if batch.labels is None:
            raise InputError(f"{batch.places[0]}: the documents have no labels; wanted gold labels for each")
        yield batch, batch.labels


def _no_pairs() -> np.ndarray:
    return np.zeros((0, 2), dtype=np.int64)


def _filter(path: str | Path, truth: _Pairs, label_ids: list[str] | None) -> np.ndarray:
    """(n_pairs, 2) rows of documents and labels that the filter file lists, or InputError."""
    from xmc.data.formats import read_filter

    if label_ids is None:
        raise InputError(f"{path}: filter pairs name labels by row; name the vocabulary with --labels")
    pairs = read_filter(path)
    for column, n, what in ((0, len(truth.doc_ids), "documents"), (1, len(label_ids), "labels")):
        wrong = np.flatnonzero((pairs[:, column] < 0) | (pairs[:, column] >= n))
        if len(wrong):
            found = tuple(pairs[wrong[0]].tolist())
            raise InputError(f"{path}: pair {wrong[0] + 1} is {found}; wanted rows of {n} {what}, from 0")
    return pairs


def _numbered(doc_ids: list[str]) -> bool:
    """Whether ids only count the documents of a file: equal ones are then not the same document."""
    return all(doc_id == str(n) for n, doc_id in enumerate(doc_ids, 1))


def _names(space: IdSpace, vocabulary: LabelSet | None) -> LabelNames:
    texts = [] if vocabulary is None else [text or "" for text in vocabulary.texts.to_pylist()]
    return LabelNames(list(space), texts + [""] * (len(space) - len(texts)))
