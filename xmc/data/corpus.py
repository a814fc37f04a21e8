"""Corpus: documents streamed from files of any format, never whole in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from xmc.data.batching import grouped, resized
from xmc.data.detect import Format
from xmc.data.gold import GoldReader, label_matrix
from xmc.data.label_builder import check_id, hashes
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.paths import formats_of, given
from xmc.data.records import Document, DocumentBatch, Fault, raising
from xmc.data.text import clean, has_surrogate, is_blank, shorten
from xmc.errors import InputError, SettingError

__all__ = ["Corpus", "DocumentBatch", "GoldReader", "label_matrix"]

NUMBERED = "documents had no id and were numbered"


class Corpus:
    """Documents of one or more files, all of text or all rows of sparse features, in file order.

    A path may also be a folder of document files or a pattern (`xmc.data.paths`). Iterating again reads the
    files again (standard input and pipes from a temporary copy). Documents of a file without ids are numbered
    from 1, through all files. What reading repaired is counted in ``report`` once, when the files have been
    read to their end for the first time; then ``n_docs`` tells how many documents each given path has,
    without repeats that were left out. ``keep_faults``: what is no document does not stop the reading but
    stands in the ``faults`` of its batch. ``max_characters``: a text of more is no document, and a batch ends
    before its texts would have more together.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        options: ReadOptions | None = None,
        report: ReadReport | None = None,
        keep_faults: bool = False,
        max_characters: int | None = None,
    ) -> None:
        self.options = options or ReadOptions()
        self.report = report if report is not None else ReadReport()
        self.keep_faults, self.max_characters = keep_faults, max_characters
        self._reported = False
        self.n_docs: list[int] = []
        self.options.validate()
        if not paths:
            raise SettingError("no documents given; at least one file was wanted")
        self.arguments = list(paths)
        self.given = given(paths, self.options, self.report)
        self._files = [(each.number, part) for each in self.given for part in each.parts]
        self.formats = formats_of([path for _, path in self._files], self.options, keep_faults)
        self.has_text = self._same_kind()

    def _same_kind(self) -> bool:
        found = zip(self.formats, self._files, strict=True)
        of_kind = {
            hasattr(f.load(), "read_documents"): path for f, (_, path) in found if isinstance(f, Format)
        }
        if len(of_kind) > 1:
            what = f"{of_kind[False]} holds sparse features and {of_kind[True]} text"
            raise InputError(f"{what}; files of one kind were wanted")
        return next(iter(of_kind))

    @cached_property
    def n_features(self) -> int | None:
        """Number of features of documents that are rows of sparse features; None for text."""
        if self.has_text:
            return None
        first = next(self._read(0, 1, ReadReport(), 0), None)
        return None if first is None or first.features is None else int(first.features.shape[1])

    def batches(self, size: int = 1024) -> Iterator[DocumentBatch]:
        """All documents, ``size`` to a batch but for the last one and those that ``max_characters`` ends."""
        if size < 1:
            raise ValueError(f"a batch of {size} documents; at least 1 was wanted")
        report = ReadReport()
        passing = _Pass(self, report)
        yield from resized(passing.batches(size), size, self.max_characters)
        if not self._reported:
            self._reported, self.n_docs = True, passing.kept
            self.report.merge(report)

    def _read(self, file: int, size: int, report: ReadReport, start: int) -> Iterator[DocumentBatch]:
        """Batches of one file as its format gives them. Without ids they are numbered behind ``start``."""
        found, path = self.formats[file], self._files[file][1]
        if not self.has_text and isinstance(found, Format):
            return _numbered_rows(found.load().read_batches(path, size, self.options, report), start)
        records = self._records(found, path, report)
        numbered = _numbered(records if self.keep_faults else raising(records), report, start)
        return grouped(numbered, size, self.max_characters)

    def _records(
        self, found: Format | InputError, path: Path, report: ReadReport
    ) -> Iterator[Document | Fault]:
        """Documents and faults of a text file; where it cannot be read further, a last fault says so.

        Raises: InputError where that is the first thing in the only file, or faults are not kept.
        """
        n_read = 0
        try:
            if isinstance(found, InputError):
                raise found
            for record in found.load().read_documents(path, self.options, report):
                n_read += 1
                yield record
        except InputError as error:
            if not self.keep_faults or (not n_read and len(self._files) == 1):
                raise
            left = "the rest of the file was not read" if n_read else "the file was not read"
            yield Fault(str(path), InputError(f"{error}; {left}"), ends_file=True)


