"""``xmc inspect``: what a data set or an artifact holds."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from xmc.commands.arguments import CommandParser
from xmc.errors import ArtifactError, SettingError
from xmc.settings import InspectSettings

USAGE = "PATH... [--verify] [--json]"
TAKES_PATHS = True


def add_arguments(parser: CommandParser) -> None:
    """Declare what the command takes besides paths."""
    parser.epilog = (
        "PATH: files or folders of labels or documents, or artifacts. A file named like a=b: ./a=b."
    )
    parser.add_argument("--verify", action="store_true", help="reads and checks the content of artifacts")
    parser.add_argument("--json", action="store_true", help="prints a JSON object for each path, one a line")


def run(args: argparse.Namespace, settings: InspectSettings) -> None:
    """Describe each path; damaged artifacts are described first and make the command fail in the end."""
    from xmc.artifacts import is_artifact

    if not args.paths:
        raise SettingError("no path given; see `xmc inspect --help`")
    damaged: list[str] = []
    for path in args.paths:
        if path != "-" and is_artifact(Path(path)):
            damaged += [path] if _artifact(Path(path), args.verify, args.json) else []
        else:
            _data(path, settings, args.json)
    if damaged:
        raise ArtifactError(f"damaged: {', '.join(damaged)}")


def _artifact(path: Path, verify: bool, as_json: bool) -> bool:
    """Print what an artifact holds; returns whether it is damaged."""
    from xmc.artifacts import describe, find_faults
    from xmc.artifacts.reader import read_manifest

    if not as_json:
        lines = describe(path, verify)
        print("\n".join(lines))
        return any(line.strip().startswith("FAULT:") for line in lines)
    faults = find_faults(path, verify)
    found: dict[str, Any] = {"path": str(path), "faults": faults}
    print(json.dumps(found if faults else {**found, "manifest": read_manifest(path)}))
    return bool(faults)


def _data(path: str, settings: InspectSettings, as_json: bool) -> None:
    raise NotImplementedError
