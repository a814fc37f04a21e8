"""The errors a user can meet, each with its exit code.

A message is one line: where (file and line, or id), what was found, what was wanted, the way out.
"""

from __future__ import annotations


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
