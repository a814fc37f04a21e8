"""From files to an Evaluation: what `xmc eval` does, and the same from Python."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError
from xmc.evaluate.evaluation import EvalSettings, Evaluation, LabelNames, evaluate
from xmc.evaluate.predictions import IdSpace, Predictions, read_predictions
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

    def keep(self, mask: np.ndarray) -> _Pairs:
        return replace(self, docs=self.docs[mask], rows=self.rows[mask])


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
    settings, options, report = settings or EvalSettings(), options or ReadOptions(), ReadReport()
    settings.validate()
    options.validate()
    extra: dict[str, int] = {}
    vocabulary = _vocabulary(gold, labels, options, report)
    if vocabulary is None:
        label_ids, space = None, IdSpace()
        truth = _pairs(gold, space, options, report)
    else:
        truth, vocabulary = _known_pairs(gold, vocabulary, options, report)
        label_ids = vocabulary.ids.to_pylist()
        space = IdSpace(zip(label_ids, count()))
    if not truth.doc_ids:
        raise InputError(f"{gold}: holds no document; documents with gold labels were wanted")
    trained = None if train is None else _pairs(train, space, options, report)
    ranked = _aligned(read_predictions(pred, space, options, truth.doc_ids, label_ids), truth, extra)
    if label_ids is not None:
        extra["suggestions outside the vocabulary (misses)"] = int((ranked.rows >= len(label_ids)).sum())
    if filter_pairs is not None:
        truth, ranked = _filtered(filter_pairs, truth, ranked, label_ids, len(space), extra)
    result = _measured(truth, ranked, trained, len(space), settings, extra)
    given = {"gold": gold, "pred": pred, "train": train, "labels": labels, "filter": filter_pairs}
    return replace(
        result,
        counts={**result.counts, **extra},
        names=_names(space, vocabulary),
        sources={name: str(path) for name, path in given.items() if path is not None},
        notes=(*report.lines(), *([NO_TRAIN] if train is None else [])),
    )


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


def _aligned(found: Predictions, truth: _Pairs, extra: dict[str, int]) -> Ranked:
    ranked, missing, others = found.aligned(truth.doc_ids)
    extra["documents without a prediction line (misses)"] = missing
    extra["predictions for documents that are not in gold (left out)"] = others
    return ranked


def _filtered(
    path: str | Path,
    truth: _Pairs,
    ranked: Ranked,
    label_ids: list[str] | None,
    n_labels: int,
    extra: dict[str, int],
) -> tuple[_Pairs, Ranked]:
    """Gold labels and suggestions without the pairs that the filter file lists."""
    from xmc.data.formats import read_filter

    if label_ids is None:
        raise InputError(f"{path}: filter pairs name labels by row; name the vocabulary with --labels")
    pairs = read_filter(path)
    for column, n, what in ((0, len(truth.doc_ids), "documents"), (1, len(label_ids), "labels")):
        wrong = np.flatnonzero((pairs[:, column] < 0) | (pairs[:, column] >= n))
        if len(wrong):
            found = tuple(pairs[wrong[0]].tolist())
            raise InputError(f"{path}: pair {wrong[0] + 1} is {found}; wanted rows of {n} {what}, from 0")
    from_gold = in_pairs(truth.docs, truth.rows, pairs[:, 0], pairs[:, 1], n_labels)
    from_ranked = in_pairs(ranked.docs, ranked.rows, pairs[:, 0], pairs[:, 1], n_labels)
    extra["gold labels removed by the filter"] = int(from_gold.sum())
    extra["suggestions removed by the filter"] = int(from_ranked.sum())
    return truth.keep(~from_gold), ranked.keep(~from_ranked)


def _numbered(doc_ids: list[str]) -> bool:
    """Whether ids only count the documents of a file: equal ones are then not the same document."""
    return all(doc_id == str(n) for n, doc_id in enumerate(doc_ids, 1))


def _names(space: IdSpace, vocabulary: LabelSet | None) -> LabelNames:
    texts = [] if vocabulary is None else [text or "" for text in vocabulary.texts.to_pylist()]
    return LabelNames(list(space), texts + [""] * (len(space) - len(texts)))
