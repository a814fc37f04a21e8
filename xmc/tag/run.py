"""Run: the hidden folder beside an output in which a tagging job keeps its finished shards.

``.OUT.run/`` holds ``run.json`` (what the run was started with), one file ``NNNNNNNN.part`` for each finished
shard, ``NNNNNNNN.quarantine`` beside it where documents could not be tagged, and ``shards.jsonl``, the
journal: a line is added once its part is on the disk, so that what the journal names exists in full.
``OUT.run.json`` stays beside the output and says how it was made.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from xmc.errors import ArtifactError
from xmc.tag.durable import disk_errors, write_durably
from xmc.tag.manifest import RunManifest

ADVICE = "finished shards are kept: free some space and run the same command again"


@dataclass(frozen=True)
class ShardRecord:
    """One finished shard.

    Attributes:
        index: its place in the corpus, from 0.
        n_docs, n_suggestions: what is in it.
        reasons: documents without suggestions, by reason.
        documents: checksum of its document ids.
        n_bytes, sha256: of its part file.
        n_quarantined: documents that could not be read or tagged.
        n_cut_off: files that could not be read to their end.
        quarantine: checksum of the file that tells of these, "" where there are none.
    """

    index: int
    n_docs: int
    n_suggestions: int
    reasons: dict[str, int]
    documents: str
    n_bytes: int
    sha256: str
    n_quarantined: int = 0
    n_cut_off: int = 0
    quarantine: str = ""


@dataclass
class Run:
    """The run folder of one output. Only the holder of its lock may change it."""

    out: Path
    finished: dict[int, ShardRecord] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The hidden folder beside the output."""
        return self.out.with_name(f".{self.out.name}.run")

    @property
    def beside(self) -> Path:
        """The manifest that stays beside the finished output."""
        return self.out.with_name(f"{self.out.name}.run.json")

    @property
    def quarantine(self) -> Path:
        """Tells of the documents that could not be tagged, where there are some."""
        return self.out.with_name(f"{self.out.name}.quarantine.jsonl")

    @property
    def lock(self) -> Path:
        """Held by the job that works in the folder."""
        return self.folder / "lock"

    @property
    def manifest(self) -> Path:
        """What the run in the folder was started with."""
        return self.folder / "run.json"

    @property
    def journal(self) -> Path:
        """A line for each finished shard."""
        return self.folder / "shards.jsonl"

    def part(self, index: int) -> Path:
        """The file of a shard."""
        return part_path(self.folder, index)

    def is_foreign(self) -> bool:
        """Whether something lies in a folder without a manifest that a run, killed early, does not leave."""
        own = {self.lock.name, self.manifest.name + ".tmp"}
        return any(found.name not in own for found in self.folder.iterdir())

    def start(self, manifest: RunManifest) -> None:
        """Begin anew: no shard is finished."""
        self.finished = {}
        with disk_errors(self.manifest, advice=ADVICE):
            self.journal.unlink(missing_ok=True)
            self._remove_parts()
            write_durably(self.manifest, manifest.to_json())

    def resume(self) -> list[int]:
        """Read the journal; returns the shards that it names whose part is missing or not what it was.

        A last line that a crash cut off is dropped. Damaged shards count as not finished.
        """
        records = self._read_journal()
        damaged = [i for i, record in records.items() if not self._intact(record)]
        self.finished = {i: record for i, record in records.items() if i not in damaged}
        return damaged

    def _read_journal(self) -> dict[int, ShardRecord]:
        if not self.journal.exists():
            return {}
        content = self.journal.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        try:
            records = [ShardRecord(**json.loads(line)) for line in whole.splitlines()]
        except (ValueError, TypeError) as error:
            raise ArtifactError(
                f"{self.journal}: {error}; delete the folder {self.folder} to start again"
            ) from None
        if whole != content:
            with disk_errors(self.journal, advice=ADVICE):
                os.truncate(self.journal, len(whole))
        return {record.index: record for record in records}

    def _intact(self, record: ShardRecord) -> bool:
        part, told = self.part(record.index), quarantine_path(self.folder, record.index)
        if not part.is_file() or part.stat().st_size != record.n_bytes:
            return False
        if record.quarantine and not (told.is_file() and file_digest(told) == record.quarantine):
            return False
        return file_digest(part) == record.sha256

    def open_journal(self) -> IO[bytes]:
        """The journal, for `add`."""
        with disk_errors(self.journal, advice=ADVICE):
            # Without a buffer: what the disk refused must not come up once more when the file is closed.
            return self.journal.open("ab", buffering=0)

    def add(self, record: ShardRecord, journal: IO[bytes]) -> None:
        """Note a shard whose part is on the disk."""
        with disk_errors(self.journal, advice=ADVICE):
            line = memoryview(json.dumps(asdict(record)).encode() + b"\n")
            while line:
                line = line[journal.write(line) :]
            os.fsync(journal.fileno())
        self.finished[record.index] = record

    def quarantined(self) -> list[Path]:
        """The files that tell of documents that could not be tagged, in the order of their shards."""
        found = sorted(record.index for record in self.finished.values() if record.quarantine)
        return [quarantine_path(self.folder, index) for index in found]

    def remove(self) -> None:
        """Remove the folder. What cannot be removed is left: the output is complete without it."""
        # The manifest goes last: a folder with parts and without it would be taken for someone else's.
        with suppress(OSError):
            self._remove_parts()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_parts(self) -> None:
        for pattern in ("*.part", "*.quarantine", "*.docs"):
            for part in self.folder.glob(pattern):
                part.unlink()


def part_path(folder: Path, index: int) -> Path:
    """The part file of a shard in a run folder."""
    return folder / f"{index:08d}.part"


def quarantine_path(folder: Path, index: int) -> Path:
    """The file in a run folder that tells of a shard's documents that could not be tagged."""
    return folder / f"{index:08d}.quarantine"


def file_digest(path: Path) -> str:
    """sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as source:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def ids_digest(ids: Sequence[str]) -> str:
    """A checksum of document ids in their order."""
    return hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()
