"""Corpus: documents streamed from files of any format, never whole in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from xmc.data.detect import Format, document_format
from xmc.data.gold import GoldReader, label_matrix
from xmc.data.label_builder import check_id, hashes
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, DocumentBatch
from xmc.data.text import clean, has_surrogate, is_blank, shorten
from xmc.errors import InputError, SettingError

__all__ = ["Corpus", "DocumentBatch", "GoldReader", "label_matrix"]

NUMBERED = "documents had no id and were numbered"


class Corpus:
    """Documents of one or more files, all of text or all rows of sparse features, in file order.

    Iterating again reads the files again (standard input and pipes from a temporary copy). Documents of a
    file without ids are numbered from 1, through all files. What reading repaired is counted in ``report``
    once, when the files have been read to their end for the first time; then ``n_docs`` tells how many
    documents each file has, without repeats that were left out.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        options: ReadOptions | None = None,
        report: ReadReport | None = None,
    ) -> None:
        self.paths = [Path(path) for path in paths]
        self.options = options or ReadOptions()
        self.report = report if report is not None else ReadReport()
        self._reported = False
        self.n_docs: list[int] = []
        self.options.validate()
        if not self.paths:
            raise SettingError("no documents given; at least one file was wanted")
        self.formats: list[Format] = [document_format(path, self.options) for path in self.paths]
        self.has_text = self._same_kind()

    def _same_kind(self) -> bool:
        kinds = [hasattr(f.load(), "read_documents") for f in self.formats]
        if len(set(kinds)) > 1:
            text, sparse = self.paths[kinds.index(True)], self.paths[kinds.index(False)]
            raise InputError(f"{sparse} holds sparse features and {text} text; files of one kind were wanted")
        return kinds[0]

    @cached_property
    def n_features(self) -> int | None:
        """Number of features of documents that are rows of sparse features; None for text."""
        if self.has_text:
            return None
        first = next(self._read(0, 1, ReadReport()), None)
        return None if first is None or first.features is None else int(first.features.shape[1])

    def batches(self, size: int = 1024) -> Iterator[DocumentBatch]:
        """All documents, ``size`` to a batch but for the last one."""
        if size < 1:
            raise ValueError(f"a batch of {size} documents; at least 1 was wanted")
        report = ReadReport()
        passing = _Pass(self, report)
        yield from _resized(passing.batches(size), size)
        if not self._reported:
            self._reported, self.n_docs = True, passing.kept
            self.report.merge(report)

    def _read(self, file: int, size: int, report: ReadReport) -> Iterator[DocumentBatch]:
        """Batches of one file as its format gives them."""
        module, path = self.formats[file].load(), self.paths[file]
        if self.has_text:
            return _grouped(module.read_documents(path, self.options, report), size)
        batches: Iterator[DocumentBatch] = module.read_batches(path, size, self.options, report)
        return batches


