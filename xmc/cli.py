"""The ``xmc`` command: finds the command asked for, calls it, and turns every error into one line.

Exit codes: 0 done, 2 the user's data or settings, 3 resources (disk, memory, device), 1 a bug,
130 interrupted, 141 the reader of standard output went away, 143 terminated. ``XMC_DEBUG=1`` adds the
traceback of an error.
"""

from __future__ import annotations

import difflib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType

from xmc import __version__
from xmc.errors import DEBUG, SettingError, XmcError, explained, one_line
from xmc.tag.pipeline import NAME as WORKER

COMMANDS = {
    "inspect": "what a data set or an artifact holds, and what is odd in it",
    "index": "a usable model from labels and, if there are any, tagged documents, without training",
    "train": "the best model for labels and tagged documents; resumes where it stopped",
    "plan": "the memory, disk and time that index or train will need, and tagging, before they run",
    "tag": "the labels that suit each document, in shards; resumes where it stopped",
    "eval": "how well suggestions agree with gold labels",
    "labels": "labels into a model, with new texts, out of use and back, without building it anew",
    "learn": "tagged documents into what a model remembers, or out of it; they count at once",
    "bench": "a row of a benchmark table: build, tag and evaluate, with what each stage costs",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = _main(arguments)
    except SystemExit as stop:
        _leave(int(stop.code or 0))
        raise
    _leave(code)
    return code


def _leave(code: int) -> None:
    """End here and now if a thread is still at work, such as one that waits for standard input."""
    if any(thread.name == WORKER for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)


def _main(arguments: Sequence[str] | None) -> int:
    # SIGTERM unwinds the stack as Ctrl-C does, so that half-written files are removed on the way.
    signal.signal(signal.SIGTERM, _terminate)
    # Before torch is imported: threads that wait for each other in a loop take the processor from those
    # that compute, and on a busy machine most of the time goes there.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
        if sys.stdout is not None:  # closed by the caller, as in `xmc ... >&-`
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        _settle_output()
        return 141
    except KeyboardInterrupt:
        return _report("interrupted", 130)
    except Exception as error:
        if os.environ.get(DEBUG, "0") not in ("", "0"):
            traceback.print_exc()
        _settle_output()
        return _report(*explained(error))


def _settle_output() -> None:
    """Write out what standard output still holds, or lose it: the interpreter would try again at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except ValueError:  # closed
        return
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminate(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _run(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments else ""
    if name in ("-h", "--help"):
        print(overview())
    elif name == "--version":
        print(f"xmc {__version__}")
    elif name in COMMANDS:
        _run_command(name, arguments[1:])
    else:
        raise SettingError(_unknown_command(name))
    return 0


def _run_command(name: str, arguments: Sequence[str]) -> None:
    from xmc.commands.arguments import CommandParser
    from xmc.config import settings_of

    command: ModuleType = import_module(f"xmc.commands.{name}")
    parser = CommandParser(name, COMMANDS[name], command.USAGE)
    command.add_arguments(parser)
    if {"-h", "--help"} & set(arguments):
        print(parser.format_help())
        return
    args = parser.read(arguments, paths=getattr(command, "TAKES_PATHS", False))
    command.run(args, settings_of(name, args.assignments))


def overview() -> str:
    """What ``xmc --help`` prints."""
    commands = "\n".join(f"  {name:9}{summary}" for name, summary in COMMANDS.items())
    return f"""usage: xmc COMMAND ...

Gives each document the few right labels out of thousands to millions.

commands:
{commands}

`xmc COMMAND --help` lists a command's options and settings; `xmc --version` tells the version."""


def _unknown_command(name: str) -> str:
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    offer = f"did you mean {near[0]}?" if near else f"wanted one of {', '.join(COMMANDS)}"
    return f"unknown command {name!r}: {offer}" if name else f"no command given: {offer}"


def _report(message: str, code: int) -> int:
    print(f"xmc: error: {one_line(message)}", file=sys.stderr)
    return code


def run_script(script: Callable[[], None]) -> None:
    """Run what stands beside the package (benchmarks, scripts); the user's errors end it as a command."""
    try:
        script()
    except XmcError as error:
        sys.exit(_report(*explained(error)))


if __name__ == "__main__":
    sys.exit(main())
