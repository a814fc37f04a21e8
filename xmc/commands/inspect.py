"""``xmc inspect``: what data sets and artifacts hold, and what is odd in them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xmc.commands.arguments import CommandParser
from xmc.errors import ArtifactError, SettingError
from xmc.settings import InspectSettings

if TYPE_CHECKING:
    from xmc.reliability import HeldOutReliability

USAGE = "PATH... [--verify] [--json]"
TAKES_PATHS = True


def add_arguments(parser: CommandParser) -> None:
    """Declare what the command takes besides paths."""
    parser.epilog = (
        "PATH: labels or documents (a file, folder or pattern), or an artifact. A folder counts as one file "
        "of documents, but for the labels in it. A file that is named like a setting is written ./NAME=VALUE."
    )
    parser.add_argument("--verify", action="store_true", help="reads and checks the content of artifacts")
    parser.add_argument("--json", action="store_true", help="prints one JSON object instead of text")


def run(args: argparse.Namespace, settings: InspectSettings) -> None:
    """Describe every path; a damaged artifact is described too and makes the command fail in the end."""
    from xmc.artifacts import find_faults, is_artifact

    if not args.paths:
        raise SettingError("no path given; see `xmc inspect --help`")
    artifacts = [Path(p) for p in args.paths if p != "-" and is_artifact(Path(p))]
    faults = {path: find_faults(path, args.verify) for path in artifacts}
    data = [p for p in args.paths if Path(p) not in faults]
    if args.json:
        print(json.dumps(_as_json(faults, data, settings), indent=1))
    else:
        _print(faults, data, settings, args.verify)
    damaged = [str(path) for path in artifacts if faults[path]]
    if damaged:
        raise ArtifactError(f"damaged: {', '.join(damaged)}")


def _print(
    faults: dict[Path, list[str]], data: Sequence[str], settings: InspectSettings, verify: bool
) -> None:
    from xmc.artifacts import describe

    for path, found in faults.items():
        print("\n".join(describe(path, verify)))
        reliability = None if found else _reliability(path)
        if reliability is not None:
            print("\n".join(reliability.lines()))
    if data:
        from xmc.data.inspect import inspect

        print("\n".join(inspect(data, settings.read).lines()))


def _reliability(path: Path) -> HeldOutReliability | None:
    """How well a model's probabilities hold; None of what is no model, or has no calibration."""
    from xmc.artifacts.reader import read_manifest

    if read_manifest(path)["kind"] != "model":
        return None
    from xmc.reliability import held_out_reliability

    return held_out_reliability(path)


def _as_json(faults: dict[Path, list[str]], data: Sequence[str], settings: InspectSettings) -> dict[str, Any]:
    from xmc.artifacts.reader import read_manifest
    from xmc.data.inspect import inspect

    artifacts = []
    for path, found in faults.items():
        reliability = None if found else _reliability(path)
        artifacts.append(
            {
                "path": str(path),
                "faults": found,
                "manifest": None if found else read_manifest(path),
                "calibration": None if reliability is None else reliability.record(),
            }
        )
    return {"artifacts": artifacts, **(inspect(data, settings.read).to_json() if data else {})}
