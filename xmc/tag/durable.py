"""Writing that survives a crash, and what the disk refuses said in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from xmc.artifacts.space import FULL, error_code, free_space, size_text
from xmc.artifacts.staging import sync
from xmc.errors import ResourceError


@contextmanager
def disk_errors(path: Path, n_bytes: int = 0, advice: str = "write elsewhere") -> Iterator[None]:
    """Turn an OSError met while writing ``path`` (some ``n_bytes``) into a ResourceError."""
    try:
        yield
    except OSError as error:
        found = f"{path}: {error.strerror or error}"
        if error_code(error) in FULL:
            needs = f"needs ≈ {size_text(n_bytes)}, " if n_bytes else ""
            raise ResourceError(f"{found}: {needs}{size_text(free_space(path))} free; {advice}") from error
        raise ResourceError(f"{found}; write elsewhere") from error


def write_durably(path: Path, content: bytes) -> None:
    """``path`` holds ``content`` or what it held before, also after a crash; it is on the disk on return.

    Raises: OSError, after removing what was written.
    """
    with durably(path) as partial:
        partial.write_bytes(content)


@contextmanager
def durably(path: Path) -> Iterator[Path]:
    """Another name, what is written to which becomes ``path``, on the disk, once the block is left.

    Raises: OSError, after removing what was written.
    """
    partial = path.with_name(path.name + ".tmp")
    try:
        yield partial
        sync(partial)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    sync(path.parent)