class _Pass:
    """One pass over a corpus: ids given and checked, texts cleaned, repeated documents found."""

    def __init__(self, corpus: Corpus, report: ReadReport) -> None:
        self._corpus, self._report = corpus, report
        self._seen = _SeenIds()
        self._n_docs = 0
        self.kept = [0] * len(corpus.arguments)  # documents of each given path so far, without repeats
        self._given = 0
        self._n_features: int | None = None

    def batches(self, size: int) -> Iterator[DocumentBatch]:
        """Batches of at most ``size`` documents."""
        for batch in self.numbered(size):
            batch = self._without(batch, self._too_long(batch) | self._odd_ids(batch))
            self._clean(batch)
            self._check_features(batch)
            batch = self._without_repeats(batch)
            self.kept[self._given] += len(batch)
            yield batch

    def numbered(self, size: int) -> Iterator[DocumentBatch]:
        """Batches as their formats give them, but every document with an id."""
        for file, (number, path) in enumerate(self._corpus._files):
            self._given, before = number, self._n_docs
            for batch in self._corpus._read(file, size, self._report, self._n_docs):
                self._n_docs += len(batch) + len(batch.faults)
                yield batch
            if self._n_docs == before:
                self._report.count("document files held no document", str(path))

    def _too_long(self, batch: DocumentBatch) -> dict[int, InputError]:
        """What is wrong with texts of more characters than there may be, by place in the batch."""
        most = self._corpus.max_characters
        if most is None:
            return {}
        way_out = f"at most {most:,} were wanted (tag.max_characters={most})"
        return {
            i: InputError(f"{batch.places[i]}: a text of {len(text):,} characters; {way_out}")
            for i, text in enumerate(batch.texts or ())
            if len(text) > most
        }

    def _odd_ids(self, batch: DocumentBatch) -> dict[int, InputError]:
        """What is wrong with ids and gold labels, by place in the batch."""
        found: dict[int, InputError] = {}
        for i, (doc_id, where) in enumerate(zip(batch.ids, batch.places, strict=True)):
            try:
                check_id(doc_id, "document", where)
            except InputError as error:
                found[i] = error
        for i, (gold, where) in enumerate(zip(batch.labels or (), batch.places, strict=False)):
            bad = next((label_id for label_id in gold if not label_id or has_surrogate(label_id)), None)
            if bad is not None:
                found[i] = InputError(f"{where}: gold label id {shorten(bad)!r}; Unicode text was wanted")
        return found

    def _without(self, batch: DocumentBatch, wrong: Mapping[int, InputError]) -> DocumentBatch:
        """The batch with some documents made faults. Raises the first of them where faults are not kept."""
        if not wrong:
            return batch
        if not self._corpus.keep_faults:
            raise next(iter(wrong.values()))
        left = batch.take(np.setdiff1d(np.arange(len(batch)), list(wrong)))
        found = [Fault(batch.places[i], error, batch.ids[i]) for i, error in sorted(wrong.items())]
        left.faults = batch.faults + found
        return left

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
        if self._corpus.options.on_duplicate == "first":
            for i in repeats:
                self._report.count("documents had an id that stood before and were left out", batch.places[i])
            left = batch.take(np.setdiff1d(np.arange(len(batch)), repeats))
            left.faults = batch.faults
            return left
        if self._corpus.keep_faults:
            return self._without(batch, {int(i): _stood_before(batch, i) for i in repeats})
        for i in repeats:
            self._refuse(batch.ids[i], self._n_docs - len(batch) + i, batch.places[i])
        return batch

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


def _stood_before(batch: DocumentBatch, i: int) -> InputError:
    what = f"document id {batch.ids[i]!r} stood before; ids must differ (or pass `on_duplicate=first`)"
    return InputError(f"{batch.places[i]}: {what}")


def _numbered(
    records: Iterator[Document | Fault], report: ReadReport, start: int
) -> Iterator[Document | Fault]:
    """A document without id gets its number among all records, from ``start + 1``."""
    for number, record in enumerate(records, start + 1):
        if not record.id and isinstance(record, Document):
            report.count(NUMBERED, record.place)
            record = record._replace(id=str(number))
        yield record


def _numbered_rows(batches: Iterator[DocumentBatch], start: int) -> Iterator[DocumentBatch]:
    """As `_numbered`, for rows of features, which never have ids."""
    for batch in batches:
        batch.ids = [doc_id or str(number) for number, doc_id in enumerate(batch.ids, start + 1)]
        start += len(batch)
        yield batch
