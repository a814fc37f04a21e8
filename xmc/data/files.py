"""The one place where bytes become text: compression, byte order marks, line ends, encodings, pipes.

gzip and zstd are told by their magic bytes, never by a suffix. "-" is standard input. A pipe (standard input
or a named one) is kept in a temporary file as it is read, so that it can be read again.
"""

from __future__ import annotations

import io
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, BinaryIO

from xmc.data.options import ReadOptions
from xmc.errors import InputError, place

BUFFER = 1 << 20
# A line longer than this is not text; without a limit a damaged or hostile file would fill the memory.
MAX_LINE = 1 << 30
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def is_stdin(path: Path | str) -> bool:
    """Whether a path is "-", which stands for standard input."""
    return str(path) == "-"


def check_readable(path: Path) -> None:
    """Raise `InputError` where a path (a file or folder) is missing."""
    if not is_stdin(path):
        _stat(path)


def open_bytes(path: Path) -> BinaryIO:
    """The decompressed bytes of a file, buffered. Damage found while reading is an `InputError` too."""
    plain = _buffered(_open_raw(path))
    magic = _peek(plain, path, 4)
    if magic.startswith(_GZIP):
        return _buffered(_Inflated(plain, path, "gzip", lambda: zlib.decompressobj(31)))
    if magic.startswith(_ZSTD):
        return _buffered(_Inflated(plain, path, "zstd", _zstd_decoder()))
    return plain


def open_seekable(path: Path) -> BinaryIO:
    """A file as it lies on disk, for formats that need to seek (Parquet, npz); a pipe is copied first."""
    if _is_pipe(path):
        return _spool_of(path).whole()
    return _buffered(_open_raw(path))


def raw_lines(path: Path, options: ReadOptions) -> Iterator[tuple[int, str]]:
    r"""Number (from 1) and text of every line, split at \n only, with its line end, without a BOM."""
    for number, line in lines_or_faults(path, options):
        if isinstance(line, InputError):
            raise line
        yield number, line


def lines_or_faults(path: Path, options: ReadOptions) -> Iterator[tuple[int, str | InputError]]:
    r"""As `raw_lines`, but a line that is not of the encoding is given as what is wrong with it."""
    with open_bytes(path) as stream:
        wide = len("\n".encode(options.encoding)) != 1
        lines = _wide_lines if wide else _byte_lines
        try:
            yield from lines(stream, path, options.encoding)
        except OSError as error:
            raise _refusal(path, error) from None


def text_lines(path: Path, options: ReadOptions) -> Iterator[tuple[int, str]]:
    r"""Number (from 1) and text of every line, without its \n or \r\n and without a BOM.

    Lines end at \n only: U+0085 and U+2028 are text. Bytes that are not of the encoding are an `InputError`.
    """
    for number, line in raw_lines(path, options):
        yield number, line.removesuffix("\n").removesuffix("\r")


def strip_end(line: str) -> str:
    r"""A line without the \n or \r\n at its end."""
    return line.removesuffix("\n").removesuffix("\r")


