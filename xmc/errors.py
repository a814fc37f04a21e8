"""The errors a user can meet, each with its exit code.

A message is one line: where (file and line, or id), what was found, what was wanted, the way out.
"""

from __future__ import annotations

import errno
import os
import traceback

# Joiners are part of words and of emoji; other invisible characters are shown escaped.
JOINERS = "\u200c\u200d"
DEBUG = "XMC_DEBUG"
NO_MEMORY = "not enough memory; a smaller tag.shard_size or encoder.max_length needs less"
# What the operating system refuses for want of something, rather than because the program asked wrongly.
SCARCE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO),
}


class XmcError(Exception):
    """Base of every error that is shown to the user as one line, without a traceback."""

    exit_code = 1


class InputError(XmcError):
    """The user's data or settings are not what was asked for."""

    exit_code = 2


class SettingError(InputError):
    """A setting or argument has a name or value that is not understood."""


class ArtifactError(InputError):
    """An artifact is damaged, incomplete, of another schema, or does not fit its neighbours."""


class TrainingError(XmcError):
    """Training went out of all bounds; the last good checkpoint is kept."""

    exit_code = 2


class ResourceError(XmcError):
    """Disk, memory, a device or an optional package is missing."""

    exit_code = 3


def place(path: object, line: int | None = None) -> str:
    """``path:line``, the form in which every message names where a fault lies."""
    return f"{path}:{line}" if line else f"{path}"


def some(values: list[str], n: int = 5) -> str:
    """The first ``n`` values quoted, and how many more there are."""
    shown = ", ".join(repr(v) for v in values[:n])
    return shown + (f" and {len(values) - n} more" if len(values) > n else "")


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


def one_line(message: str) -> str:
    """``message`` with line breaks and control characters escaped: it may quote any file name or id."""
    return "".join(c if c.isprintable() or c in JOINERS else ascii(c)[1:-1] for c in message)
