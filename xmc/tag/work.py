"""The work done on one shard, in steps that may run side by side: encode, suggest, write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xmc.data.records import DocumentBatch, Fault
from xmc.deadline import TooSlowError, time_limit
from xmc.errors import InputError, XmcError, explained
from xmc.tag.durable import disk_errors, write_durably
from xmc.tag.run import ADVICE, ShardRecord, ids_digest, part_path, quarantine_path
from xmc.tag.shards import DocumentTagger, Shard, reasons
from xmc.tag.suggestions import Suggestions

if TYPE_CHECKING:
    from xmc.tag.suggestions import TagOptions
    from xmc.tag.writers import SuggestionFormat

NEVER_SLOWER = 1000  # characters encoded in a second, by a large transformer on few cores too
MOST_BAD = 20  # documents of a shard that may be left out because tagging them fails; more: the shard failed


@dataclass(frozen=True)
class ShardFailure:
    """A shard that could not be tagged: its place in the corpus, and what to tell.

    ``exit_code``: of the kind of error, as in `xmc.errors`.
    """

    index: int
    n_docs: int
    place: str
    message: str
    exit_code: int


class Encoded(NamedTuple):
    """A shard between the steps; ``encoded``: what the tagger made of it, or the error that it raised."""

    shard: Shard
    encoded: Any


class Tagged(NamedTuple):
    """A shard's suggestions as the bytes of its part, and what of it could not be tagged."""

    shard: Shard
    suggestions: Suggestions
    content: bytes
    faults: Sequence[Fault]


class _TooManyError(Exception):
    """More bad documents than one can put down to the documents."""


