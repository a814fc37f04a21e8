"""Mapped arrays that were read, and their memory."""

from __future__ import annotations

import numpy as np
import pytest

from xmc.artifacts import load_array, release, save_array
from xmc.stages import resident

MEGABYTE = 1 << 20


def test_what_was_read_leaves_memory_and_can_be_read_again(tmp_path):
    if not resident():
        pytest.skip("needs /proc/self/status")
    save_array(tmp_path / "a.npy", np.ones((64, MEGABYTE // 4), np.float32))
    mapped = load_array(tmp_path / "a.npy")
    view = mapped[1:, 3:]
    assert view.sum(dtype=np.float64) == 63 * (MEGABYTE // 4 - 3)
    before = resident()
    release(view)
    assert before - resident() > 50 * MEGABYTE
    assert (mapped == 1).all()


def test_what_is_not_mapped_stays():
    array = np.arange(5)
    release(array)
    release(np.broadcast_to(np.float32(0), (3, 2)))
    assert array.tolist() == [0, 1, 2, 3, 4]
