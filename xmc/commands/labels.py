"""``xmc labels``: labels into a model, with new texts, out of use and back."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xmc.commands.arguments import CommandParser
from xmc.errors import SettingError
from xmc.notices import counted, notify, state
from xmc.settings import LabelSettings

if TYPE_CHECKING:
    from xmc.data.options import ReadReport
    from xmc.model import Model

ACTIONS = ("add", "replace", "retire", "restore", "compact")
USAGE = f"{'|'.join(ACTIONS)} --model MODEL [--labels F]"
TAKES_PATHS = True
DONE = {
    "add": "added",
    "replace": "replaced",
    "retire": "retired",
    "restore": "restored",
    "compact": "taken out of the files",
}
SKIPPED = {"replace": "no change", "retire": "retired already", "restore": "not retired"}


def add_arguments(parser: CommandParser) -> None:
    """Declare what the command takes besides the action."""
    parser.epilog = (
        "add: labels with new ids, suggested at once; replace: other names, descriptions and broader ids\n"
        "for ids that are there; retire: never suggested again; restore: suggested again; compact: the\n"
        "vectors of retired labels are taken out of the files, and what changed is merged into the index."
    )
    parser.file(
        "--model", required=True, type=Path, metavar="MODEL", help="what `xmc index` or `train` wrote"
    )
    parser.file(
        "--labels", type=Path, metavar="F", help="labels; for retire and restore also ids, one a line"
    )


def run(args: argparse.Namespace, settings: LabelSettings) -> None:
    """Change the model and say what was done."""
    action = _action(args)
    from xmc.data.options import ReadReport
    from xmc.edit.change import change_model

    report, said = ReadReport(), list[str]()
    change_model(args.model, partial(_changed, action, args.labels, settings, report, said), settings.run)
    notify([*report.lines(), "; ".join(said)])


def _action(args: argparse.Namespace) -> str:
    """The one action that was asked for, and that has the file it needs."""
    wanted = f"wanted one of {', '.join(ACTIONS)}; see `xmc labels --help`"
    if not args.paths:
        raise SettingError(f"no action given: {wanted}")
    action: str = args.paths[0]
    if action not in ACTIONS:
        raise SettingError(f"unknown action {action!r}: {wanted}")
    if len(args.paths) > 1:
        raise SettingError(f"unexpected argument {args.paths[1]!r}: wanted an option or NAME=VALUE")
    if (args.labels is None) != (action == "compact"):
        found = "takes no --labels" if args.labels else "needs --labels F"
        raise SettingError(f"xmc labels {action} {found}; see `xmc labels --help`")
    return action


def _changed(
    action: str, path: Path, settings: LabelSettings, report: ReadReport, said: list[str], model: Model
) -> Model:
    """The changed model; what was done is added to ``said``."""
    changed, n, n_given = _edited(action, path, settings, report, said, model)
    said.append(f"{counted(n, 'label')} {DONE[action]}")
    if n < n_given:
        said.append(f"{counted(n_given - n, 'label')} skipped ({SKIPPED[action]})")
    said.append(state(changed))
    return changed


def _edited(
    action: str, path: Path, settings: LabelSettings, report: ReadReport, said: list[str], model: Model
) -> tuple[Model, int, int]:
    """The changed model, how many labels changed, and how many were given."""
    from xmc.data.formats import read_labels
    from xmc.data.id_lists import label_rows
    from xmc.edit import labels as edit

    show = settings.run.progress
    if action == "compact":
        changed, n = edit.compact_labels(model)
        said.extend(filter(None, (changed.index.choice, changed.index.notice)))
        return changed, n, n
    if action in ("add", "replace"):
        new = read_labels(path, settings.read, report, model.labels)
        change = edit.add_labels if action == "add" else edit.replace_labels
        return *change(model, new, show), len(new)
    rows = label_rows(model.labels, path, settings.read, report)
    by_rows = edit.retire_labels if action == "retire" else edit.restore_labels
    return *by_rows(model, rows, show), len(set(rows.tolist()))
