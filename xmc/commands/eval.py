"""``xmc eval``: suggestions against gold labels."""

from __future__ import annotations

import argparse
import json

from xmc.commands.arguments import CommandParser
from xmc.errors import SettingError
from xmc.settings import EvaluateSettings

USAGE = "--gold F --pred OUT [--train F] [--labels F] [--filter F] [--against OUT] [--report DIR] [--json]"


def add_arguments(parser: CommandParser) -> None:
    """Declare the files that the command reads and writes."""
    parser.file("--gold", required=True, metavar="F", help="documents with their gold labels")
    parser.file("--pred", required=True, metavar="OUT", help="what `xmc tag` wrote; - is standard input")
    parser.file("--train", metavar="F", help="training documents: give propensities and label bins")
    parser.file("--labels", metavar="F", help="the label set, where the format of --gold does not define it")
    parser.file("--filter", metavar="F", help="(document, label) pairs that are left out, as rows from 0")
    parser.file("--against", metavar="OUT", help="suggestions of another run, to compare with")
    parser.file(
        "--report", metavar="DIR", help="writes a page to look at, JSON, Markdown and a row a label there"
    )
    parser.add_argument("--json", action="store_true", help="prints JSON instead of tables")


def run(args: argparse.Namespace, settings: EvaluateSettings) -> None:
    """Measure, print, and write the report."""
    if args.pred == args.against == "-":
        raise SettingError("--pred and --against are both -; wanted at most one of them on standard input")
    from xmc.evaluate import report
    from xmc.evaluate.comparison import compared
    from xmc.evaluate.evaluation import EvalSettings
    from xmc.evaluate.page import EXCERPT, Findings, documents_shown
    from xmc.evaluate.run import Truth

    chosen = EvalSettings(
        ks=settings.eval.ks,
        threshold=settings.eval.threshold,
        propensity_a=settings.propensity.a,
        propensity_b=settings.propensity.b,
        resamples=settings.eval.resamples,
        confidence=settings.eval.confidence,
        seed=settings.seed,
    )
    truth = Truth.read(args.gold, args.train, args.labels, args.filter, settings.read)
    found = truth.measure(args.pred, chosen)
    against = None if args.against is None else compared(found, truth.measure(args.against, chosen))
    if args.report is not None:
        excerpts = truth.excerpts(documents_shown(found, against), EXCERPT)
        report.write(Findings(found, against, excerpts), args.report)
    if args.json:
        print(json.dumps(report.record(found, against), indent=1, allow_nan=False))
    else:
        print(report.text(found, against), end="")
