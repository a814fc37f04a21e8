from __future__ import annotations

import gzip
import io
import os
import sys
import threading
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from xmc.data import files
from xmc.data.options import ReadOptions
from xmc.errors import InputError

UTF8 = ReadOptions()


def lines(path: Path, encoding: str = "utf-8") -> list[tuple[int, str]]:
    return list(files.text_lines(path, ReadOptions(encoding=encoding)))


def test_lines_end_at_line_feeds_only(write):
    path = write("a.txt", "one\x85\u2028\x0c\x0b\x1cstill\r\n\ntwo\rstill\nlast")
    assert lines(path) == [(1, "one\x85\u2028\x0c\x0b\x1cstill"), (2, ""), (3, "two\rstill"), (4, "last")]


def test_raw_lines_keep_their_ends(write):
    path = write("a.txt", "\ufeffone\r\ntwo\n")
    assert list(files.raw_lines(path, UTF8)) == [(1, "one\r\n"), (2, "two\n")]


def test_an_empty_file_has_no_lines(write):
    assert lines(write("a.txt", "")) == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le"])
def test_a_byte_order_mark_is_no_text(write, encoding: str):
    content = "L1\tقانون\r\nL2\té"
    mark = "" if encoding in ("utf-16", "utf-8-sig") else "\ufeff"
    path = write("a.tsv", (mark + content).encode(encoding))
    assert lines(path, encoding) == [(1, "L1\tقانون"), (2, "L2\té")]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_compression_is_told_by_content(write, compress, name: str):
    first, second = b"one\n" * 100_000, "zwölf\n".encode()
    path = write(name, compress(first) + compress(second))
    found = lines(path)
    assert len(found) == 100_001
    assert found[-1] == (100_001, "zwölf")


def test_padding_after_a_gzip_file_is_nothing(write):
    assert lines(write("a", gzip.compress(b"one") + bytes(5000))) == [(1, "one")]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused_by_name(write, compress, kept: float):
    whole = compress(os.urandom(200_000).hex().encode())
    path = write("a.txt", whole[: int(len(whole) * kept)])
    with pytest.raises(InputError, match=r"a\.txt: damaged (gzip|zstd) file: the file ends too early"):
        lines(path)


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.ZstdCompressor(write_checksum=True).compress])
def test_a_damaged_file_is_refused_by_name(write, compress):
    whole = bytearray(compress(os.urandom(200_000).hex().encode()))
    whole[50_000:50_100] = bytes(100)
    with pytest.raises(InputError, match=r"a\.txt: (damaged|.*invalid UTF-8)"):
        lines(write("a.txt", bytes(whole)))


def test_bytes_after_a_gzip_file_are_refused(write):
    with pytest.raises(InputError, match="damaged gzip file"):
        lines(write("a", gzip.compress(b"one") + b"rubbish"))


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"))),
    st.sampled_from(["\n", "\r\n"]),
)
def test_any_text_survives(tmp_path_factory, texts: list[str], end: str):
    path = tmp_path_factory.mktemp("t") / "a"
    mark = b"\xef\xbb\xbf" if texts else b""
    path.write_bytes(mark + "".join(text + end for text in texts).encode())
    assert [line for _, line in lines(path)] == texts


def test_invalid_bytes_are_named_with_the_way_out(write):
    path = write("labels.tsv", "L1\tair\nL2\tcafé\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"labels\.tsv:2: invalid UTF-8 byte E9 .*`encoding=latin-1`"):
        lines(path)
    assert lines(path, "latin-1")[1] == (2, "L2\tcafé")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_encodings_are_recognised(write, encoding: str):
    path = write("labels.tsv", "L1\tair transport\nL2\tfisheries\n".encode(encoding))
    with pytest.raises(InputError, match=rf"labels\.tsv: byte \d: NUL: .*`encoding={encoding}`"):
        lines(path)
    assert lines(path, encoding) == [(1, "L1\tair transport"), (2, "L2\tfisheries")]


@pytest.mark.parametrize(("mark", "encoding"), [(b"\xff\xfe", "utf-16-le"), (b"\xff\xfe\0\0", "utf-32-le")])
def test_the_mark_of_a_wide_encoding_is_recognised(write, mark: bytes, encoding: str):
    path = write("a.tsv", mark + "法律\n".encode(encoding))
    with pytest.raises(InputError, match=rf"byte order mark: .*`encoding={encoding[:6]}`"):
        lines(path)


def test_a_stray_nul_is_text(write):
    assert lines(write("a", b"fish\0eries and more text\n")) == [(1, "fish\0eries and more text")]


def test_a_wide_file_cut_in_a_character_is_refused(write):
    path = write("a", "one\ntwo\n".encode("utf-16-le")[:-1])
    with pytest.raises(InputError, match=r"a:\d: not utf-16-le"):
        lines(path, "utf-16-le")


def test_what_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"nothing\.txt: no such file"):
        lines(tmp_path / "nothing.txt")
    with pytest.raises(InputError, match="is a folder; a file was wanted"):
        lines(tmp_path)
    with pytest.raises(InputError, match="null"):
        lines(Path("a\0b"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_refused(write):
    path = write("a", "x")
    path.chmod(0)
    with pytest.raises(InputError, match="no permission"):
        lines(path)


def test_standard_input_is_read_as_often_as_wanted(monkeypatch):
    pipe = io.BufferedReader(io.BytesIO(gzip.compress(b"one\ntwo\n" * 1000)))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(pipe))
    stdin = Path("-")
    assert files.head(stdin, 5) == b"one\nt"
    first = files.text_lines(stdin, UTF8)
    assert next(first) == (1, "one")
    assert len(lines(stdin)) == 2000
    assert len(list(first)) == 1999
    assert files.open_seekable(stdin).read(2) == b"\x1f\x8b"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_read_as_often_as_wanted(tmp_path: Path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"one\ntwo",), daemon=True)
    writer.start()
    assert lines(path) == lines(path) == [(1, "one"), (2, "two")]
    assert files.open_seekable(path).read() == b"one\ntwo"
