"""``xmc tag``: suggestions for documents of any number, in shards."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xmc.commands.arguments import CommandParser
from xmc.errors import InputError, one_line
from xmc.notices import notify
from xmc.progress import progress
from xmc.settings import TagSettings

if TYPE_CHECKING:
    from xmc.data.corpus import Corpus
    from xmc.data.options import ReadReport

USAGE = "--model MODEL --docs F... -o OUT [--only F] [--except F]"
FORMATS = (
    "suggestions: .jsonl, .csv, .tsv (Annif), each also .gz or .zst, .parquet or .npz (score matrix); "
    "- is JSON lines on standard output, without resuming"
)


def add_arguments(parser: CommandParser) -> None:
    """Declare the files that the command reads and writes."""
    parser.file("--model", required=True, metavar="MODEL", help="what `xmc index` wrote")
    parser.files(
        "--docs",
        required=True,
        help="documents: files, folders, patterns such as 'docs/*.jsonl'; - is standard input",
    )
    parser.file("-o", "--out", required=True, metavar="OUT", help=FORMATS)
    parser.file("--only", type=Path, metavar="F", help="labels, or ids one a line: no others are suggested")
    parser.file(
        "--except", dest="without", type=Path, metavar="F", help="labels, or ids one a line: never suggested"
    )


def run(args: argparse.Namespace, settings: TagSettings) -> None:
    """Tag the documents and say what was done."""
    from xmc.data.options import ReadReport
    from xmc.tag.job import TagJob
    from xmc.tag.runner import open_runner
    from xmc.tag.subset import allowed_labels
    from xmc.tag.tagger import Tagger
    from xmc.tag.writers import format_of

    def tell(line: str) -> None:
        notify([one_line(line)])

    format_of(args.out, settings.tag.evidence)  # refuses a suffix before the model is loaded
    report = ReadReport()
    corpus = _corpus(args.docs, settings, report)
    tagger = Tagger.load(args.model, settings.run.device, settings.run.dtype, settings.run.threads)
    allowed = allowed_labels(tagger.labels, args.only, args.without, settings.read, report)
    options = tagger.options(settings.top_k, settings.threshold, settings.tag.evidence, allowed)
    with progress(settings.run.progress, "tagging", "documents", lambda: _count(args.docs, settings)) as done:
        asked = settings.tag
        runner = open_runner(asked.runner, "" if asked.store == "none" else asked.store)
        how = asked.shard_size, asked.parts, asked.max_seconds, runner
        job = TagJob(tagger, corpus, args.out, options, *how, done, tell)
        finished = job.run()
    notify(report.lines() + options.lines() + finished.lines())
    if fault := finished.fault():
        raise InputError(fault)


def _corpus(paths: Sequence[str], settings: TagSettings, report: ReadReport | None = None) -> Corpus:
    from xmc.data.formats import open_corpus

    asked = settings.tag
    return open_corpus(
        paths, settings.read, report, asked.on_bad_document == "quarantine", asked.max_characters
    )


def _count(paths: Sequence[str], settings: TagSettings) -> int | None:
    """The number of documents, for the time left; unknown for standard input, which is read only once."""
    if "-" in paths:
        return None
    return sum(len(batch) for batch in _corpus(paths, settings).batches())
