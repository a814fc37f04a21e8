"""Source: labels and tagged documents as a build reads them, in a first pass over the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xmc.data.corpus import Corpus
from xmc.data.formats import labels_of, open_corpus, read_filter, read_labels
from xmc.data.gold import GoldReader
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch
from xmc.errors import InputError, SettingError

SHARD = 2000  # texts encoded, and kept for resuming, at a time


@dataclass
class Source:
    """What was read in the first pass over the documents."""

    labels: LabelSet
    corpus: Corpus | None
    gold: sp.csr_matrix
    ids: list[str]

    @property
    def has_text(self) -> bool:
        """Whether documents are texts, not rows of given features."""
        return self.corpus is None or self.corpus.has_text

    def batches(self) -> Iterator[DocumentBatch]:
        """The documents, read again."""
        return iter(()) if self.corpus is None else self.corpus.batches(SHARD)


def read_source(
    labels: str | Path | None,
    docs: Sequence[str | Path] | None,
    filter_pairs: str | Path | None,
    options: ReadOptions,
    report: ReadReport,
) -> Source:
    """Labels and gold labels; texts are read again when they are needed."""
    corpus = open_corpus(docs, options, report) if docs else None
    if labels is not None:
        label_set: LabelSet | None = read_labels(labels, options, report)
    else:
        label_set = labels_of(docs[0], options, report) if docs else None
    if label_set is None:
        raise SettingError("--labels F is missing: the format of --docs does not define the labels itself")
    source = tagged_with(label_set, corpus, options, report)
    if filter_pairs is not None:
        source.gold = _without(source.gold, read_filter(filter_pairs, options), filter_pairs)
    return source


def tagged_with(labels: LabelSet, corpus: Corpus | None, options: ReadOptions, report: ReadReport) -> Source:
    """Ids and gold labels of a corpus in a first pass; unknown labels as ``on_unknown_label`` says."""
    ids: list[str] = []
    blocks: list[sp.csr_matrix] = []
    reader = GoldReader(labels, options, report)
    for batch in corpus.batches(SHARD) if corpus else ():
        ids.extend(batch.ids)
        blocks.append(reader.batch(batch))
    labels = reader.finish()
    return Source(labels, corpus, _stack(blocks, len(labels)), ids)


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
