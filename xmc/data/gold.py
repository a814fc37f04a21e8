"""Gold labels of documents as rows of a LabelSet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix, vstack

from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch, Label, LabelName
from xmc.errors import InputError

if TYPE_CHECKING:
    from xmc.data.corpus import Corpus


class GoldReader:
    """Turns the gold labels of batches into matrices, under the policy for labels that are unknown.

    Call `batch` for each batch and `finish` at the end, which gives the labels (with those that
    ``on_unknown_label=add`` added) or raises the one error about all that are unknown.
    Gold labels that are retired are counted and left out: they keep their row but are never suggested, so
    training on them has no use and measuring on them would blame the model for obeying the vocabulary.
    """

    def __init__(
        self, labels: LabelSet, options: ReadOptions | None = None, report: ReadReport | None = None
    ) -> None:
        self._labels = labels
        self._policy = (options or ReadOptions()).on_unknown_label
        self._report = report if report is not None else ReadReport()
        self._added: dict[str, int] = {}
        self._unknown: dict[str, str] = {}
        self._n_unknown = 0

    @property
    def n_labels(self) -> int:
        """Number of labels so far, added ones included."""
        return len(self._labels) + len(self._added)

    def batch(self, batch: DocumentBatch) -> csr_matrix:
        """(n_docs, n_labels) float32 ones where a document has a label; n_labels as known so far."""
        gold = batch.labels or [[] for _ in batch.ids]
        docs = np.repeat(np.arange(len(batch)), [len(ids) for ids in gold])
        ids = [label_id for ids in gold for label_id in ids]
        rows = gold_rows(self._labels, ids)
        for i in np.flatnonzero(rows < 0):
            rows[i] = self._unknown_row(ids[i], batch.places[docs[i]])
        kept = (rows >= 0) & self._is_active(rows, ids)
        docs, rows = docs[kept], rows[kept]
        ones = np.ones(len(rows), dtype=np.float32)
        matrix = csr_matrix((ones, (docs, rows)), shape=(len(batch), self.n_labels))
        matrix.data[:] = 1.0  # a label that stood twice was summed
        return matrix

    def _unknown_row(self, label_id: str, where: str) -> int:
        if self._policy == "add":
            return self._added_row(label_id)
        self._unknown.setdefault(label_id, where)
        self._n_unknown += 1
        if self._policy == "skip":
            self._report.count("gold labels outside vocabulary", f"{label_id} at {where}")
        return -1

    def _added_row(self, label_id: str) -> int:
        if label_id not in self._added:
            self._report.count("gold labels outside vocabulary were added", label_id)
            self._added[label_id] = self.n_labels
        return self._added[label_id]

    def _is_active(self, rows: np.ndarray, ids: list[str]) -> np.ndarray:
        retired = np.zeros(len(rows), dtype=bool)
        known = (rows >= 0) & (rows < len(self._labels))
        retired[known] = self._labels.retired[rows[known]]
        for i in np.flatnonzero(retired):
            self._report.count("gold labels were retired and left out", ids[i])
        return ~retired

    def finish(self) -> LabelSet:
        """The labels; `InputError` naming the first unknown ones under ``on_unknown_label=error``."""
        if self._policy == "error" and self._unknown:
            raise InputError(self._summary())
        if not self._added:
            return self._labels
        new = LabelSet.from_records(Label(label_id, label_id) for label_id in self._added)
        return self._labels.extended(new)

    def _summary(self) -> str:
        shown = ", ".join(f"{label_id!r} at {where}" for label_id, where in list(self._unknown.items())[:5])
        more = ", ..." if len(self._unknown) > 5 else ""
        count = f"{self._n_unknown:,} gold label{'s' if self._n_unknown > 1 else ''} outside vocabulary"
        return (
            f"{count} ({len(self._unknown):,} different): {shown}{more}; complete the vocabulary, or pass "
            "`on_unknown_label=skip` to leave them out or `on_unknown_label=add` to add them"
        )


def gold_rows(labels: LabelSet, ids: Sequence[str]) -> np.ndarray:
    """(n_ids,) rows of gold labels, of a `LabelName` by its text if a label has it; -1 for unknown ones."""
    rows = labels.rows(ids)
    named = [i for i, label_id in enumerate(ids) if isinstance(label_id, LabelName)]
    if named:
        by_text = labels.rows_named([ids[i] for i in named])
        rows[named] = np.where(by_text >= 0, by_text, rows[named])
    return rows


def read_gold(
    corpus: Corpus, labels: LabelSet, options: ReadOptions | None = None, report: ReadReport | None = None
) -> tuple[csr_matrix, LabelSet]:
    """(n_docs, n_labels) float32 gold labels of a corpus, streamed, and the labels that are its columns.

    The labels are the given ones, extended by those that ``on_unknown_label=add`` added.
    """
    reader = GoldReader(labels, options, report)
    blocks = [reader.batch(batch) for batch in corpus.batches()]
    labels = reader.finish()
    return _stacked(blocks, len(labels)), labels


def _stacked(blocks: list[csr_matrix], n_labels: int) -> csr_matrix:
    """One (n_docs, n_labels) matrix; earlier blocks may have fewer columns."""
    empty = csr_matrix((np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(1, np.int32)), (0, n_labels))
    same = [csr_matrix((b.data, b.indices, b.indptr), shape=(b.shape[0], n_labels)) for b in blocks]
    return vstack([empty, *same], format="csr")


def label_matrix(
    corpus: Corpus, labels: LabelSet, options: ReadOptions | None = None, report: ReadReport | None = None
) -> csr_matrix:
    """(n_docs, n_labels) float32 gold labels of a corpus, streamed; see `read_gold`."""
    return read_gold(corpus, labels, options, report)[0]
