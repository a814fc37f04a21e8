from __future__ import annotations

import threading

import pytest

from xmc.deadline import TooSlowError, check_time, time_limit


def test_work_ends_at_its_deadline_and_what_follows_has_none() -> None:
    with time_limit(60):
        check_time()
    with pytest.raises(TooSlowError, match=r"more than 0 s; raise tag\.max_seconds"), time_limit(0):
        check_time()
    check_time()


def test_no_limit_within_a_limit_and_none_in_other_threads() -> None:
    raised: list[Exception] = []

    def other() -> None:
        try:
            check_time()
        except TooSlowError as error:
            raised.append(error)

    with time_limit(0):
        with time_limit(None):
            check_time()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        with pytest.raises(TooSlowError):
            check_time()
    assert not raised