class _Pass:
    """One pass over a corpus: ids given and checked, texts cleaned, repeated documents found."""

    def __init__(self, corpus: Corpus, report: ReadReport) -> None:
        self._corpus, self._report = corpus, report
        self._seen = _SeenIds()
        self._n_docs = 0
        self.kept: list[int] = []  # documents of each file so far, without repeats
        self._n_features: int | None = None

    def batches(self, size: int) -> Iterator[DocumentBatch]:
        """Batches of at most ``size`` documents."""
        for batch in self.numbered(size):
            self._check_ids(batch)
            self._clean(batch)
            self._check_features(batch)
            batch = self._without_repeats(batch)
            self.kept[-1] += len(batch)
            yield batch

    def numbered(self, size: int) -> Iterator[DocumentBatch]:
        """Batches as their formats give them, but every document with an id."""
        for file in range(len(self._corpus.paths)):
            self.kept.append(0)
            before = self._n_docs
            for batch in self._corpus._read(file, size, self._report):
                for i, doc_id in enumerate(batch.ids):
                    if not doc_id:
                        batch.ids[i] = str(self._n_docs + i + 1)
                        if batch.texts is not None:  # rows of features never have ids
                            self._report.count(NUMBERED, batch.places[i])
                self._n_docs += len(batch)
                yield batch
            if self._n_docs == before:
                self._report.count("document files held no document", str(self._corpus.paths[file]))

    def _check_ids(self, batch: DocumentBatch) -> None:
        for doc_id, where in zip(batch.ids, batch.places, strict=True):
            check_id(doc_id, "document", where)
        for gold, where in zip(batch.labels or (), batch.places, strict=False):
            bad = next((label_id for label_id in gold if not label_id or has_surrogate(label_id)), None)
            if bad is not None:
                raise InputError(f"{where}: gold label id {shorten(bad)!r}; Unicode text was wanted")

    def _clean(self, batch: DocumentBatch) -> None:
        for i, text in enumerate(batch.texts or ()):
            batch.texts[i], repaired = clean(text)  # type: ignore[index]
            for what in repaired:
                self._report.count(f"documents had {what}", batch.places[i])
            if is_blank(text):
                self._report.count("documents had no text", batch.places[i])
        for i, gold in enumerate(batch.labels or ()):
            if len(set(gold)) < len(gold):
                batch.labels[i] = list(dict.fromkeys(gold))  # type: ignore[index]
                self._report.count("documents had a gold label more than once", batch.places[i])

    def _check_features(self, batch: DocumentBatch) -> None:
        if batch.features is None:
            return
        n_features = int(batch.features.shape[1])
        if self._n_features not in (None, n_features):
            raise InputError(
                f"{batch.places[0]}: {n_features} features; the file before has {self._n_features}"
            )
        self._n_features = n_features
        for i in np.flatnonzero(np.diff(batch.features.indptr) == 0):
            self._report.count("documents had no features", batch.places[i])

    def _without_repeats(self, batch: DocumentBatch) -> DocumentBatch:
        repeats = self._seen.add(batch.ids)
        if not len(repeats):
            return batch
        if self._corpus.options.on_duplicate == "error":
            for i in repeats:
                self._refuse(batch.ids[i], self._n_docs - len(batch) + i, batch.places[i])
            return batch
        for i in repeats:
            self._report.count("documents had an id that stood before and were left out", batch.places[i])
        return batch.take(np.setdiff1d(np.arange(len(batch)), repeats))

    def _refuse(self, doc_id: str, position: int, where: str) -> None:
        """Raise for a repeated id; reading again finds its first place, or that only hashes are equal."""
        for batch in _Pass(self._corpus, ReadReport()).numbered(1024):
            if doc_id in batch.ids[: max(position, 0)]:
                first = batch.places[batch.ids.index(doc_id)]
                raise InputError(
                    f"document id {doc_id!r} stands twice: {first} and {where}; ids must differ "
                    "(or pass `on_duplicate=first` to keep the first)"
                )
            position -= len(batch)


class _SeenIds:
    """The ids of a pass, 8 bytes each: sorted runs of hashes, each at least twice as long as the next.

    Among n ids, two different ones have the same hash with probability n^2 / 2^65: 3e-8 for a million.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def add(self, ids: Sequence[str]) -> np.ndarray:
        """Take more ids; (n_repeats,) positions of those that stood before, in ascending order."""
        found = hashes(ids)
        new, first = np.unique(found, return_index=True)
        seen = np.ones(len(found), dtype=bool)
        seen[first] = False
        for run in self._runs:
            at = np.searchsorted(run, found)
            seen |= run[np.minimum(at, len(run) - 1)] == found
        if len(new):
            self._keep(new)
        return np.flatnonzero(seen)

    def _keep(self, run: np.ndarray) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        self._runs.append(run)


def _grouped(documents: Iterator[Document], size: int) -> Iterator[DocumentBatch]:
    while group := list(islice(documents, size)):
        ids, texts, labels, places = (list(column) for column in zip(*group, strict=True))
        gold = [each or [] for each in labels] if any(each is not None for each in labels) else None
        yield DocumentBatch(ids, texts, None, gold, places)


def _resized(batches: Iterable[DocumentBatch], size: int) -> Iterator[DocumentBatch]:
    """The same documents in batches of ``size``."""
    held: list[DocumentBatch] = []
    for batch in batches:
        if not held and len(batch) == size:
            yield batch
            continue
        held.append(batch)
        while sum(map(len, held)) >= size:
            whole = joined(held)
            yield whole.take(np.arange(size))
            held = [whole.take(np.arange(size, len(whole)))]
    if sum(map(len, held)):
        yield joined(held)


def joined(batches: list[DocumentBatch]) -> DocumentBatch:
    """The documents of all batches (one at least), one after another."""
    from scipy.sparse import vstack

    batches = [batch for batch in batches if len(batch)] or batches[:1]
    if len(batches) == 1:
        return batches[0]
    texts = [text for batch in batches for text in batch.texts or ()]
    features = [batch.features for batch in batches if batch.features is not None]
    gold: list[list[list[str]]] = [
        batch.labels if batch.labels is not None else [[] for _ in batch.ids] for batch in batches
    ]
    has_gold = any(batch.labels is not None for batch in batches)
    return DocumentBatch(
        [doc_id for batch in batches for doc_id in batch.ids],
        None if features else texts,
        vstack(features, format="csr") if features else None,
        [each for labels in gold for each in labels] if has_gold else None,
        [where for batch in batches for where in batch.places],
    )
