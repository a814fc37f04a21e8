"""A stage of a benchmark: a process of its own, so that its CPU time and peak memory are its own too.

The cost of a finished stage is kept beside its result, with what it was made under. A stage that was killed
is run again, and takes up its own work where it can; its cost is then that of the last attempt alone, and
marked so.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xmc.artifacts.reader import file_checksum
from xmc.errors import InputError, ResourceError, XmcError

KIBIBYTES = 1 if sys.platform != "darwin" else 1 / 1024  # Linux counts memory in KiB, macOS in bytes
OTHER_FOLDER = "wanted another folder (-o), or all as it was"
GRACE_S = 30.0  # seconds that a stage gets to end in good order
LOAD = "load_1min"  # says how busy the machine was, not which machine it was


@dataclass(frozen=True)
class Conditions:
    """What a stage's result follows from besides its command.

    ``files``: number, bytes and latest change (ns) of the files below each path that is read. ``git``,
    ``versions``, ``hardware``: as ``xmc.bench.machine`` gives them.
    """

    files: Mapping[str, Sequence[int]]
    git: str | None
    versions: Mapping[str, str]
    hardware: Mapping[str, Any]

    def changes(self, before: Conditions) -> list[str]:
        """What is not as it was, in words; the load of the machine does not count."""
        names = sorted({*self.files, *before.files})
        found = [f"{name} changed" for name in names if self.files.get(name) != before.files.get(name)]
        for name, old, new in (
            ("commit", {"": before.git}, {"": self.git}),
            ("version of", before.versions, self.versions),
            ("hardware:", before.hardware, self.hardware),
        ):
            keys = sorted({*old, *new} - {LOAD})
            found += [
                f"{name} {k} was {old.get(k)}, is {new.get(k)}" for k in keys if old.get(k) != new.get(k)
            ]
        return found


def state_of(path: Path) -> list[int]:
    """Number, bytes and latest change (ns) of a file, or of all files below a folder."""
    found = [p.stat() for p in (path.rglob("*") if path.is_dir() else [path]) if p.is_file()]
    return [len(found), sum(s.st_size for s in found), max((s.st_mtime_ns for s in found), default=0)]


def digest_of(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files below a folder."""
    if path.is_file():
        return file_checksum(path)
    whole = hashlib.sha256()
    for each in sorted(p for p in path.rglob("*") if p.is_file()):
        whole.update(f"{each.relative_to(path).as_posix()}\0{file_checksum(each)}\n".encode())
    return whole.hexdigest()


@dataclass(frozen=True)
class Cost:
    """``cpu_s``: user and system seconds; ``wall_s`` seconds; ``peak_kib``: the largest resident memory,
    and never less than that of the process that started the stage, some 50 MB.

    ``resumed``: an earlier attempt was cut off, whose time is not in it. ``made``: under which conditions.
    """

    command: list[str]
    cpu_s: float
    wall_s: float
    peak_kib: int
    resumed: bool
    made: Conditions


@dataclass(frozen=True)
class Stage:
    """A name and a command. What it prints is kept in ``NAME.log``, and standard output in ``output``.

    ``result``: what it leaves behind, a file or folder, with files whose names begin with its name.
    ``quick``: run again, rather than refused, where anything is not as it was.
    """

    name: str
    command: Sequence[str]
    result: Path
    output: Path | None = None
    quick: bool = False