def read_text(path: Path, options: ReadOptions) -> str:
    r"""A whole file as text, line ends as \n, for formats of one record a file."""
    return "\n".join(line for _, line in text_lines(path, options))


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first ``size`` decompressed bytes, for telling formats apart; fewer where damage comes before."""
    found = b""
    with open_bytes(path) as stream:
        try:
            while len(found) < size and (more := stream.read1(size - len(found))):  # type: ignore[attr-defined]
                found += more
        except InputError:
            if not found:
                raise
    return found


def decode_head(data: bytes, path: Path, options: ReadOptions) -> str:
    """The beginning of a text file as text; what cannot be decoded is U+FFFD. UTF-16 is refused."""
    _refuse_utf16(data, path, options.encoding)
    return data.decode(options.encoding, errors="replace").removeprefix("\ufeff")


# --- opening


def _buffered(raw: io.RawIOBase) -> io.BufferedReader:
    return io.BufferedReader(raw, BUFFER)


def _stat(path: Path) -> Any:
    try:
        return path.stat()
    except (OSError, ValueError) as error:
        raise _refusal(path, error) from None


def _refusal(path: Path, error: OSError | ValueError) -> InputError:
    reasons: dict[type, str] = {
        FileNotFoundError: "no such file or folder",
        PermissionError: "no permission to read it",
        IsADirectoryError: "is a folder; a file was wanted",
    }
    reason = reasons.get(type(error)) or getattr(error, "strerror", None) or str(error)
    return InputError(f"{path}: {reason}")


def _is_pipe(path: Path) -> bool:
    return is_stdin(path) or not (stat.S_ISREG(mode := _stat(path).st_mode) or stat.S_ISDIR(mode))


def _open_raw(path: Path) -> io.RawIOBase:
    if _is_pipe(path):
        return _spool_of(path).reader()
    try:
        return io.FileIO(path)
    except OSError as error:
        raise _refusal(path, error) from None


def _peek(stream: io.BufferedReader, path: Path, n: int) -> bytes:
    try:
        return stream.peek(n)[:n]
    except OSError as error:
        raise _refusal(path, error) from None


# --- pipes


def _spool_of(path: Path) -> _Spool:
    if is_stdin(path):
        return _stdin_spool(sys.stdin.buffer)
    status = _stat(path)
    return _pipe_spool(path, status.st_dev, status.st_ino)


@lru_cache(maxsize=1)
def _stdin_spool(stream: BinaryIO) -> _Spool:
    return _Spool(stream)


@lru_cache(maxsize=16)
def _pipe_spool(path: Path, _device: int, _inode: int) -> _Spool:
    try:
        return _Spool(open(path, "rb"))  # the spool keeps it open for as long as the process may read it
    except OSError as error:
        raise _refusal(path, error) from None


class _Spool:
    """A pipe and the temporary file that keeps what was read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._kept = tempfile.TemporaryFile(prefix="xmc-")  # noqa: SIM115 (lives as long as this object)
        self._size = 0
        self._ended = False

    def read_at(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes from ``position`` on, out of the kept file or, past its end, from the pipe."""
        if position < self._size:
            self._kept.seek(position)
            return self._kept.read(min(size, self._size - position))
        return b"" if self._ended else self._more(size)

    def _more(self, size: int) -> bytes:
        read = getattr(self._stream, "read1", self._stream.read)
        data: bytes = read(size)
        self._ended = not data
        self._kept.seek(self._size)
        self._kept.write(data)
        self._size += len(data)
        return data

    def reader(self) -> io.RawIOBase:
        """A raw stream from the first byte on; several may read side by side."""
        return _SpoolReader(self)

    def whole(self) -> BinaryIO:
        """A seekable copy of everything the pipe gives."""
        copy = tempfile.TemporaryFile(prefix="xmc-")  # noqa: SIM115 (the caller closes it)
        reader = self.reader()
        while data := reader.read(BUFFER):
            copy.write(data)
        copy.seek(0)
        return copy


class _SpoolReader(io.RawIOBase):
    def __init__(self, spool: _Spool) -> None:
        self._spool = spool
        self._position = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._spool.read_at(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


# --- decompression


def _zstd_decoder() -> Callable[[], Any]:
    import zstandard

    # Windows up to 2 GiB, as `zstd --long=31` writes them.
    return lambda: zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()


class _Inflated(io.RawIOBase):
    """The content of a gzip or zstd file of one or more members; a file that ends too early is refused."""

    def __init__(self, source: io.BufferedReader, path: Path, kind: str, decoder: Callable[[], Any]) -> None:
        self._source, self._path, self._kind, self._new_decoder = source, path, kind, decoder
        self._decoder: Any = None
        self._input = b""
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._output:
            if not self._fill():
                return 0
        n = min(len(buffer), len(self._output))
        buffer[:n] = self._output[:n]
        self._output = self._output[n:]
        return n

    def close(self) -> None:
        self._source.close()
        super().close()

    def _fill(self) -> bool:
        """Decompress some more; False at the end of the file."""
        # Small pieces bound the output of one step: zstd can blow up each byte by several thousand.
        data = self._input or self._source.read(1 << 14)
        self._input = b""
        if self._decoder is None:
            data = data or self._source.read(1 << 14)
            if not data.strip(b"\0"):  # padding after the last member, as tape archives have it
                return bool(data)
            self._decoder = self._new_decoder()
        elif not data:
            raise self._damaged("the file ends too early")
        self._inflate(data)
        return True

    def _inflate(self, data: bytes) -> None:
        try:
            self._output = memoryview(self._decoder.decompress(data))
        except Exception as error:  # zlib.error or zstandard.ZstdError, which is only imported when needed
            raise self._damaged(str(error)) from None
        if self._decoder.eof:
            self._input = self._decoder.unused_data
            self._decoder = None

    def _damaged(self, reason: str) -> InputError:
        return InputError(f"{self._path}: damaged {self._kind} file: {reason}; copy or download it again")


# --- decoding


def _byte_lines(stream: BinaryIO, path: Path, encoding: str) -> Iterator[tuple[int, str | InputError]]:
    r"""Lines of an encoding in which the byte 0A is \n and nothing else (UTF-8 and the 8-bit ones)."""
    first = stream.peek(4096)[:4096]  # type: ignore[attr-defined]
    _refuse_utf16(first, path, encoding)
    codec = "utf-8" if encoding.lower().replace("_", "-") == "utf-8-sig" else encoding
    for number, data in enumerate(iter(partial(stream.readline, MAX_LINE), b""), 1):
        if len(data) == MAX_LINE:
            raise InputError(
                f"{place(path, number)}: a line of more than {MAX_LINE} bytes; lines of text were wanted"
            )
        try:
            line = data.decode(codec)
        except UnicodeDecodeError as error:
            yield number, _bad_bytes(path, number, data, codec, error)
            continue
        yield number, line.removeprefix("\ufeff") if number == 1 else line


def _wide_lines(stream: BinaryIO, path: Path, encoding: str) -> Iterator[tuple[int, str]]:
    """Lines of UTF-16, UTF-32 and other encodings in which a line end is more than one byte."""
    number = 0
    try:
        for number, line in enumerate(io.TextIOWrapper(stream, encoding, newline="\n"), 1):
            yield number, line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeError as error:
        where = place(path, number + 1)
        raise InputError(
            f"{where}: not {encoding} in or after this line: {error}; pass the right `encoding=`"
        ) from None


def _bad_bytes(path: Path, number: int, data: bytes, codec: str, error: UnicodeDecodeError) -> InputError:
    found = f"invalid {codec.upper()} byte {data[error.start]:02X} at byte {error.start + 1} of the line"
    other = (
        "latin-1" if codec.lower().replace("_", "-") in ("utf-8", "utf8", "ascii", "us-ascii") else "utf-8"
    )
    return InputError(f"{place(path, number)}: {found}; pass `encoding={other}` if the file is that")


def _refuse_utf16(first: bytes, path: Path, encoding: str) -> None:
    if len("\n".encode(encoding)) != 1:
        return
    found = _looks_like_utf16(first)
    if found:
        name, at, what = found
        raise InputError(
            f"{path}: byte {at + 1}: {what}: this looks like {name.upper()}; pass `encoding={name}`"
        )


def _looks_like_utf16(first: bytes) -> tuple[str, int, str] | None:
    """(encoding, position, what was seen there) of text in units of 2 or 4 bytes."""
    if first.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32", 0, "byte order mark"
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", 0, "byte order mark"
    zeros = [first[i::4].count(0) for i in range(4)]
    even, odd = zeros[0] + zeros[2], zeros[1] + zeros[3]
    # Text with stray NULs has few, and at odd and even places alike.
    if even + odd < max(2, len(first) // 16):
        return None
    if min(zeros[:3]) * 8 >= len(first) or min(zeros[1:]) * 8 >= len(first):
        return ("utf-32-le" if zeros[0] < zeros[3] else "utf-32-be"), first.index(0), "NUL"
    if max(even, odd) > 8 * min(even, odd):
        return ("utf-16-le" if odd > even else "utf-16-be"), first.index(0), "NUL"
    return None
