"""Source: labels and tagged documents as a build reads them, in a first pass over the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from xmc.data.formats import labels_of, open_corpus, read_filter, read_labels
from xmc.data.gold import GoldReader
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch
from xmc.errors import InputError, SettingError
from xmc.fingerprints import Fingerprints

SHARD = 2000  # texts encoded, and kept for resuming, at a time


class Documents(Protocol):
    """What a build needs of documents: a `Corpus`, or what can be read like one."""

    @property
    def has_text(self) -> bool:
        """Whether they are texts, not rows of given features."""

    @property
    def n_features(self) -> int | None:
        """How many given features there are; None for texts."""

    def batches(self, size: int) -> Iterator[DocumentBatch]:
        """All of them, in order; again at each call."""


@dataclass
class Source:
    """What was read in the first pass over the documents.

    The last ``n_dev`` documents only judge: the model is fitted on them and does not hold them.
    ``fingerprints`` (n_docs,) uint64: what the documents' contents are known by (`xmc.fingerprints`).
    """

    labels: LabelSet
    corpus: Documents | None
    gold: sp.csr_matrix
    ids: list[str]
    n_dev: int = 0
    fingerprints: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint64))

    @property
    def n_own(self) -> int:
        """Number of documents that the model may hold: the first ones."""
        return len(self.ids) - self.n_dev

    @property
    def has_text(self) -> bool:
        """Whether documents are texts, not rows of given features."""
        return self.corpus is None or self.corpus.has_text

    def batches(self) -> Iterator[DocumentBatch]:
        """The documents, read again."""
        return iter(()) if self.corpus is None else self.corpus.batches(SHARD)

    def own_batches(self) -> Iterator[DocumentBatch]:
        """The documents that the model may hold, read again."""
        left = self.n_own
        for batch in self.batches():
            yield batch if len(batch) <= left else batch.take(np.arange(left))
            left -= len(batch)
            if left <= 0:
                return


def read_source(
    labels: str | Path | None,
    docs: Sequence[str | Path] | None,
    filter_pairs: str | Path | None,
    options: ReadOptions,
    report: ReadReport,
    dev: Sequence[str | Path] = (),
    see: Callable[[DocumentBatch], object] | None = None,
) -> Source:
    """Labels and gold labels of ``docs`` and ``dev``; texts are read again when they are needed.

    ``see`` gets each batch of documents that is read.
    """
    _require_apart(docs or (), dev)
    paths = [*(docs or ()), *dev]
    corpus = open_corpus(paths, options, report) if paths else None
    if labels is not None:
        label_set: LabelSet | None = read_labels(labels, options, report)
    else:
        label_set = labels_of(docs[0], options, report) if docs else None
    if label_set is None:
        raise SettingError("--labels F is missing: the format of --docs does not define the labels itself")
    source = tagged_with(label_set, corpus, options, report, see)
    if corpus is not None and dev:
        source.n_dev = _n_judging(source, corpus.n_docs[-len(dev) :], dev[0])
    if filter_pairs is not None:
        source.gold = _without(source.gold, read_filter(filter_pairs, options), filter_pairs, source.n_own)
    return source


def _require_apart(docs: Sequence[str | Path], dev: Sequence[str | Path]) -> None:
    """Raise SettingError where a file is to teach and to judge."""
    taught = {Path(path).resolve() for path in docs}
    for path in dev:
        if Path(path).resolve() in taught:
            raise SettingError(f"--dev {path}: is among --docs too; other documents were wanted")


def _n_judging(source: Source, n_docs: Sequence[int], path: object) -> int:
    """How many documents the dev files with ``n_docs`` hold. Raises InputError where they cannot judge."""
    n_dev = sum(n_docs)
    if not n_dev:
        raise InputError(
            f"{path}: holds no document for --dev, or only those of --docs; tagged documents were wanted"
        )
    if not source.gold[-n_dev:].nnz:
        found = f"no document for --dev has a gold label of the label set ({n_dev:,} without)"
        raise InputError(f"{path}: {found}; tagged documents were wanted")
    return n_dev


def tagged_with(
    labels: LabelSet,
    corpus: Documents | None,
    options: ReadOptions,
    report: ReadReport,
    see: Callable[[DocumentBatch], object] | None = None,
) -> Source:
    """Ids and gold labels of a corpus in a first pass; unknown labels as ``on_unknown_label`` says.

    ``see`` gets each batch of documents that is read.
    """
    ids: list[str] = []
    blocks: list[sp.csr_matrix] = []
    reader, contents = GoldReader(labels, options, report), Fingerprints()
    for batch in corpus.batches(SHARD) if corpus else ():
        ids.extend(batch.ids)
        blocks.append(reader.batch(batch))
        contents.see(batch)
        if see is not None:
            see(batch)
    labels = reader.finish()
    return Source(labels, corpus, _stack(blocks, len(labels)), ids, fingerprints=contents.numbers())


def _stack(blocks: list[sp.csr_matrix], n_labels: int) -> sp.csr_matrix:
    """(n_docs, n_labels) bool; earlier blocks may know fewer labels."""
    if not blocks:
        return sp.csr_matrix((0, n_labels), dtype=np.float32)
    wide = [sp.csr_matrix((b.data, b.indices, b.indptr), (b.shape[0], n_labels)) for b in blocks]
    return sp.vstack(wide, format="csr", dtype=np.float32)


def _without(gold: sp.csr_matrix, pairs: np.ndarray, path: object, n_docs: int) -> sp.csr_matrix:
    """``gold`` without the (document row, label row) pairs of a filter file, of the first ``n_docs``."""
    if len(pairs) and (pairs.max(axis=0) >= (n_docs, gold.shape[1])).any():
        raise InputError(f"{path}: names document or label rows beyond {n_docs} and {gold.shape[1]}")
    cut = sp.csr_matrix((np.ones(len(pairs), np.float32), (pairs[:, 0], pairs[:, 1])), gold.shape)
    kept = gold - gold.multiply(cut > 0)
    kept.eliminate_zeros()
    return kept.tocsr()
