"""Disk and memory: asking before, and one sentence when they run out."""

from __future__ import annotations

import errno
import os
import re
import shutil
from pathlib import Path

from xmc.errors import InputError, ResourceError, XmcError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


def size_text(n_bytes: int) -> str:
    """``n_bytes`` for people, in powers of 1000: ``812 bytes``, ``5.2 MB``."""
    if n_bytes < 1000:
        return f"{n_bytes} byte" + ("" if n_bytes == 1 else "s")
    size, units = n_bytes / 1000, ["kB", "MB", "GB", "TB"]
    while size >= 999.95 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.1f} {units[0]}"


def free_space(path: Path) -> int:
    """Bytes that this user may still write where ``path`` is or will be."""
    path = Path(path).absolute()
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def need_space(path: Path, n_bytes: int) -> None:
    """Refuse before writing ``n_bytes`` where fewer are free.

    Raises:
        ResourceError: there is not enough free space.
    """
    try:
        free = free_space(path)
    except OSError:
        return  # a file system that does not tell: the write itself will
    if n_bytes > free:
        sizes = f"needs ≈ {size_text(n_bytes)}, {size_text(free)} free"
        raise ResourceError(f"{path}: {sizes}; free some space or write elsewhere")


def available_memory() -> int | None:
    """Bytes of memory that can be had without swapping; None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None


def need_memory(path: Path, n_bytes: int) -> None:
    """Refuse to load ``n_bytes`` from ``path`` into less memory.

    Raises:
        ResourceError: there is not enough memory.
    """
    free = available_memory()
    if free is not None and n_bytes > free:
        raise ResourceError(f"{path}: needs ≈ {size_text(n_bytes)} of memory, {size_text(free)} available")


def error_code(error: BaseException) -> int | None:
    """The errno behind ``error``, also where a library keeps only its text.

    NumPy's ``tofile``, safetensors and faiss report a full disk without an errno.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    for code in FULL:
        if os.strerror(code) in text:
            return code
    if isinstance(error, OSError) and re.fullmatch(r"\d+ requested and \d+ written", text):
        return errno.ENOSPC
    return None


def write_fault(target: Path, error: BaseException, written: int) -> ResourceError | None:
    """What the user reads when writing ``target`` failed after ``written`` bytes; None if no disk failed."""
    code = error_code(error)
    if code in FULL:
        free = f"{size_text(free_space(target))} free"
        return ResourceError(
            f"{target}: {os.strerror(code)}: needs more than {size_text(written)}, {free};"
            " free some space or write elsewhere; what was there before is unchanged"
        )
    if code in DENIED:
        return ResourceError(f"{target}: cannot be written ({os.strerror(code)}); write elsewhere")
    return None


def place_fault(target: Path, error: OSError) -> XmcError:
    """What the user reads when ``target`` cannot even be begun, or not be put in place."""
    if error.errno in (errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP):
        return InputError(f"{target}: cannot be a directory here ({error.strerror}); name another")
    return write_fault(target, error, 0) or ResourceError(f"{target}: cannot be written ({error.strerror})")
