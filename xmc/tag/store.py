"""Store: a place that machines without a common folder reach: anything that fsspec opens by a URL.

It only carries files from one machine to another. Nothing is asked of it but that a file which was put there
whole can be read whole, and whoever takes a part compares its checksum: stores for objects have no renaming
in one step, no appending and no syncing, so the journal, the parts that count and the lock stay in the run
folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from xmc.errors import ResourceError
from xmc.tag.durable import disk_errors, write_durably
from xmc.tag.run import ADVICE


@dataclass(frozen=True)
class Store:
    """The files under ``url``, such as ``s3://bucket/folder`` (with s3fs installed) or ``file:///mnt/shared``.

    Its methods raise ResourceError, naming the setting, where the store does not answer.
    """

    url: str

    def send(self, path: Path) -> None:
        """Put a file there, under its name."""
        with self._errors():
            system, root = self._opened
            system.makedirs(root, exist_ok=True)
            system.pipe_file(f"{root}/{path.name}", path.read_bytes())

    def fetch(self, path: Path) -> None:
        """Copy what is there under the name of ``path`` to it; it is on the disk on return."""
        with self._errors():
            system, root = self._opened
            content = system.cat_file(f"{root}/{path.name}")
        with disk_errors(path, len(content), ADVICE):
            write_durably(path, content)

    def remove(self) -> None:
        """Remove all that is there."""
        with self._errors():
            system, root = self._opened
            if system.exists(root):
                system.rm(root, recursive=True)

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        # Listings are not kept: other machines write there too.
        system, root = url_to_fs(self.url, use_listings_cache=False)
        return system, str(root).rstrip("/")

    def __getstate__(self) -> dict[str, str]:
        """Another process connects by itself."""
        return {"url": self.url}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever the library of a store raises
            told = str(error).strip().splitlines() or [""]
            raise ResourceError(f"tag.store={self.url}: {type(error).__name__}: {told[0]}") from error
