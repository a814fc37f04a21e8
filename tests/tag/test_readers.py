from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

from xmc.errors import InputError
from xmc.tag.readers import TaggedDocument, read_suggestions

GOOD = '{"id": "d1", "suggestions": [{"id": "L1", "score": 0.5}]}\n'


def test_the_least_that_a_line_needs(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(GOOD)
    assert list(read_suggestions(path)) == [TaggedDocument("d1", ["L1"], [0.5])]


@pytest.mark.parametrize(
    "line",
    [
        "not JSON",
        "[]",
        '{"id": "d2"}',
        '{"suggestions": []}',
        '{"id": "d2", "suggestions": {"L1": 0.5}}',
        '{"id": "d2", "suggestions": [{"id": "L1"}]}',
        '{"id": "d2", "suggestions": [{"id": "L1", "score": "high"}]}',
        '{"id": "d2", "suggestions": [{"id": "L1", "score": NaN}]}',
        '{"id": 2, "suggestions": []}',
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(GOOD + line + "\n")
    with pytest.raises(InputError, match=r"p\.jsonl:2: .*wanted") as refused:
        list(read_suggestions(path))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("p.csv", "doc,label\n", 1),
        ("p.csv", "doc_id,rank,label_id,label_text,score,reason\r\nd1,1,L1,air,high,\r\n", 2),
        ("p.csv", "doc_id,rank,label_id,label_text,score,reason\r\nd1,1\r\n", 2),
        ("p.csv", 'doc_id,rank,label_id,label_text,score,reason\r\nd1,1,"L1,air,0.5,\r\n', 2),
        ("p.tsv", "d1\t<L1>\tair\t0.5\nd2\t<L1>\tair\n", 2),
        ("p.tsv", "d1\t<L1>\tair\thigh\n", 1),
        ("p.tsv", "some words\t<L1> <L2>\n", 1),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, name: str, text: str, line: int) -> None:
    path = tmp_path / name
    path.write_text(text, newline="")
    with pytest.raises(InputError, match=rf"{name}:{line}: .*wanted"):
        list(read_suggestions(path))


def test_files_that_are_something_else(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["d1"]}), tmp_path / "p.parquet")
    scipy.sparse.save_npz(tmp_path / "p.npz", scipy.sparse.eye(3, format="csr"))
    np.savez(tmp_path / "q.npz", a=np.arange(3))
    for name in ("x.parquet", "x.npz"):
        (tmp_path / name).write_bytes(json.dumps({}).encode())
    for name in ("p.parquet", "p.npz", "q.npz", "x.parquet", "x.npz"):
        with pytest.raises(InputError, match=name):
            list(read_suggestions(tmp_path / name))


def test_missing_and_unknown_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_suggestions(tmp_path / "none.jsonl"))
    with pytest.raises(InputError, match=r"wanted one of \.jsonl"):
        list(read_suggestions(tmp_path / "pred.txt"))
