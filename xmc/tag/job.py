"""TagJob: a tagger over documents of any number, in shards, resumable, each document exactly once.

A batch never crosses a shard and follows from the shard alone, each shard's part is synced and renamed before
the journal names it, and a run goes on only under the settings it began with: so an output is the same, byte
for byte, however often the job was killed. Memory holds one shard, and about 1 kB for each finished one;
the disk holds the parts and, while they are merged, the output too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xmc import __version__
from xmc.errors import InputError, ResourceError, SettingError
from xmc.tag.durable import disk_errors
from xmc.tag.inputs import FileTime, mask_digest, read_inputs, times
from xmc.tag.manifest import RunManifest, read_manifest
from xmc.tag.report import TagReport
from xmc.tag.run import ADVICE, Run, file_digest, ids_digest
from xmc.tag.runner import LocalRunner, Runner
from xmc.tag.shards import DocumentSource, DocumentTagger, Shard, ShardWork, reasons, shards, tagged, total
from xmc.tag.suggestions import TagOptions
from xmc.tag.writers import FORM, STDOUT, SuggestionFormat, format_of

OTHER_OUT = "delete it or choose another name"


@dataclass
class TagJob:
    """Tags a corpus into ``out``.

    Attributes:
        tagger, corpus: see the protocols in `xmc.tag.shards`.
        out: output file, its format by its suffix; ``-`` streams JSONL to standard output, without resuming.
        options: what is asked for each document.
        shard_size: documents in a shard, which is also the batch that the tagger gets.
        runner: where shards are worked on.
        progress: called with the number of documents done since the last call.
    """

    tagger: DocumentTagger
    corpus: DocumentSource
    out: str | Path
    options: TagOptions = field(default_factory=TagOptions)
    shard_size: int = 1000
    runner: Runner = field(default_factory=LocalRunner)
    progress: Callable[[int], object] | None = None

    def run(self) -> TagReport:
        """Tag what is not tagged yet, and write the output.

        Raises:
            SettingError: an option out of range, or a suffix that names no format.
            InputError: ``out`` exists and is not this job's finished output, or an unfinished run was started
                with other settings, another model or other documents.
            ResourceError: the disk is full or not writable, or another job writes the same output.
        """
        self.options.validate()
        if self.shard_size < 1:
            raise SettingError(f"tag.shard_size={self.shard_size}: wanted a whole number from 1 up")
        started = time.monotonic()
        chosen = format_of(self.out, self.options.evidence)
        report = self._stream(chosen) if str(self.out) == STDOUT else self._write(chosen)
        report.seconds = time.monotonic() - started
        return report

    def _advance(self, n_docs: int) -> None:
        if self.progress is not None:
            self.progress(n_docs)

    def _stream(self, chosen: SuggestionFormat) -> TagReport:
        """Each shard's lines to standard output as soon as they are there."""
        report = TagReport(STDOUT)
        for shard in shards(self.corpus, self.shard_size):
            suggestions = tagged(self.tagger, shard, self.options)
            sys.stdout.buffer.write(chosen.encode(suggestions, self.tagger.labels))
            sys.stdout.buffer.flush()
            report.n_docs += len(suggestions)
            report.n_suggestions += suggestions.n_suggestions
            for reason, n in reasons(suggestions).items():
                report.reasons[reason] = report.reasons.get(reason, 0) + n
            self._advance(len(suggestions))
        return report

    def _write(self, chosen: SuggestionFormat) -> TagReport:
        run = Run(Path(self.out))
        _refuse_foreign(run)
        before = times(self.corpus.paths)
        manifest = self._manifest()
        report = _finished(run, manifest)
        # A folder beside a finished output is what a job left that was killed at its very end.
        if report is None or run.folder.exists():
            with _locked(run):
                report = _finished(run, manifest) or self._complete(run, manifest, chosen, before)
            run.remove()
        return report

    def _manifest(self) -> RunManifest:
        """Everything that the bytes of the output depend on."""
        options = {k: v for k, v in asdict(self.options).items() if k != "allowed"}
        settings: dict[str, Any] = {
            "xmc": __version__,
            "output form": FORM,
            "model": self.tagger.id,
            **options,
            "allowed labels": mask_digest(self.options.allowed),
            "tag.shard_size": self.shard_size,
            **asdict(self.corpus.options),
            **self.tagger.run_settings,
        }
        return RunManifest.of(settings, read_inputs(self.corpus.paths))

    def _complete(
        self, run: Run, manifest: RunManifest, chosen: SuggestionFormat, before: list[FileTime]
    ) -> TagReport:
        """Tag what is left and merge; ``before``: the documents' files when their checksums were taken."""
        n_damaged = _begin(run, manifest)
        n_reused = sum(record.n_docs for record in run.finished.values())
        n_shards = self._tag_rest(run, chosen)
        if n_shards != len(run.finished) or times(self.corpus.paths) != before:
            raise _changed(run)
        counts = total(run.finished.values())
        self._merge(run, manifest, chosen, counts)
        return TagReport(str(run.out), **counts, n_reused=n_reused, n_repaired=n_damaged)

    def _tag_rest(self, run: Run, chosen: SuggestionFormat) -> int:
        """Tag every shard that is not finished; returns the number of shards in the corpus."""
        n_shards = 0

        def rest() -> Iterator[Shard]:
            nonlocal n_shards
            for shard in shards(self.corpus, self.shard_size):
                n_shards += 1
                record = run.finished.get(shard.index)
                if record is None:
                    yield shard
                elif record.documents == ids_digest(shard.batch.ids):
                    self._advance(record.n_docs)
                else:
                    raise _changed(run)

        work = ShardWork(self.tagger, self.options, chosen, run.folder)
        with run.open_journal() as journal:
            for record in self.runner.run(rest(), work):
                run.add(record, journal)
                self._advance(record.n_docs)
        return n_shards

    def _merge(
        self, run: Run, manifest: RunManifest, chosen: SuggestionFormat, counts: dict[str, Any]
    ) -> None:
        merged = run.folder / "merged"
        parts = [run.part(index) for index in sorted(run.finished)]
        try:
            with disk_errors(merged, sum(record.n_bytes for record in run.finished.values()), ADVICE):
                chosen.merge(parts, merged, self.tagger.labels)
        except ResourceError:
            merged.unlink(missing_ok=True)
            raise
        run.publish(merged, manifest, counts)


