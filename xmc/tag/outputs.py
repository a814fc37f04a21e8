"""Where suggestions end up: in one file that appears when all is done, or in a folder of parts."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmc.artifacts.staging import sync
from xmc.errors import InputError, ResourceError
from xmc.tag.durable import disk_errors, durably, write_durably
from xmc.tag.manifest import RunManifest, read_manifest
from xmc.tag.run import ADVICE, Run, file_digest
from xmc.tag.writers import SuggestionFormat, full_suffix

if TYPE_CHECKING:
    from xmc.data.labels import LabelSet

OTHER_OUT = "delete it or choose another name"


class Output(ABC):
    """The output of a run; ``OUT.run.json`` and, where needed, ``OUT.quarantine.jsonl`` lie beside it."""

    def __init__(self, run: Run, chosen: SuggestionFormat, labels: LabelSet) -> None:
        self.run, self.format, self.labels = run, chosen, labels

    def manifest(self) -> RunManifest | None:
        """The manifest beside an output that a run wrote, if there is one.

        Raises: InputError for an output that no run wrote, and where its folder does not exist.
        """
        out = self.run.out
        if not out.parent.is_dir():
            raise InputError(f"{out}: there is no folder {out.parent}; make it or choose another name")
        self._refuse_kind()
        before = read_manifest(self.run.beside)
        if before is None:
            for found in (out, self.run.quarantine):
                if os.path.lexists(found) and not (found == out and self._is_under_way()):
                    raise InputError(f"{found}: exists, and no tagging run wrote it; {OTHER_OUT}")
        return before

    def finish(self, manifest: RunManifest, counts: dict[str, Any]) -> None:
        """All shards are finished: make the output complete."""
        if told := self.run.quarantined():
            with disk_errors(self.run.quarantine, advice=ADVICE), durably(self.run.quarantine) as partial:
                _join(told, partial)
        else:
            with disk_errors(self.run.quarantine, advice=ADVICE):
                self.run.quarantine.unlink(missing_ok=True)  # of an earlier run, whose output was deleted
        self._publish(manifest, counts)

    def files(self) -> list[Path]:
        """OUT and what lies beside it in the end."""
        return [self.run.out, self.run.beside, self.run.quarantine]

    @abstractmethod
    def begin(self) -> None:
        """The run has begun or goes on: of OUT stays what its finished shards left. Raises: ResourceError."""

    @abstractmethod
    def take(self, index: int) -> None:
        """A shard is finished."""

    @abstractmethod
    def digest(self) -> str | None:
        """The checksum of the output that is there; None where there is none."""

    @abstractmethod
    def _refuse_kind(self) -> None:
        """Raise InputError where OUT is a folder instead of a file, or a file instead of a folder."""

    @abstractmethod
    def _publish(self, manifest: RunManifest, counts: dict[str, Any]) -> None:
        """Write ``OUT.run.json`` and what is missing of OUT."""

    def _is_under_way(self) -> bool:
        return False


class OneFile(Output):
    """OUT is one file."""

    def begin(self) -> None:
        """OUT is not there yet."""

    def take(self, index: int) -> None:
        """Nothing appears before all is done."""

    def digest(self) -> str | None:
        """Of the file's bytes."""
        return file_digest(self.run.out) if os.path.lexists(self.run.out) else None

    def _refuse_kind(self) -> None:
        if self.run.out.is_dir():
            raise InputError(f"{self.run.out}: is a folder; wanted the name of a file to write")

    def _publish(self, manifest: RunManifest, counts: dict[str, Any]) -> None:
        merged = self._merged()
        with disk_errors(self.run.out, merged.stat().st_size, ADVICE):
            sync(merged)
            output = {"n_bytes": merged.stat().st_size, "sha256": file_digest(merged)}
            # The manifest goes first: where OUT is, its manifest is too.
            write_durably(self.run.beside, manifest.to_json(counts=counts, output=output))
            merged.replace(self.run.out)
            sync(self.run.out.parent)

    def _merged(self) -> Path:
        merged, finished = self.run.folder / "merged", self.run.finished
        parts = [self.run.part(index) for index in sorted(finished)]
        try:
            with disk_errors(merged, sum(record.n_bytes for record in finished.values()), ADVICE):
                self.format.merge(parts, merged, self.labels)
        except ResourceError:
            merged.unlink(missing_ok=True)
            raise
        return merged


class PartFolder(Output):
    """OUT is a folder with a file for each shard, ``part-00000`` and so on, each complete once it is there.

    ``OUT.run.json`` says that all are.
    """

    def __init__(self, run: Run, chosen: SuggestionFormat, labels: LabelSet) -> None:
        super().__init__(run, chosen, labels)
        self._taken: set[int] = set()

    def files(self) -> list[Path]:
        """Also the first part in OUT."""
        return [*super().files(), self.part(0)]

    def part(self, index: int) -> Path:
        """The file of a shard."""
        return self.run.out / f"part-{index:05d}{full_suffix(self.run.out)}"

    def _parts(self) -> list[Path]:
        """The files that are there under names of shards, in the order of their names."""
        name = re.compile(rf"part-\d{{5,}}{re.escape(full_suffix(self.run.out))}")
        return sorted(path for path in self.run.out.glob("part-*") if name.fullmatch(path.name))

    def begin(self) -> None:
        """Remove the files of shards that are not finished: a run before, of other documents, wrote them."""
        finished = {self.part(index) for index in self.run.finished}
        for path in self._parts():
            if path not in finished:
                with disk_errors(path):
                    path.unlink()

    def take(self, index: int) -> None:
        """Write the shard's file."""
        path = self.part(index)
        with disk_errors(path, self.run.finished[index].n_bytes, ADVICE):
            self.run.out.mkdir(exist_ok=True)
            with durably(path) as partial:
                self.format.merge([self.run.part(index)], partial, self.labels)
        self._taken.add(index)

    def digest(self) -> str | None:
        """Of the names and bytes of all shards' files."""
        if not self.run.out.is_dir():
            return None
        digest = hashlib.sha256()
        for path in self._parts():
            digest.update(f"{path.name} {file_digest(path)}\n".encode())
        return digest.hexdigest()

    def _refuse_kind(self) -> None:
        if os.path.lexists(self.run.out) and not self.run.out.is_dir():
            raise InputError(f"{self.run.out}: is no folder; wanted one to write parts to (tag.parts=true)")

    def _is_under_way(self) -> bool:
        return self.run.manifest.exists() or not any(self.run.out.iterdir())

    def _publish(self, manifest: RunManifest, counts: dict[str, Any]) -> None:
        with disk_errors(self.run.out):
            self.run.out.mkdir(exist_ok=True)
        for index in sorted(set(self.run.finished) - self._taken):  # those of an interrupted run, anew
            self.take(index)
        self.begin()  # the checksum is that of finished shards alone
        with disk_errors(self.run.beside, advice=ADVICE):
            output = {"n_parts": len(self.run.finished), "sha256": self.digest()}
            write_durably(self.run.beside, manifest.to_json(counts=counts, output=output))


def _join(paths: Sequence[Path], out: Path) -> None:
    with out.open("wb") as sink:
        for path in paths:
            with path.open("rb") as source:
                shutil.copyfileobj(source, sink)
