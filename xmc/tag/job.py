"""TagJob: a tagger over documents of any number, in shards, resumable, each document exactly once.

A batch never crosses a shard and follows from the shard alone, each shard's part is synced and renamed before
the journal names it, and a run goes on only under the settings it began with: so an output is the same, byte
for byte, however often the job was killed. Memory holds one shard, and about 1 kB for each finished one;
the disk holds the parts and, while they are merged, the output too.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from xmc import __version__
from xmc.data.paths import is_pattern, would_match
from xmc.errors import InputError, ResourceError, SettingError
from xmc.tag.durable import disk_errors
from xmc.tag.inputs import FileTime, mask_digest, read_inputs, times
from xmc.tag.manifest import RunManifest, read_manifest
from xmc.tag.outputs import OTHER_OUT, OneFile, Output, PartFolder
from xmc.tag.pipeline import side_by_side
from xmc.tag.report import TagReport
from xmc.tag.run import Run, ids_digest
from xmc.tag.runner import LocalRunner, Runner
from xmc.tag.shards import DocumentSource, DocumentTagger, Shard, reasons, shards, total
from xmc.tag.suggestions import TagOptions
from xmc.tag.work import ShardFailure, ShardsFailedError, ShardWork, Tagged, untimed
from xmc.tag.writers import FORM, STDOUT, SuggestionFormat, format_of

# What is left of the other shards where some failed.
KEPT = "the others are kept: the same command tries these again"
NOT_AGAIN = "documents from a pipe cannot be read again: the same command begins anew"
WRITTEN = "what was written before stands, and what follows is not tagged"


@dataclass
class TagJob:
    """Tags a corpus into ``out``.

    Attributes:
        tagger, corpus: see the protocols in `xmc.tag.shards`.
        out: output file, its format by its suffix; ``-`` streams JSONL to standard output, without resuming.
        options: what is asked for each document.
        shard_size: documents in a shard, which is also the batch that the tagger gets.
        parts: ``out`` is a folder with a file for each shard, instead of one file.
        max_seconds: that encoding a document may take, if it is long; None: as long as it takes.
        runner: where shards are worked on.
        progress: called with the number of documents done since the last call.
        tell: called with a line about each document that cannot be tagged, where no file tells of it.
    """

    tagger: DocumentTagger
    corpus: DocumentSource
    out: str | Path
    options: TagOptions = field(default_factory=TagOptions)
    shard_size: int = 1000
    parts: bool = False
    max_seconds: int | None = None
    runner: Runner = field(default_factory=LocalRunner)
    progress: Callable[[int], object] | None = None
    tell: Callable[[str], object] | None = None

    def run(self) -> TagReport:
        """Tag what is not tagged yet, and write the output.

        Raises:
            SettingError: an option out of range, or a suffix that names no format.
            InputError: ``out`` exists and is not this job's finished output, or an unfinished run was started
                with other settings, another model or other documents.
            ResourceError: the disk is full or not writable, or another job writes the same output.
            ShardsFailedError: some shards could not be tagged; all others are kept, but where documents come
                from a pipe or suggestions go to standard output.
        """
        self.options.validate()
        if self.shard_size < 1:
            raise SettingError(f"tag.shard_size={self.shard_size}: wanted a whole number from 1 up")
        started = time.monotonic()
        chosen = format_of(self.out, self.options.evidence)
        is_stream = str(self.out) == STDOUT
        if is_stream and self.parts:
            raise SettingError(
                "tag.parts=true: standard output has no parts; wanted -o with the name of a folder"
            )
        report = self._stream(chosen) if is_stream else self._write(chosen)
        report.seconds = time.monotonic() - started
        return report

    def _advance(self, n_docs: int) -> None:
        if self.progress is not None:
            self.progress(n_docs)

    def _stream(self, chosen: SuggestionFormat) -> TagReport:
        """Each shard's lines to standard output as soon as they are there."""
        report = TagReport(STDOUT)
        work = self._work(chosen, Path())
        steps = (work.encode, work.suggest)
        with closing(side_by_side(self._shards(), steps, self.tagger.begin)) as found:
            for tagged in found:
                if isinstance(tagged, ShardFailure):
                    raise ShardsFailedError(Path(STDOUT), tagged.index + 1, [tagged], WRITTEN)
                sys.stdout.buffer.write(tagged.content)
                sys.stdout.buffer.flush()
                self._count(tagged, report)
                self._advance(len(tagged.suggestions))
        return report

    def _count(self, tagged: Tagged, report: TagReport) -> None:
        for fault in tagged.faults:
            report.n_cut_off += fault.ends_file
            report.n_quarantined += not fault.ends_file
            if self.tell is not None:
                self.tell(f"{'not read' if fault.ends_file else 'not tagged'}: {fault.place}: {fault.reason}")
        report.n_docs += len(tagged.suggestions)
        report.n_suggestions += tagged.suggestions.n_suggestions
        for reason, n in reasons(tagged.suggestions).items():
            report.reasons[reason] = report.reasons.get(reason, 0) + n

    def _work(self, chosen: SuggestionFormat, folder: Path) -> ShardWork:
        lenient, limit = self.corpus.keep_faults, self.max_seconds
        return ShardWork(self.tagger, self.options, chosen, folder, lenient, limit)

    def _shards(self) -> Iterator[Shard]:
        """What is timed stands alone, so that the vectors of the others do not depend on how long it took."""
        return shards(self.corpus, self.shard_size, untimed(self.max_seconds))

    def _write(self, chosen: SuggestionFormat) -> TagReport:
        run = Run(Path(self.out))
        output = (PartFolder if self.parts else OneFile)(run, chosen, self.tagger.labels)
        _refuse_among_documents(output, self.corpus)
        output.manifest()  # refuses what no run wrote before all documents are read
        before = times(self.corpus.given)
        manifest = self._manifest()
        report = _finished(output, manifest)
        # A folder beside a finished output is what a job left that was killed at its very end.
        if report is None or run.folder.exists():
            with _locked(run):
                report = _finished(output, manifest) or self._complete(output, manifest, before)
            run.remove()
        report.quarantine = str(run.quarantine)
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
            "tag.max_characters": self.corpus.max_characters,
            "tag.max_seconds": self.max_seconds,
            "tag.parts": self.parts,
            **asdict(self.corpus.options),
            **self.tagger.run_settings,
        }
        return RunManifest.of(settings, read_inputs(self.corpus.given))

    def _complete(self, output: Output, manifest: RunManifest, before: list[FileTime]) -> TagReport:
        """Tag what is left and finish; ``before``: the documents' files when their checksums were taken."""
        run = output.run
        n_damaged = _begin(run, manifest)
        output.begin()
        n_reused = sum(record.n_docs for record in run.finished.values())
        n_shards = self._tag_rest(output, NOT_AGAIN if manifest.has_pipe else KEPT)
        if n_shards != len(run.finished) or times(self.corpus.given) != before:
            raise _changed(run)
        counts = total(run.finished.values())
        output.finish(manifest, counts)
        return TagReport(str(run.out), **counts, n_reused=n_reused, n_repaired=n_damaged)

    def _tag_rest(self, output: Output, way_out: str) -> int:
        """Tag every shard that is not finished; returns the number of shards in the corpus.

        Raises: ShardsFailedError with ``way_out`` when all the others are finished.
        """
        run, n_shards = output.run, 0

        def rest() -> Iterator[Shard]:
            nonlocal n_shards
            finished = dict(run.finished)
            for shard in self._shards():
                n_shards += 1
                record = finished.get(shard.index)
                if record is None:
                    yield shard
                elif record.documents == ids_digest(shard.batch.ids):
                    self._advance(record.n_docs)
                else:
                    raise _changed(run)

        failures: list[ShardFailure] = []
        results = self.runner.run(rest(), self._work(output.format, run.folder))
        with run.open_journal() as journal, closing(results):
            for result in results:
                if isinstance(result, ShardFailure):
                    failures.append(result)
                else:
                    run.add(result, journal)
                    output.take(result.index)
                self._advance(result.n_docs)
        if failures:
            raise ShardsFailedError(run.out, n_shards, failures, way_out)
        return n_shards


