"""Stages of long work, measured where somebody listens: seconds, and the memory that was held at most."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Cost:
    """``cpu``: user and system seconds of all threads; ``wall``: seconds.

    Of memory, bytes: ``before`` it began, and ``peak``, the most that was held while it went on.
    """

    cpu: float = 0.0
    wall: float = 0.0
    before: int = 0
    peak: int = 0

    def __add__(self, other: Cost) -> Cost:
        """One after the other."""
        return replace(self, cpu=self.cpu + other.cpu, wall=self.wall + other.wall)._beside(other)

    def __sub__(self, other: Cost) -> Cost:
        """Without the seconds of a part, never below zero."""
        return replace(self, cpu=max(0.0, self.cpu - other.cpu), wall=max(0.0, self.wall - other.wall))

    def times(self, factor: float) -> Cost:
        """The seconds of ``factor`` as many."""
        return replace(self, cpu=self.cpu * factor, wall=self.wall * factor)

    def _beside(self, other: Cost) -> Cost:
        return replace(self, before=self.before or other.before, peak=max(self.peak, other.peak))


_listener: ContextVar[dict[str, Cost] | None] = ContextVar("stages", default=None)


@contextmanager
def listening() -> Iterator[dict[str, Cost]]:
    """Gives the cost of each stage that ends inside, by name; those of one name are added up."""
    costs: dict[str, Cost] = {}
    token = _listener.set(costs)
    try:
        yield costs
    finally:
        _listener.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """A stage of that name; costs nothing where nobody listens. Stages do not hold stages."""
    costs = _listener.get()
    if costs is None:
        yield
        return
    with measured() as found:
        yield
    costs[name] = costs.get(name, Cost()) + found[0]


@contextmanager
def measured() -> Iterator[list[Cost]]:
    """Gives a list that holds the cost of what is done inside, once it has ended."""
    found: list[Cost] = []
    before = _counted_anew()
    cpu, wall = _cpu_seconds(), time.perf_counter()
    yield found
    cpu, wall = _cpu_seconds() - cpu, time.perf_counter() - wall
    found.append(Cost(cpu, wall, before, _status("VmHWM")))


def _cpu_seconds() -> float:
    """Of this process, and of those that it started and that have ended."""
    of_others = os.times()
    return time.process_time() + of_others.children_user + of_others.children_system


def resident() -> int:
    """Bytes of memory that this process holds now; 0 where the system does not tell."""
    return _status("VmRSS")


def _counted_anew() -> int:
    """Bytes held now; from here on the highest is that since now, where the system allows it."""
    # What was freed goes back to the system first: else work in it would seem to take no memory.
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        RESET.write_text("5")
    except OSError:
        return _status("VmHWM")
    return _status("VmRSS")


def _status(name: str) -> int:
    try:
        lines = STATUS.read_text("ascii", "replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
