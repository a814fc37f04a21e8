"""Shards: a corpus cut into runs of documents, and the work done on one of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from xmc.tag.durable import disk_errors, write_durably
from xmc.tag.run import ADVICE, ShardRecord, ids_digest, part_path

if TYPE_CHECKING:
    from xmc.data.labels import LabelSet
    from xmc.data.options import ReadOptions
    from xmc.data.records import DocumentBatch
    from xmc.tag.suggestions import Suggestions, TagOptions
    from xmc.tag.writers import SuggestionFormat


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

    def tag_batch(self, batch: DocumentBatch, options: TagOptions) -> Suggestions:
        """Suggestions for each document of the batch, in its order."""


class DocumentSource(Protocol):
    """What a job needs of a corpus."""

    @property
    def paths(self) -> Sequence[str | Path]:
        """The files and folders that the documents come from."""

    @property
    def options(self) -> ReadOptions:
        """How they are read."""

    def batches(self, size: int) -> Iterator[DocumentBatch]:
        """The documents in order, the same batches each time."""


@dataclass(frozen=True)
class Shard:
    """One batch of documents and its place in the corpus, from 0. A tagger never sees more at a time."""

    index: int
    batch: DocumentBatch


def shards(source: DocumentSource, size: int) -> Iterator[Shard]:
    """The corpus in shards of ``size`` documents; what is in a shard follows from corpus and size alone."""
    return (Shard(i, batch) for i, batch in enumerate(source.batches(size)))


def tagged(tagger: DocumentTagger, shard: Shard, options: TagOptions) -> Suggestions:
    """The suggestions for a shard. Raises: RuntimeError if they are not for its documents."""
    suggestions = tagger.tag_batch(shard.batch, options)
    if suggestions.doc_ids != list(shard.batch.ids):
        raise RuntimeError(f"shard {shard.index}: the tagger gave suggestions for other documents")
    return suggestions


def reasons(suggestions: Suggestions) -> dict[str, int]:
    """How many documents have no suggestion, by reason."""
    nothing = suggestions.counts == 0
    return dict(sorted(Counter(r for r, n in zip(suggestions.reasons, nothing, strict=True) if n).items()))


@dataclass(frozen=True)
class ShardWork:
    """Tags a shard and leaves its part on the disk: the whole of what a runner has to do."""

    tagger: DocumentTagger
    options: TagOptions
    format: SuggestionFormat
    folder: Path

    def __call__(self, shard: Shard) -> ShardRecord:
        """Raises: ResourceError if the disk does not take the part."""
        suggestions = tagged(self.tagger, shard, self.options)
        content = self.format.encode(suggestions, self.tagger.labels)
        part = part_path(self.folder, shard.index)
        with disk_errors(part, len(content), ADVICE):
            write_durably(part, content)
        return ShardRecord(
            index=shard.index,
            n_docs=len(suggestions),
            n_suggestions=suggestions.n_suggestions,
            reasons=reasons(suggestions),
            documents=ids_digest(shard.batch.ids),
            n_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )


def total(records: Iterable[ShardRecord]) -> dict[str, Any]:
    """Documents, suggestions, and documents without suggestions by reason, of all shards together."""
    records = list(records)
    nothing: Counter[str] = Counter()
    for record in records:
        nothing.update(record.reasons)
    return {
        "n_docs": sum(r.n_docs for r in records),
        "n_suggestions": sum(r.n_suggestions for r in records),
        "reasons": dict(sorted(nothing.items())),
    }