@dataclass(frozen=True)
class ShardWork:
    """Tags a shard and leaves its part on the disk: the whole of what a runner has to do.

    ``lenient``: a document that cannot be tagged is left out and told, instead of ending the job.
    ``max_seconds``: that encoding a document may take which is a shard alone, if it is longer than `untimed`.
    """

    tagger: DocumentTagger
    options: TagOptions
    format: SuggestionFormat
    folder: Path
    lenient: bool = False
    max_seconds: int | None = None

    def __call__(self, shard: Shard) -> ShardRecord | ShardFailure:
        """All steps, one after another. Raises as they do."""
        return self.write(self.suggest(self.encode(shard)))

    def encode(self, shard: Shard) -> Encoded:
        """The first step; an error waits for the next one."""
        try:
            return Encoded(shard, self._encoded(shard.batch))
        except Exception as error:
            return Encoded(shard, error)

    def suggest(self, half: Encoded) -> Tagged | ShardFailure:
        """The second step. Raises: what tagging raises, unless ``lenient``."""
        shard, faults = half.shard, list(half.shard.batch.faults)
        try:
            if isinstance(half.encoded, Exception):
                raise half.encoded
            suggestions = self._suggestions(shard.batch, half.encoded)
        except Exception as error:
            if not self.lenient:
                raise
            if isinstance(error, TooSlowError):
                faults.append(_fault(shard.batch, 0, error))
                return self._tagged(shard, Suggestions.empty([], []), faults)
            return self._rescued(shard, error)
        return self._tagged(shard, suggestions, faults)

    def write(self, tagged: Tagged | ShardFailure) -> ShardRecord | ShardFailure:
        """The last step. Raises: ResourceError if the disk does not take the part."""
        if isinstance(tagged, ShardFailure):
            return tagged
        shard, suggestions, content, faults = tagged
        told = b"".join(quarantine_lines(faults))
        if told:
            self._write(quarantine_path(self.folder, shard.index), told)
        self._write(part_path(self.folder, shard.index), content)
        return ShardRecord(
            index=shard.index,
            n_docs=len(suggestions),
            n_suggestions=suggestions.n_suggestions,
            reasons=reasons(suggestions),
            documents=ids_digest(shard.batch.ids),
            n_bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
            n_quarantined=sum(not fault.ends_file for fault in faults),
            n_cut_off=sum(fault.ends_file for fault in faults),
            quarantine=hashlib.sha256(told).hexdigest() if told else "",
        )

    def _write(self, path: Path, content: bytes) -> None:
        with disk_errors(path, len(content), ADVICE):
            write_durably(path, content)

    def _encoded(self, batch: DocumentBatch) -> Any:
        if not len(batch):
            return None
        longest = untimed(self.max_seconds)
        timed = longest is not None and len(batch) == 1 and batch.texts and len(batch.texts[0]) > longest
        with time_limit(self.max_seconds if timed else None):
            return self.tagger.encode(batch)

    def _suggestions(self, batch: DocumentBatch, encoded: Any) -> Suggestions:
        if not len(batch):  # of a shard of faults only
            return Suggestions.empty([], [])
        suggestions = self.tagger.suggest(batch, encoded, self.options)
        if suggestions.doc_ids != list(batch.ids):
            raise RuntimeError("the tagger gave suggestions for other documents")
        return suggestions

    def _tagged(self, shard: Shard, suggestions: Suggestions, faults: Sequence[Fault]) -> Tagged:
        return Tagged(shard, suggestions, self.format.encode(suggestions, self.tagger.labels), faults)

    def _rescued(self, shard: Shard, error: Exception) -> Tagged | ShardFailure:
        """The shard without the documents that cannot be tagged, or its failure."""
        try:
            if explained(error)[1] == 3:
                raise error
            bad = self._bad(shard.batch)
            if len(bad) == len(shard.batch) and (len(bad) > 1 or shard.index == 0):
                return failure(shard, error)  # more likely wrong with all than with each
            left = shard.batch.take(np.setdiff1d(np.arange(len(shard.batch)), list(bad)))
            suggestions = self._suggestions(left, self._encoded(left))
        except _TooManyError:
            return failure(shard, error)
        except Exception as again:
            return failure(shard, again)
        return self._tagged(shard, suggestions, [*shard.batch.faults, *bad.values()])

    def _bad(self, batch: DocumentBatch) -> dict[int, Fault]:
        """The documents that cannot be tagged, by place in the batch, found by trying halves."""
        found: dict[int, Fault] = {}
        waiting = [np.arange(len(batch))]
        while waiting:
            rows = waiting.pop()
            try:
                part = batch.take(rows)
                self._suggestions(part, self._encoded(part))
            except Exception as error:
                if len(rows) > 1:
                    waiting += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
                    continue
                found[int(rows[0])] = _fault(batch, int(rows[0]), error)
                if len(found) > MOST_BAD:
                    raise _TooManyError from None
        return found


def untimed(max_seconds: int | None) -> int | None:
    """Characters of a document up to which it is not timed; None where none is."""
    return None if max_seconds is None else max_seconds * NEVER_SLOWER


def _fault(batch: DocumentBatch, row: int, error: Exception) -> Fault:
    told = InputError(f"{batch.places[row]}: {explained(error)[0]}")
    return Fault(batch.places[row], told, batch.ids[row])


def failure(shard: Shard, error: Exception) -> ShardFailure:
    """What to tell of a shard where ``error`` came up."""
    message, code = explained(error)
    place = shard.batch.places[0] if len(shard.batch) else "its beginning"
    return ShardFailure(shard.index, len(shard.batch), place, message, code)


def quarantine_lines(faults: Sequence[Fault]) -> Iterator[bytes]:
    """``{"place", "id", "reason"}`` a line, without an id where it is not known."""
    for fault in faults:
        known = {"id": fault.id} if fault.id else {}
        yield json.dumps({"place": fault.place, **known, "reason": fault.reason}).encode() + b"\n"


class ShardsFailedError(XmcError):
    """Some shards could not be tagged; ``way_out``: what is left of the others."""

    def __init__(self, out: Path, n_shards: int, failures: Sequence[ShardFailure], way_out: str) -> None:
        first = min(failures, key=lambda failure: failure.index)
        which = f"{len(failures)} of {n_shards} shards failed, the first at {first.place}: {first.message}"
        super().__init__(f"{out}: {which}; {way_out}")
        self.exit_code = first.exit_code
