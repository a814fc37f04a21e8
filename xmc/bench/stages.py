"""A stage of a benchmark: a process of its own, so that its CPU time and peak memory are its own too.

The cost of a finished stage is kept beside its result. A stage that was killed is run again, and takes up its
own work where it can; its cost is then that of the last attempt alone, and marked so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from xmc.errors import InputError, ResourceError, XmcError

KIBIBYTES = 1 if sys.platform != "darwin" else 1 / 1024  # Linux counts memory in KiB, macOS in bytes


@dataclass(frozen=True)
class Cost:
    """``cpu_s``: user and system seconds; ``wall_s`` seconds; ``peak_kib``: the largest resident memory,
    and never less than that of the process that started the stage, some 50 MB.

    ``resumed``: an earlier attempt was cut off, whose time is not in it.
    """

    command: list[str]
    cpu_s: float
    wall_s: float
    peak_kib: int
    resumed: bool


@dataclass(frozen=True)
class Stage:
    """A name and a command. What it prints is kept in ``NAME.log``, and standard output in ``output``."""

    name: str
    command: Sequence[str]
    output: Path | None = None


def run_stage(stage: Stage, folder: Path) -> Cost:
    """Run it, or take its cost from an earlier run of the same command in ``folder``."""
    kept, begun = folder / f"{stage.name}.cost.json", folder / f"{stage.name}.begun"
    if kept.is_file():
        cost = Cost(**json.loads(kept.read_text(encoding="utf-8")))
        if cost.command != list(stage.command):
            wanted = "another folder (-o), or the same settings"
            raise InputError(
                f"{kept}: was made by another command, {' '.join(cost.command)}; wanted {wanted}"
            )
        return cost
    resumed = begun.exists()
    begun.touch()
    cost = _measured(stage, folder, resumed)
    part = kept.with_suffix(".part")
    part.write_text(json.dumps(asdict(cost)), encoding="utf-8")
    os.replace(part, kept)
    begun.unlink()
    return cost


def _measured(stage: Stage, folder: Path, resumed: bool) -> Cost:
    log_path, start = folder / f"{stage.name}.log", time.monotonic()
    with log_path.open("ab") as log, (stage.output or log_path).open("ab") as output:
        if stage.output is not None:
            output.truncate(0)
        process = subprocess.Popen(stage.command, stdin=subprocess.DEVNULL, stdout=output, stderr=log)
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            process.wait()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise _failed(stage, process.returncode, log_path)
    wall = time.monotonic() - start
    peak = int(used.ru_maxrss * KIBIBYTES)
    return Cost(list(stage.command), used.ru_utime + used.ru_stime, wall, peak, resumed)


def _failed(stage: Stage, code: int, log: Path) -> XmcError:
    """An error of the kind that the stage ended with, quoting the last that it said."""
    kind = {2: InputError, 3: ResourceError}.get(code, XmcError)
    return kind(f"stage {stage.name} ended with code {code}: {_last_line(log)} (all of it: {log})")


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return said.removeprefix("xmc: error: ")
