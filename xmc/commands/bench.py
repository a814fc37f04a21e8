"""``xmc bench``: a data set and a system in, one line of JSON out."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from xmc.commands.arguments import CommandParser
from xmc.errors import SettingError
from xmc.notices import notify
from xmc.settings import BenchmarkSettings

USAGE = "NAME|FOLDER -o DIR [--data DIR] [--results F] [--report]"
TAKES_PATHS = True
DATA = "data"


def add_arguments(parser: CommandParser) -> None:
    """Declare the folders that the command reads and writes."""
    parser.epilog = (
        "NAME: a known data set, in the folder NAME of --data. FOLDER: any with train, dev or test, labels. "
        "Settings are those of building and `bench.*`. Run again, it goes on where it stopped."
    )
    parser.file("-o", "--out", required=True, metavar="DIR", help="holds the model, suggestions and costs")
    parser.file("--data", metavar="DIR", help=f"the folder of data sets (default: {DATA})")
    parser.file("--results", metavar="F", help="the line is added to it (default: results.jsonl in -o)")
    parser.add_argument("--report", action="store_true", help="writes a page to look at into DIR/report")


def run(args: argparse.Namespace, settings: BenchmarkSettings) -> None:
    """Measure, add the line to the results and print it."""
    from xmc.bench.run import append, measure, own_system
    from xmc.bench.task import task_of

    if len(args.paths) != 1:
        raise SettingError(f"{len(args.paths)} data sets given, wanted one; see `xmc bench --help`")
    given, chosen, folder = args.assignments, settings.bench, Path(args.out)
    report = folder / "report" if args.report else None
    task = task_of(args.paths[0], Path(args.data or DATA), chosen.split, given, settings.run.seed, report)
    system = own_system(task, folder, given, chosen.system, chosen.top_k)
    line = measure(task, system, folder, lambda stage: notify([stage]))
    append(line, folder / "results.jsonl" if args.results is None else Path(args.results))
    print(json.dumps(line, ensure_ascii=False, allow_nan=False))
