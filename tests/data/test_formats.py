from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from xmc.data.formats import labels_of, open_corpus, read_filter, read_labels
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError, SettingError


def test_labels_of_every_own_format_are_the_same(write):
    header, rows = ("id", "text", "alt"), [("L1", "air, transport", "a|b"), ("L4", 'the "budget"', "")]
    tsv = "\n".join("\t".join(row) for row in [header, *rows])
    quoted = "\n".join(
        ",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in [header, *rows]
    )
    jsonl = [{"id": i, "text": t, "alt": alt.split("|") if alt else []} for i, t, alt in rows]
    tables = [
        read_labels(write("a.tsv", tsv)).table,
        read_labels(str(write("a.csv", quoted))).table,
        read_labels(write("a.jsonl", jsonl)).table,
    ]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


def test_a_report_is_filled(write):
    report = ReadReport()
    read_labels(write("a.tsv", "L1\tx\nL1\tx\n"), report=report)
    assert report.lines() == ["1 label stood twice and was merged (L1)"]


def test_bad_vocabularies_are_refused(write):
    path = write("labels.tsv", "L1\tair transport\nL2\tx\nL1\tships\n")
    with pytest.raises(
        InputError, match=rf"'L1' stands twice .*: {path}:1 'air transport', {path}:3 'ships'"
    ):
        read_labels(path)
    with pytest.raises(InputError, match=r"labels\.jsonl: holds no label"):
        read_labels(write("labels.jsonl", ""))
    with pytest.raises(SettingError, match="encoding=none"):
        read_labels(path, ReadOptions(encoding="none"))


def test_a_corpus_of_one_path_or_several(write):
    first, second = write("a.jsonl", [{"id": "a", "text": "x"}]), write("b.csv", "id,text\nb,y\n")
    assert [batch.ids for batch in open_corpus([first, str(second)]).batches()] == [["a", "b"]]


def test_labels_that_a_format_defines(write):
    labels = labels_of(write("train.txt", "1 2 3\n0 1:1\n"))
    assert labels is not None
    assert labels.ids.to_pylist() == ["0", "1", "2"]
    assert labels_of(write("docs.jsonl", [{"id": "a", "text": "x"}])) is None


def test_filter_pairs(write):
    pairs = read_filter(write("filter.txt", "0 5\n\n3\t1\r\n"))
    assert pairs.dtype == np.int64
    assert pairs.tolist() == [[0, 5], [3, 1]]
    assert read_filter(write("empty.txt", "")).shape == (0, 2)


@pytest.mark.parametrize("line", ["1", "1 2 3", "a b", "-1 2", "1.0 2", "² 1"])
def test_a_bad_filter_pair_is_refused_by_its_line(write, line: str):
    with pytest.raises(InputError, match=r"filter\.txt:2: found .*; two numbers"):
        read_filter(write("filter.txt", f"1 2\n{line}\n"))


def test_a_huge_filter_row_is_refused(write):
    with pytest.raises(InputError, match="beyond"):
        read_filter(write("filter.txt", f"{'9' * 30} 1\n"))


def test_missing_files_are_refused(tmp_path: Path):
    for read in (read_labels, read_filter, labels_of, lambda path: open_corpus([path])):
        with pytest.raises(InputError, match="no such file"):
            read(tmp_path / "missing.txt")


SAMPLES = [
    b'{"id": "d1", "text": "ships", "labels": ["L1"]}\n{"id": "d2", "text": "air"}\n',
    b'id,text,labels\nd1,"ships, and",L1|L2\nd2,air,"[""L1""]"\n',
    b"id\ttext\tlabels\nd1\tships\tL1\n",
    b"L1\tair transport\r\nL2\tfisheries\r\n",
    b"2 4 3\n0,1 0:1 3:0.5\n 1:2\n",
    b"ships\t<http://u/1> <http://u/2>\n",
    b'[{"id": "d1", "text": "x"}]',
    "id;text\nd1;caf\u00e9\n".encode("latin-1"),
]


@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 3), st.binary(max_size=3)), max_size=4),
    st.sampled_from(["jsonl", "csv", "tsv", "txt", "parquet", "npz", "ttl", "xml", "gz"]),
    st.sampled_from([None, gzip.compress, zstandard.compress]),
)
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path_factory, content, edits, suffix, compress):
    content = bytearray(content)
    for at, n, new in edits:
        content[at : at + n] = new
    path = tmp_path_factory.mktemp("t") / f"file.{suffix}"
    path.write_bytes(compress(bytes(content)) if compress else bytes(content))
    for read in (read_labels, lambda path: list(open_corpus([path]).batches(2)), labels_of, read_filter):
        message = str(path)
        try:
            read(path)
        except InputError as error:
            message = str(error)
        assert str(path) in message
        assert "\n" not in message
