"""The ``xmc`` command: finds the command asked for, calls it, and turns every error into one line.

Exit codes: 0 done, 2 the user's data or settings, 3 resources (disk, memory, device), 1 a bug,
130 interrupted, 141 the reader of standard output went away, 143 terminated. ``XMC_DEBUG=1`` adds the
traceback of an error.
"""

from __future__ import annotations

import difflib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType

from xmc import __version__
from xmc.errors import ResourceError, SettingError, XmcError

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
# Joiners are part of words and of emoji; other invisible characters are shown escaped.
JOINERS = "\u200c\u200d"
DEBUG = "XMC_DEBUG"
NO_MEMORY = "not enough memory; a smaller tag.shard_size or encoder.max_length needs less"
# What the operating system refuses for want of something, rather than because the program asked wrongly.
SCARCE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
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
        # The interpreter flushes standard output once more when it ends: give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        return _report("interrupted", 130)
    except Exception as error:
        if os.environ.get(DEBUG, "0") not in ("", "0"):
            traceback.print_exc()
        return _report(*explained(error))


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


def explained(error: Exception) -> tuple[str, int]:
    """One sentence for ``error`` and the exit code of its kind."""
    if isinstance(error, XmcError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and error.errno in SCARCE:
        return f"{error.filename or 'standard output or a file'}: {error.strerror}", ResourceError.exit_code
    if _out_of_memory(error):
        return NO_MEMORY, ResourceError.exit_code
    found = f"{type(error).__name__}: {error} ({_origin(error)})"
    return f"{found}; this is a bug in xmc: please report it with the traceback that {DEBUG}=1 shows", 1


def _out_of_memory(error: Exception) -> bool:
    """Also torch's own errors, which are no MemoryError (and torch may not be imported here)."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and "not enough memory" in str(error)


def _origin(error: Exception) -> str:
    """File and line in xmc where ``error`` came up, or the innermost place at all."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f"{os.sep}xmc{os.sep}" in f.filename] or frames
    return f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}" if own else "unknown place"


def _report(message: str, code: int) -> int:
    print(f"xmc: error: {one_line(message)}", file=sys.stderr)
    return code


def one_line(message: str) -> str:
    """``message`` with line breaks and control characters escaped: it may quote any file name or id."""
    return "".join(c if c.isprintable() or c in JOINERS else ascii(c)[1:-1] for c in message)


if __name__ == "__main__":
    sys.exit(main())
