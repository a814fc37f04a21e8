"""Folders: what lies in them, whichever of it is read as documents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from xmc.errors import InputError


class Folder:
    """The files and folders in a folder, in the order of their names; read once.

    Names that begin with a dot or an underscore are passed over, as are links to folders.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _entries(self) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.path) as found:
                seen = [entry for entry in found if not entry.name.startswith((".", "_"))]
        except OSError as error:
            raise InputError(f"{self.path}: {error.strerror}") from None
        return sorted(seen, key=lambda entry: entry.name)

    @cached_property
    def files(self) -> list[str]:
        """Names of the files."""
        return [entry.name for entry in self._entries if not entry.is_dir()]

    @cached_property
    def folders(self) -> dict[str, Folder]:
        """The folders by name."""
        found = (entry.name for entry in self._entries if entry.is_dir(follow_symlinks=False))
        return {name: Folder(self.path / name) for name in found}

    @property
    def names(self) -> list[str]:
        """Names of files and folders."""
        return sorted([*self.files, *self.folders])

    def walk(self) -> Iterator[Folder]:
        """This folder and all below."""
        yield self
        for folder in self.folders.values():
            yield from folder.walk()