def run_stage(stage: Stage, folder: Path, made: Conditions, anew: bool = False) -> tuple[Cost, bool]:
    """Its cost, and whether it ran now: not where ``folder`` has its result from the same command under the
    same conditions.

    ``anew``: an earlier result counts for nothing, since what it was made from has been made again.

    Raises: InputError where an earlier result, or the beginning of one, is of another command or of other
    conditions, so that old and new would be mixed.
    """
    kept, begun = folder / f"{stage.name}.cost.json", folder / f"{stage.name}.begun"
    before = _kept_cost(kept)
    anew = anew or (before is not None and not stage.result.exists())
    if before is not None and not anew:
        changes = _changes(stage, before.command, made, before.made)
        if not changes:
            return before, False
        if not stage.quick:
            raise InputError(f"{kept}: {'; '.join(changes)}; {OTHER_FOLDER}")
    if anew:
        _forget(stage, kept, begun)
    resumed = begun.exists() and not stage.quick
    _begin(stage, begun, made, resumed)
    cost = _measured(stage, folder, resumed, made)
    _write(kept, asdict(cost))
    begun.unlink()
    return cost, True


def _changes(stage: Stage, command: Sequence[str], made: Conditions, before: Conditions) -> list[str]:
    other = f"was made by another command, {' '.join(command)}"
    return ([] if list(stage.command) == list(command) else [other]) + made.changes(before)


def _begin(stage: Stage, begun: Path, made: Conditions, resumed: bool) -> None:
    """Note what begins; InputError where what was begun and is gone on with was something else."""
    if resumed:
        found = _read(begun)
        with _understood(begun):
            changes = _changes(stage, found["command"], made, _made(found))
        if changes:
            raise InputError(f"{begun}: {'; '.join(changes)}; {OTHER_FOLDER}")
    _write(begun, {"command": list(stage.command), "made": asdict(made)})


def _forget(stage: Stage, *notes: Path) -> None:
    """Remove what the stage left, its own alone: this folder is the benchmark's."""
    for path in (*notes, *stage.result.parent.glob(f"{stage.result.name}*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _kept_cost(path: Path) -> Cost | None:
    if not path.is_file():
        return None
    found = _read(path)
    with _understood(path):
        cost = Cost(**found | {"made": _made(found)})
        if all(isinstance(x, int | float) for x in (cost.cpu_s, cost.wall_s, cost.peak_kib)):
            return cost
        raise TypeError


def _made(found: Mapping[str, Any]) -> Conditions:
    made = Conditions(**found["made"])
    if all(isinstance(each, dict) for each in (made.files, made.versions, made.hardware)):
        return made
    raise TypeError


@contextmanager
def _understood(path: Path) -> Iterator[None]:
    try:
        yield
    except (TypeError, KeyError, AttributeError):
        raise InputError(f"{path}: holds no cost of a stage; {OTHER_FOLDER}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: damaged ({error}); {OTHER_FOLDER}") from None
    with _understood(path):
        return dict(found.items())


def _write(path: Path, value: Any) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(value), encoding="utf-8")
    os.replace(part, path)


def _measured(stage: Stage, folder: Path, resumed: bool, made: Conditions) -> Cost:
    log_path, start = folder / f"{stage.name}.log", time.monotonic()
    with log_path.open("ab") as log, (stage.output or log_path).open("ab") as output, _signals_raise():
        if stage.output is not None:
            output.truncate(0)
        # A session of its own, so that what it started in turn ends with it.
        process = subprocess.Popen(
            stage.command, stdin=subprocess.DEVNULL, stdout=output, stderr=log, start_new_session=True
        )
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            _end(process)
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise _failed(stage, process.returncode, log_path)
    wall = time.monotonic() - start
    peak = int(used.ru_maxrss * KIBIBYTES)
    return Cost(list(stage.command), used.ru_utime + used.ru_stime, wall, peak, resumed, made)


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Signals that would end this process at once raise SystemExit; one that is handled already stays so."""
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _raise(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the stage and all that it started to end, and end what does not."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failed(stage: Stage, code: int, log: Path) -> XmcError:
    """An error of the kind that the stage ended with, quoting the last that it said."""
    kind = {2: InputError, 3: ResourceError}.get(code, XmcError)
    return kind(f"stage {stage.name} ended with code {code}: {_last_line(log)} (all of it: {log})")


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return said.removeprefix("xmc: error: ")
