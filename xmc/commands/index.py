"""``xmc index``: labels, and documents if there are any, into a model, without training."""

from __future__ import annotations

import argparse

from xmc.commands.arguments import CommandParser
from xmc.errors import SettingError
from xmc.settings import BuildSettings

DEV = "tagged documents to fit and judge by, instead of a share of --docs; the model does not hold them"
USAGE = "--labels F [--docs F...] [--dev F...] [--filter F] -o MODEL"


def add_arguments(parser: CommandParser) -> None:
    """Declare the files that the command reads and writes."""
    add_inputs(parser)
    parser.file("-o", "--out", required=True, metavar="MODEL", help="the model, a new directory")


def add_inputs(parser: CommandParser) -> None:
    """Declare the files that a model is made from."""
    parser.file(
        "--labels", metavar="F", help="the label set; may be left out where the format of --docs defines it"
    )
    parser.files("--docs", help="tagged documents: they make prototypes and neighbours")
    parser.files("--dev", help=DEV)
    parser.file(
        "--filter", metavar="F", help="(document, label) pairs of --docs that are left out, as rows from 0"
    )


def run(args: argparse.Namespace, settings: BuildSettings) -> None:
    """Build the model."""
    if args.labels is None and not args.docs:
        raise SettingError("--labels F is missing; see `xmc index --help`")
    from xmc.build import build_model

    build_model(args.labels, args.docs, args.filter, args.out, settings, args.dev)
