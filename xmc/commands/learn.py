"""``xmc learn``: tagged documents into what a model remembers, or out of it."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xmc.commands.arguments import CommandParser
from xmc.errors import InputError
from xmc.notices import counted, notify, state
from xmc.settings import LearnSettings

if TYPE_CHECKING:
    from xmc.data.options import ReadReport
    from xmc.model import Model

USAGE = "[--remove] --model MODEL --docs F..."


def add_arguments(parser: CommandParser) -> None:
    """Declare what the command takes."""
    parser.file(
        "--model", required=True, type=Path, metavar="MODEL", help="what `xmc index` or `train` wrote"
    )
    parser.files("--docs", required=True, help="tagged documents; with --remove also ids, one a line")
    parser.add_argument(
        "--remove", action="store_true", help="takes the documents with these ids out of the model"
    )


def run(args: argparse.Namespace, settings: LearnSettings) -> None:
    """Change the model and say what was done."""
    from xmc.data.options import ReadReport
    from xmc.edit.change import change_model

    report, said = ReadReport(), list[str]()
    change = _forgotten if args.remove else _learned
    change_model(args.model, partial(change, args.docs, settings, report, said), settings.run)
    notify([*report.lines(), "; ".join(said)])


def _learned(
    paths: list[str], settings: LearnSettings, report: ReadReport, said: list[str], model: Model
) -> Model:
    """The model with the documents; what was done is added to ``said``."""
    from xmc.data.formats import open_corpus
    from xmc.edit.documents import learn
    from xmc.source import tagged_with

    source = tagged_with(model.labels, open_corpus(paths, settings.read, report), settings.read, report)
    changed, n = learn(model, source, settings.read, report, settings.run.progress)
    said.append(f"{counted(n, 'document')} learned")
    n_first = int(((changed.frequency > 0)[: len(model.labels)] & (model.frequency == 0)).sum())
    n_added = len(changed.labels) - len(model.labels)
    said.append(f"{counted(n_first + n_added, 'label')} with documents for the first time")
    said.append(state(changed))
    return changed


def _forgotten(
    paths: list[str], settings: LearnSettings, report: ReadReport, said: list[str], model: Model
) -> Model:
    """The model without the documents; what was done is added to ``said``."""
    from xmc.edit.documents import forget

    ids = [doc_id for path in paths for doc_id in _document_ids(Path(path), settings, report)]
    changed, n = forget(model, ids, settings.run.progress)
    said.append(f"{counted(n, 'document')} removed")
    n_without = int(((changed.frequency == 0) & (model.frequency > 0)).sum())
    said.append(f"{counted(n_without, 'label')} left without documents")
    said.append(state(changed))
    return changed


def _document_ids(path: Path, settings: LearnSettings, report: ReadReport) -> list[str]:
    """The ids in a file of documents or in a list of ids; documents that have none are refused."""
    from xmc.data.corpus import NUMBERED
    from xmc.data.formats import open_corpus
    from xmc.data.id_lists import is_id_list, listed_ids

    if is_id_list(path, settings.read):
        return listed_ids(path, settings.read)
    corpus = open_corpus([path], settings.read, report)
    ids = [doc_id for batch in corpus.batches() for doc_id in batch.ids]
    if not corpus.has_text or NUMBERED in report.counts:
        raise InputError(f"{path}: documents without ids; wanted their ids, or a list of ids, one a line")
    return ids
