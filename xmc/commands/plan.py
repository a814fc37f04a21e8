"""``xmc plan``: what memory, disk and time a job will need, before it runs."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from xmc.commands.arguments import CommandParser
from xmc.commands.index import add_inputs
from xmc.errors import SettingError
from xmc.notices import notify
from xmc.settings import TrainingSettings

USAGE = "--labels F [--docs F...] [--dev F...] [--filter F] [-o MODEL] [--json]"
NO_CROSS = (
    "rerank.cross is not in this plan: fitting it takes longer than all else on a CPU, and tagging several "
    "times as long as without it"
)


def add_arguments(parser: CommandParser) -> None:
    """Declare the files that the job would read and write."""
    add_inputs(parser)
    parser.file(
        "-o", "--out", metavar="MODEL", default=None, help="where the model would be: its disk counts"
    )
    parser.add_argument("--json", action="store_true", help="prints JSON instead of a table")


def run(args: argparse.Namespace, settings: TrainingSettings) -> None:
    """Plan the jobs, print, and warn where the machine is too small."""
    if args.labels is None and not args.docs:
        raise SettingError("--labels F is missing; see `xmc plan --help`")
    from xmc.artifacts.space import available_memory, free_space
    from xmc.data.options import ReadReport
    from xmc.plan import report
    from xmc.plan.run import plan_jobs
    from xmc.stages import Cost

    memory, disk = available_memory(), free_space(Path(args.out or "."))
    seen = ReadReport()
    spent = time.process_time()  # on imports, mostly; they take as long as they compute
    began = Cost(spent, spent)
    plan = plan_jobs(args.labels, args.docs, args.filter, settings, seen, args.dev, began)
    if args.json:
        print(json.dumps(report.record(plan, memory, disk), indent=1))
    else:
        print("\n".join(report.lines(plan)))
    left_out = [] if settings.rerank.cross == "none" else [NO_CROSS]
    notify([*seen.lines(), *left_out, *report.warnings(plan, memory, disk)])
