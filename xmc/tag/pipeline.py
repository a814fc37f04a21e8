"""Steps of work side by side: while one thing is used, the next one is made in a thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")
NAME = "ahead"  # of every thread here
LOOK = 0.2  # seconds between looks whether the other side has gone
GRACE = (
    3.0  # seconds to wait for the step that a thread is in, which may be reading a pipe that gives nothing
)


class _GoneError(Exception):
    """Whoever used the things has stopped."""


def ahead(things: Iterable[T], begin: Callable[[], object] | None = None) -> Generator[T, None, None]:
    """The same things in the same order, each made by a thread while the one before it is used.

    At most one that is ready waits. ``begin`` is called first, in the thread. What making them raises is
    raised here; when this iterator is closed the thread ends with the step that it is in, which is waited for
    no longer than ``GRACE``.
    """
    ready: Queue[tuple[bool, Any]] = Queue(maxsize=1)
    gone = Event()

    def give(item: tuple[bool, Any]) -> None:
        while not gone.is_set():
            try:
                return ready.put(item, timeout=LOOK)
            except Full:
                continue
        raise _GoneError

    def work() -> None:
        try:
            if begin is not None:
                begin()
            for thing in things:
                give((True, thing))
            give((False, None))
        except _GoneError:
            pass
        except BaseException as error:
            _last(give, error)
        finally:
            if isinstance(things, Generator):
                things.close()

    thread = Thread(target=work, name=NAME, daemon=True)
    thread.start()
    try:
        yield from _taken(ready)
    finally:
        gone.set()
        thread.join(GRACE)


def _last(give: Callable[[tuple[bool, Any]], None], error: BaseException) -> None:
    with suppress(_GoneError):
        give((False, error))


def _taken(ready: Queue[tuple[bool, Any]]) -> Iterator[Any]:
    while True:
        try:
            is_thing, found = ready.get(timeout=LOOK)
        except Empty:
            continue
        if is_thing:
            yield found
        elif found is None:
            return
        else:
            raise found


def side_by_side(
    things: Iterable[Any], steps: Iterable[Callable[[Any], Any]], begin: Callable[[], object] | None = None
) -> Generator[Any, None, None]:
    """Every thing through all steps in order; each step, and making the things, has a thread of its own."""
    made = ahead(things, begin)
    for step in steps:
        made = ahead(_stepped(step, made), begin)
    return made


def _stepped(step: Callable[[Any], Any], made: Generator[Any, None, None]) -> Generator[Any, None, None]:
    with closing(made):
        for thing in made:
            yield step(thing)
