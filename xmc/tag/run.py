"""Run: the hidden folder beside an output in which a tagging job keeps its finished shards.

``.OUT.run/`` holds ``run.json`` (what the run was started with), one file ``NNNNNNNN.part`` for each finished
shard, and ``shards.jsonl``, the journal: a line is added once its part is on the disk, so that what the
journal names exists in full. ``OUT.run.json`` stays beside the output and says how it was made.
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
from typing import IO, Any

from xmc.artifacts.staging import sync
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
    """

    index: int
    n_docs: int
    n_suggestions: int
    reasons: dict[str, int]
    documents: str
    n_bytes: int
    sha256: str


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
            for part in self.folder.glob("*.part"):
                part.unlink()
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
        part = self.part(record.index)
        if not part.is_file() or part.stat().st_size != record.n_bytes:
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

    def publish(self, merged: Path, manifest: RunManifest, counts: dict[str, Any]) -> None:
        """Give the merged output its name. The manifest goes first: where OUT is, its manifest is too."""
        n_bytes = merged.stat().st_size
        with disk_errors(self.out, n_bytes, ADVICE):
            sync(merged)
            output = {"n_bytes": n_bytes, "sha256": file_digest(merged)}
            write_durably(self.beside, manifest.to_json(counts=counts, output=output))
            merged.replace(self.out)
            sync(self.out.parent)

    def remove(self) -> None:
        """Remove the folder. What cannot be removed is left: the output is complete without it."""
        # The manifest goes last: a folder with parts and without it would be taken for someone else's.
        with suppress(OSError):
            for part in self.folder.glob("*.part"):
                part.unlink()
        shutil.rmtree(self.folder, ignore_errors=True)


def part_path(folder: Path, index: int) -> Path:
    """The part file of a shard in a run folder."""
    return folder / f"{index:08d}.part"


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