def _refuse_foreign(run: Run) -> RunManifest | None:
    """The manifest beside an OUT that a run wrote, if there is one.

    Raises: InputError for an OUT that no run wrote, and where its folder does not exist.
    """
    if run.out.is_dir():
        raise InputError(f"{run.out}: is a folder; wanted the name of a file to write")
    if not run.out.parent.is_dir():
        raise InputError(f"{run.out}: there is no folder {run.out.parent}; make it or choose another name")
    before = read_manifest(run.beside)
    if os.path.lexists(run.out) and before is None:
        raise InputError(f"{run.out}: exists, and no tagging run wrote it; {OTHER_OUT}")
    return before


def _finished(run: Run, manifest: RunManifest) -> TagReport | None:
    """The report on an output that this very job finished before; None where there is no output.

    Raises: InputError for an output of another run, or one that was changed since.
    """
    before = _refuse_foreign(run)
    if before is None or not os.path.lexists(run.out):
        return None
    if manifest.has_pipe:
        raise InputError(f"{run.out}: exists, and documents from a pipe cannot be compared; {OTHER_OUT}")
    if changes := manifest.changes(before):
        raise InputError(f"{run.out}: exists, made otherwise: {'; '.join(changes)}; {OTHER_OUT}")
    if file_digest(run.out) != before.more.get("output", {}).get("sha256"):
        written = f"it does not have the checksum that {run.beside.name} names"
        raise InputError(f"{run.out}: exists, but was changed: {written}; {OTHER_OUT}")
    return TagReport(str(run.out), **before.more.get("counts", {}), finished_before=True)


@contextmanager
def _locked(run: Run) -> Iterator[None]:
    """Hold the run folder, made if need be. Raises: ResourceError if another job holds it."""
    from filelock import FileLock, Timeout

    with disk_errors(run.folder):
        run.folder.mkdir(exist_ok=True)
        lock = FileLock(run.lock, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            busy = "another job is writing it; wait for it or choose another name"
            raise ResourceError(f"{run.out}: {busy}") from None
        except NotImplementedError:
            raise ResourceError(f"{run.out}: this file system has no file locks; write elsewhere") from None
    try:
        yield
    finally:
        lock.release()


def _begin(run: Run, manifest: RunManifest) -> int:
    """Start the run, or go on with the one in the folder; returns the number of its damaged shards."""
    before = read_manifest(run.manifest)
    if before is not None and (changes := manifest.changes(before)):
        way_out = f"go on with the old ones, or delete the folder {run.folder} to start again"
        raise InputError(f"{run.out}: an unfinished run used other settings: {'; '.join(changes)}; {way_out}")
    if before is None and run.is_foreign():
        raise InputError(
            f"{run.folder}: no tagging run made this folder; move it away or choose another name"
        )
    if before is None or manifest.has_pipe:
        run.start(manifest)
        return 0
    return len(run.resume())


def _changed(run: Run) -> InputError:
    way_out = f"delete the folder {run.folder} to start again"
    return InputError(f"{run.out}: the documents changed while they were read; {way_out}")
