"""The hidden directory beside an artifact, and how a finished one takes its place.

Beside ``model`` a writer keeps ``.model.xmc-work`` with

- ``owner``: the mark that xmc made this directory, for which artifact
- ``new``: what is being written
- ``old``: the artifact that is being replaced, whole
- ``dead``: what is being deleted

and ``.model.xmc-lock``, which stays. Replacing takes two renames, ``model`` to ``old`` and ``new`` to
``model``. Killed between them, a writer leaves a whole ``old`` and no ``model``; whoever opens or writes
``model`` next puts ``old`` back. ``old`` is renamed to ``dead`` before it is deleted, so it is never half
there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from xmc.artifacts.manifest import is_marked
from xmc.artifacts.space import place_fault
from xmc.errors import InputError, ResourceError

_MARK = "owner"
_WAIT_SECONDS = 5.0


class Staging:
    """The directory beside ``target`` in which its next version is written."""

    def __init__(self, path: Path) -> None:
        # A symbolic link to an artifact stays a link: what it points to is replaced.
        self.target = Path(os.path.realpath(path))
        name = self.target.name
        if not name:
            raise InputError(f"{path}: cannot be an artifact; name a directory below it")
        self.root = self.target.parent / f".{name}.xmc-work"
        self.lock_file = self.target.parent / f".{name}.xmc-lock"
        self.new, self.old, self.dead = (self.root / part for part in ("new", "old", "dead"))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the only right to write ``target``; the lock of a killed process is free.

        Raises:
            ResourceError: another writer has it, or the directory cannot be written.
        """
        lock = FileLock(self.lock_file, timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            if not self.lock_file.exists():  # the file system took no file; filelock says the same of both
                raise ResourceError(f"{self.target}: cannot be written here; write elsewhere") from None
            raise ResourceError(
                f"{self.target}: another xmc process is writing it; wait for it or write elsewhere"
            ) from None
        except NotImplementedError:
            raise ResourceError(
                f"{self.target}: this file system has no file locks; write elsewhere"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def claim(self) -> None:
        """Make an empty ``new``; needs the lock, and ``recover`` before it."""
        self.root.mkdir(exist_ok=True)
        mark = self.root / _MARK
        mark.write_bytes(self._mark())
        sync(mark)
        self.new.mkdir()

    def recover(self) -> None:
        """Finish or undo what a killed writer began, and remove its leftovers; needs the lock.

        Raises:
            InputError: the hidden directory is not xmc's, or something else lies where the artifact was.
        """
        if not os.path.lexists(self.root):
            return
        if not self._is_ours():
            raise InputError(f"{self.root}: xmc writes here, but this was not made by xmc; move it away")
        if os.path.lexists(self.old):
            if not _occupied(self.target):
                os.rename(self.old, self.target)
                sync(self.root, self.target.parent)
            elif not is_marked(self.target):
                raise InputError(
                    f"{self.target}: took the place of an artifact, now {self.old}; move it away"
                )
        self.clear()

    def publish(self) -> None:
        """Put ``new`` in the place of ``target``, whole or not at all; needs the lock."""
        sync_tree(self.new)
        try:
            if _occupied(self.target):
                os.rename(self.target, self.old)
                sync(self.root, self.target.parent)
            os.rename(self.new, self.target)
        finally:
            if os.path.lexists(self.old) and not os.path.lexists(self.target):
                os.rename(self.old, self.target)
        sync(self.root, self.target.parent)

    def clear(self) -> None:
        """Remove what is left in the hidden directory, and then itself; what cannot be removed stays.

        ``old`` is only given up where something has taken its place.
        """
        shutil.rmtree(self.dead, ignore_errors=True)
        shutil.rmtree(self.new, ignore_errors=True)
        with contextlib.suppress(OSError):
            if _occupied(self.target) and os.path.lexists(self.old):
                os.rename(self.old, self.dead)
                shutil.rmtree(self.dead, ignore_errors=True)
            if os.listdir(self.root) == [_MARK]:
                os.unlink(self.root / _MARK)
                os.rmdir(self.root)

    def _mark(self) -> bytes:
        return b"files that xmc is writing for " + os.fsencode(self.target.name) + b"\n"

    def _is_ours(self) -> bool:
        """Whether the hidden directory holds our mark, or nothing but the beginning of one."""
        if not stat.S_ISDIR(os.lstat(self.root).st_mode):
            return False
        names = os.listdir(self.root)
        if _MARK not in names:
            return not names
        mark = self.root / _MARK
        if not stat.S_ISREG(os.lstat(mark).st_mode) or mark.stat().st_size > len(self._mark()):
            return False
        raw = mark.read_bytes()
        return raw == self._mark() or (names == [_MARK] and self._mark().startswith(raw))


def settle(path: Path) -> None:
    """Before reading ``path``: put back the artifact of a writer killed between the two renames.

    Raises:
        ResourceError: that writer is still there, or the place cannot be written.
    """
    staging = Staging(path)
    give_up = time.monotonic() + _WAIT_SECONDS
    while not os.path.lexists(staging.target) and os.path.lexists(staging.old):
        try:
            with staging.locked():
                staging.recover()
        except OSError as error:
            raise place_fault(staging.target, error) from error
        except ResourceError:  # a living writer, between its two renames
            if time.monotonic() > give_up:
                raise
            time.sleep(0.02)


def sync(*paths: Path) -> None:
    """Force files or directories to the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            # Some file systems have no way to sync a directory.
            if not (error.errno == errno.EINVAL and path.is_dir()):
                raise
        finally:
            os.close(handle)


def sync_tree(root: Path) -> None:
    """Force a directory and all below it to the disk."""
    for directory, _, names in os.walk(root, topdown=False):
        sync(*(Path(directory, name) for name in names), Path(directory))


def _occupied(path: Path) -> bool:
    """Whether something lies at ``path`` that a rename would not replace without loss."""
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode) or bool(os.listdir(path))
    except FileNotFoundError:
        return False
