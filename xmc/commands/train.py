"""``xmc train``: labels and tagged documents into a trained model."""

from __future__ import annotations

import argparse

from xmc.commands.arguments import CommandParser
from xmc.commands.index import DEV
from xmc.errors import SettingError
from xmc.settings import TrainingSettings

USAGE = "--labels F --docs F... [--dev F...] [--from MODEL] [--filter F] -o MODEL"
FROM = (
    "a trained model to go on from, with the same encoder.* and train.dim: its words, transformer and what "
    "it learned of labels. The new model remembers the documents of --docs alone, so give the old ones again "
    "beside the new ones; without them the weights keep what they learned, but labels without a new document "
    "are known by name alone"
)


def add_arguments(parser: CommandParser) -> None:
    """Declare the files that the command reads and writes."""
    parser.file(
        "--labels", metavar="F", help="the label set; may be left out where the format of --docs defines it"
    )
    parser.files("--docs", help="tagged documents to learn from")
    parser.files("--dev", help=DEV)
    parser.file("--from", dest="start", metavar="MODEL", help=FROM)
    parser.file(
        "--filter", metavar="F", help="(document, label) pairs of --docs that are left out, as rows from 0"
    )
    parser.file("-o", "--out", required=True, metavar="MODEL", help="the model, a new directory")


def run(args: argparse.Namespace, settings: TrainingSettings) -> None:
    """Train the model, or, in another process than the first of several, help to."""
    if not args.docs:
        raise SettingError("--docs F is missing; without tagged documents use `xmc index`")
    from xmc.build import build_model
    from xmc.train import processes

    if processes.following():
        processes.follow(settings, args.start)
        return
    with processes.leading(settings):
        build_model(args.labels, args.docs, args.filter, args.out, settings, args.dev, args.start)