def _refuse_among_documents(output: Output, corpus: DocumentSource) -> None:
    """Raise InputError for an output that would be read as documents the next time."""
    folders = [each.path for each in corpus.given if each.path.is_dir()]
    for path in output.files():
        above = path.resolve().parents
        inside = next((folder for folder in folders if folder.resolve() in above), None)
        if inside is not None:
            raise InputError(f"{path}: lies in the folder of documents {inside}; write it elsewhere")
        pattern = next((p for p in corpus.arguments if is_pattern(p) and would_match(p, path)), None)
        if pattern is not None:
            raise InputError(f"{path}: would be among the documents of {pattern}; write it elsewhere")


def _finished(output: Output, manifest: RunManifest) -> TagReport | None:
    """The report on an output that this very job finished before; None where there is no output.

    Raises: InputError for an output of another run, or one that was changed since.
    """
    run, before = output.run, output.manifest()
    if before is None or (digest := output.digest()) is None:
        return None
    if manifest.has_pipe:
        raise InputError(f"{run.out}: exists, and documents from a pipe cannot be compared; {OTHER_OUT}")
    if changes := manifest.changes(before):
        raise InputError(f"{run.out}: exists, made otherwise: {'; '.join(changes)}; {OTHER_OUT}")
    if digest != before.more.get("output", {}).get("sha256"):
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
