"""A limit of time for what this thread does: looked at between steps, since a step cannot be interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from xmc.errors import InputError


class _Deadline(NamedTuple):
    """``end``: on the monotonic clock; ``seconds``: from beginning to end."""

    end: float
    seconds: float


_deadline: ContextVar[_Deadline | None] = ContextVar("deadline", default=None)


class TooSlowError(InputError):
    """What was asked for takes longer than it may."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """What is done inside may take so many seconds of wall time, as `check_time` finds; None: any."""
    limit = None if seconds is None else _Deadline(time.monotonic() + seconds, seconds)
    token = _deadline.set(limit)
    try:
        yield
    finally:
        _deadline.reset(token)


def check_time() -> None:
    """Called between steps of work that may take long. Raises: TooSlowError when its limit is over."""
    deadline = _deadline.get()
    if deadline is not None and time.monotonic() > deadline.end:
        way_out = f"raise tag.max_seconds={deadline.seconds:g}, or tag a part of it"
        raise TooSlowError(f"its vectors took more than {deadline.seconds:g} s; {way_out}")
