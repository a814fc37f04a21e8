"""Records into batches: as many documents to each as a number of documents and of characters allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from xmc.data.records import Document, DocumentBatch, Fault


def grouped(
    records: Iterable[Document | Fault], size: int, max_characters: int | None
) -> Iterator[DocumentBatch]:
    """Groups of ``size`` records; one ends early once its texts have more than ``max_characters``."""
    group: list[Document | Fault] = []
    n_characters = 0
    for record in records:
        group.append(record)
        n_characters += len(record.text) if isinstance(record, Document) else 0
        if len(group) == size or (max_characters is not None and n_characters > max_characters):
            yield _batch(group)
            group, n_characters = [], 0
    if group:
        yield _batch(group)


def _batch(group: Sequence[Document | Fault]) -> DocumentBatch:
    documents = [record for record in group if isinstance(record, Document)]
    faults = [record for record in group if isinstance(record, Fault)]
    if not documents:
        return DocumentBatch([], [], None, None, [], faults)
    ids, texts, labels, places = (list(column) for column in zip(*documents, strict=True))
    gold = [each or [] for each in labels] if any(each is not None for each in labels) else None
    return DocumentBatch(ids, texts, None, gold, places, faults)


def resized(
    batches: Iterable[DocumentBatch], size: int, max_characters: int | None = None
) -> Iterator[DocumentBatch]:
    """The same documents, as many to a batch as ``size`` and ``max_characters`` allow.

    What is in a batch depends on nothing else, but that one with ``size`` faults or more ends there.
    """
    most = np.inf if max_characters is None else max_characters
    held: list[DocumentBatch] = []
    n_docs = n_characters = n_faults = 0
    for batch in batches:
        held.append(batch)
        n_docs, n_faults = n_docs + len(batch), n_faults + len(batch.faults)
        n_characters += sum(map(len, batch.texts or ()))
        if n_docs < size and n_characters <= most and n_faults < size:
            continue
        *whole, rest = _cut(joined(held), size, most)
        yield from whole
        if n_faults >= size and not whole:
            yield rest
            rest = rest.take(np.zeros(0, np.int64))
        held, n_docs, n_faults = [rest], len(rest), len(rest.faults)
        n_characters = sum(map(len, rest.texts or ()))
    if n_docs or n_faults:
        yield joined(held)


def _cut(batch: DocumentBatch, size: int, most: float) -> list[DocumentBatch]:
    """``batch`` in full batches and a last one that has room left, maybe for all; faults go to the first."""
    lengths = np.array([len(text) for text in batch.texts or ()] or np.zeros(len(batch), np.int64))
    ends = np.concatenate([[0], np.cumsum(lengths)])
    bounds = [0]
    while bounds[-1] < len(batch):
        start = bounds[-1]
        fitting = int(np.searchsorted(ends, ends[start] + most, side="right")) - 1
        stop = min(start + size, max(fitting, start + 1))
        if stop == len(batch) and stop < start + size:
            break  # more may fit
        bounds.append(stop)
    bounds.append(len(batch))
    if len(bounds) == 2:
        return [batch]
    parts = [batch.take(np.arange(*bound)) for bound in pairwise(bounds)]
    parts[0].faults = batch.faults
    return parts


def joined(batches: list[DocumentBatch]) -> DocumentBatch:
    """The documents and faults of all batches (one at least), one after another."""
    from scipy.sparse import vstack

    faults = [fault for batch in batches for fault in batch.faults]
    batches = [batch for batch in batches if len(batch)] or batches[:1]
    if len(batches) == 1:
        return replace(batches[0], faults=faults)
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
        faults,
    )
