from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from xmc.tag.pipeline import ahead, side_by_side


def n_threads() -> int:
    return sum(thread.name == "ahead" for thread in threading.enumerate())


def test_all_things_in_order() -> None:
    assert list(side_by_side(range(50), (lambda x: x + 1, str))) == [str(i) for i in range(1, 51)]
    assert list(side_by_side([], (str,))) == []
    assert n_threads() == 0


def test_steps_run_side_by_side() -> None:
    # Each step waits for the other to have begun on the neighbouring thing.
    meet = threading.Barrier(2, timeout=20)

    def first(x: int) -> int:
        if x:
            meet.wait()
        return x

    def second(x: int) -> int:
        if x < 5:
            meet.wait()
        return x

    assert list(side_by_side(range(6), (first, second))) == list(range(6))


def test_an_error_comes_in_its_turn() -> None:
    def step(x: int) -> int:
        if x == 2:
            raise ValueError("two")
        return x

    found = side_by_side(range(5), (step, str))
    assert [next(found), next(found)] == ["0", "1"]
    with pytest.raises(ValueError, match="two"):
        next(found)
    assert n_threads() == 0


def test_what_is_closed_early_leaves_no_thread() -> None:
    made: list[int] = []

    def endless() -> Iterator[int]:
        while True:
            made.append(len(made))
            yield made[-1]

    found = side_by_side(endless(), (str,))
    assert next(found) == "0"
    time.sleep(0.05)
    found.close()
    assert n_threads() == 0
    assert len(made) < 10


def test_each_thread_begins_once() -> None:
    begun: list[str] = []
    assert list(ahead([1], lambda: begun.append(threading.current_thread().name))) == [1]
    assert begun == ["ahead"]


def test_what_waits_for_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xmc.tag.pipeline.GRACE", 0.1)
    never = threading.Event()

    def stuck() -> Iterator[int]:
        yield 1
        never.wait()

    found = side_by_side(stuck(), (str,))
    assert next(found) == "1"
    found.close()
    never.set()
