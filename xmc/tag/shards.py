"""Shards: a corpus cut into runs of documents, and what is counted of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xmc.tag.run import ShardRecord

if TYPE_CHECKING:
    from xmc.data.labels import LabelSet
    from xmc.data.options import ReadOptions
    from xmc.data.paths import Given
    from xmc.data.records import DocumentBatch
    from xmc.tag.suggestions import Suggestions, TagOptions


class DocumentTagger(Protocol):
    """What a job needs of a tagger. The same batch and options must always give the same suggestions."""

    @property
    def labels(self) -> LabelSet:
        """The labels that rows stand for."""

    @property
    def id(self) -> str:
        """The model's identity: another model, or a changed one, has another."""

    @property
    def run_settings(self) -> Mapping[str, Any]:
        """What else the last bits of a score depend on: dtype, threads, kernel, versions."""

    def begin(self) -> None:
        """Called once in each thread that will work for it."""

    def encode(self, batch: DocumentBatch) -> Any:
        """The first half of tagging a batch: whatever `suggest` needs of it."""

    def suggest(self, batch: DocumentBatch, encoded: Any, options: TagOptions) -> Suggestions:
        """Suggestions for each document of an ``encoded`` batch, in its order."""


class DocumentSource(Protocol):
    """What a job needs of a corpus."""

    @property
    def arguments(self) -> Sequence[str | Path]:
        """The files, folders and patterns that were given."""

    @property
    def given(self) -> Sequence[Given]:
        """The files that are read of them."""

    @property
    def options(self) -> ReadOptions:
        """How they are read."""

    @property
    def keep_faults(self) -> bool:
        """Whether what is no document is a fault beside the others, instead of an error."""

    @property
    def max_characters(self) -> int | None:
        """How long a document, and all of a batch together, may be."""

    def batches(self, size: int) -> Iterator[DocumentBatch]:
        """The documents in order, the same batches each time."""


@dataclass(frozen=True)
class Shard:
    """One batch of documents and its place in the corpus, from 0. A tagger never sees more at a time."""

    index: int
    batch: DocumentBatch


def shards(source: DocumentSource, size: int, longest: int | None = None) -> Iterator[Shard]:
    """The corpus in shards of ``size`` documents; one of more than ``longest`` characters is a shard alone.

    What is in a shard follows from these and the corpus alone.
    """
    parts = (part for batch in source.batches(size) for part in _parted(batch, longest))
    return (Shard(i, part) for i, part in enumerate(parts))


def _parted(batch: DocumentBatch, longest: int | None) -> list[DocumentBatch]:
    """The batch in order, in parts of one long document or of short ones; faults go to the first."""
    if longest is None or batch.texts is None:
        return [batch]
    is_long = np.array([len(text) > longest for text in batch.texts], bool)
    bounds = np.flatnonzero(is_long[1:] | is_long[:-1]) + 1
    if not len(bounds):
        return [batch]
    parts = [batch.take(rows) for rows in np.split(np.arange(len(batch)), bounds)]
    parts[0].faults = batch.faults
    return parts


def reasons(suggestions: Suggestions) -> dict[str, int]:
    """How many documents have no suggestion, by reason."""
    nothing = suggestions.counts == 0
    return dict(sorted(Counter(r for r, n in zip(suggestions.reasons, nothing, strict=True) if n).items()))


def total(records: Iterable[ShardRecord]) -> dict[str, Any]:
    """The counts of a report, of all shards together."""
    records = list(records)
    nothing: Counter[str] = Counter()
    for record in records:
        nothing.update(record.reasons)
    return {
        "n_docs": sum(r.n_docs for r in records),
        "n_suggestions": sum(r.n_suggestions for r in records),
        "n_quarantined": sum(r.n_quarantined for r in records),
        "n_cut_off": sum(r.n_cut_off for r in records),
        "reasons": dict(sorted(nothing.items())),
    }
