"""Byte order marks, line ends, encodings, control characters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xmc.data.formats import open_corpus, read_labels
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError


def test_bom_and_crlf_give_the_same_labels(tmp_path: Path):
    saved = []
    for name, content in (
        ("a", b"\xef\xbb\xbfL1\tair transport\r\nL2\tfisheries\r\n"),
        ("b", b"L1\tair transport\nL2\tfisheries\n"),
    ):
        path = tmp_path / f"{name}.tsv"
        path.write_bytes(content)
        labels = read_labels(path)
        assert labels.ids.to_pylist() == ["L1", "L2"]
        assert labels.texts.to_pylist() == ["air transport", "fisheries"]
        labels.save(tmp_path / name)
        saved.append((tmp_path / name).read_bytes())
    assert saved[0] == saved[1]


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-16-le", r"labels\.tsv: byte \d: NUL.*pass `encoding=utf-16-le`"),
        ("latin-1", r"labels\.tsv:2: invalid UTF-8 byte E9.*pass `encoding=latin-1`"),
    ],
)
def test_a_wrong_encoding_is_refused_and_the_right_one_reads(tmp_path: Path, encoding: str, message: str):
    path = tmp_path / "labels.tsv"
    path.write_bytes("L1\tair transport\nL2\tmarché\n".encode(encoding))
    with pytest.raises(InputError, match=message):
        read_labels(path)
    assert read_labels(path, ReadOptions(encoding=encoding)).texts.to_pylist() == ["air transport", "marché"]


def test_nul_and_control_characters_are_replaced_and_counted(tmp_path: Path):
    path = tmp_path / "docs.jsonl"
    path.write_text(json.dumps({"id": "d1", "text": "fish\x00eries \x07"}) + "\n")
    report = ReadReport()
    batches = list(open_corpus([path], report=report).batches())
    assert batches[0].texts == ["fish eries  "]
    assert report.lines()[0].startswith("1 document had control characters")


def test_lines_are_split_at_line_feeds_only(tmp_path: Path):
    texts = [
        "The islands of Ă\x85land",
        "evidence\u2028for 26 types",
        "sources.\r\nIt includes",
        "a\x0b\x0c\x1cb",
    ]
    path = tmp_path / "docs.jsonl"
    records = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
    batch = next(open_corpus([path]).batches())
    assert batch.ids == ["d0", "d1", "d2", "d3"]
    assert batch.texts[:3] == texts[:3]


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv"])
def test_mojibake_right_to_left_and_combined_characters_stay_as_they_are(tmp_path: Path, suffix: str):
    texts = [
        "Kurt SCHĂ\x9cCKER".replace("\x9c", "\x85"),
        "Â\xb0C â€™ \ufffd so\u00adft",
        "قانون \u202e e\u0301 é 👩‍⚖️",
    ]
    path = tmp_path / f"docs.{suffix}"
    if suffix == "jsonl":
        lines = [json.dumps({"id": str(n), "text": t}, ensure_ascii=False) for n, t in enumerate(texts)]
    else:
        separator = "," if suffix == "csv" else "\t"
        lines = [f"id{separator}text", *(f"{n}{separator}{t}" for n, t in enumerate(texts))]
    path.write_text("\n".join(lines), encoding="utf-8", newline="")
    assert next(open_corpus([path]).batches()).texts == texts
