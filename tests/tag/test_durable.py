from __future__ import annotations

import errno
from pathlib import Path

import pytest

from xmc.errors import ResourceError
from xmc.tag.durable import disk_errors, write_durably


def test_written_and_replaced(tmp_path: Path) -> None:
    for content in (b"one", b"", b"three"):
        write_durably(tmp_path / "file", content)
        assert (tmp_path / "file").read_bytes() == content
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_durably(tmp_path / "file", b"content")
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_told_with_need_and_room(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"out: No space left on device: needs ≈ 5\.0 MB, .* free; wait"):  # noqa: SIM117
        with disk_errors(tmp_path / "out", 5_000_000, "wait"):
            raise OSError(errno.ENOSPC, "No space left on device")


def test_a_place_without_write_right_is_told(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="out: Permission denied; write elsewhere"):  # noqa: SIM117
        with disk_errors(tmp_path / "out"):
            raise PermissionError(errno.EACCES, "Permission denied")
