"""Label ids and texts with separators, marks and numbers in them; ids that stand twice or are unknown."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xmc.data.formats import open_corpus, read_labels
from xmc.data.gold import label_matrix, read_gold
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError

ODD = [
    ('lcsh/"Fram" Expedition (1893-1896)', '"Fram" Expedition (1893-1896)'),
    ("lcsh/Heyn, Piet, 1578-1629\u200f -- Juvenile fiction", "Heyn, Piet, 1578-1629\u200f"),
    ("lcsh/Floriculture -- \u200bCanada", "Rus\u200b people"),
    ("lcsh/Lie\u0300ge (Province)", "Lie\u0300ge"),
    ("lcsh/Li\u00e8ge (Province)", "Li\u00e8ge"),
    ("a,b", "budget, annual"),
    ("a|b; c", "sheet metal  foremen"),
    (" a\tb ", "satyr play\ts"),
    ("14.1", "Psyyken rakenne"),
    ("14.10", "Psyyken rakenne"),
    ("06", "قانون"),
    ("6", "👩‍⚖️ \u202e"),
    ("[x]", "humor magazines\u200e"),
    ("null", "null"),
]


def written(path: Path) -> Path:
    """The odd labels in the format of the path's suffix."""
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"id": [i for i, _ in ODD], "text": [t for _, t in ODD]}), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in ODD))
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            dialect = "excel" if path.suffix == ".csv" else "excel-tab"
            csv.writer(file, dialect).writerows([("id", "text"), *ODD])
    return path


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "parquet"])
def test_ids_and_texts_come_back_as_they_were(tmp_path: Path, suffix: str):
    labels = read_labels(written(tmp_path / f"labels.{suffix}"))
    assert list(zip(labels.ids.to_pylist(), labels.texts.to_pylist(), strict=True)) == ODD
    labels.save(tmp_path / "labels.arrow")
    assert labels.load(tmp_path / "labels.arrow").rows([i for i, _ in ODD]).tolist() == list(range(len(ODD)))


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "parquet"])
def test_odd_ids_are_found_as_gold_labels(tmp_path: Path, suffix: str):
    labels, ids = read_labels(written(tmp_path / "labels.jsonl")), [i for i, _ in ODD]
    path = tmp_path / f"docs.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table({"id": ["d1"], "text": ["x"], "labels": [ids]}), path)
    elif suffix == "jsonl":
        path.write_text(json.dumps({"id": "d1", "text": "x", "labels": ids}))
    else:
        with path.open("w", encoding="utf-8", newline="") as file:
            dialect = "excel" if suffix == "csv" else "excel-tab"
            csv.writer(file, dialect).writerows([("id", "text", "labels"), ("d1", "x", json.dumps(ids))])
    assert label_matrix(open_corpus([path]), labels).sum() == len(ODD)


def test_a_tsv_keeps_a_comma_and_refuses_a_third_column(tmp_path: Path):
    path = tmp_path / "labels.tsv"
    path.write_text('L1\tair transport\nL4\t"budget, annual"\nL5\tbudget, annual\n')
    assert read_labels(path).texts.to_pylist() == ["air transport", "budget, annual", "budget, annual"]
    path.write_text("L1\tair transport\np28764\tsatyr play\ts\n")
    with pytest.raises(InputError, match=r"labels\.tsv:2: 3 columns"):
        read_labels(path)


def test_numbers_as_ids_in_json_are_refused_or_taken_as_written(tmp_path: Path):
    path = tmp_path / "labels.jsonl"
    path.write_text('{"id": 14.10, "text": "x"}\n{"id": 14.1, "text": "y"}\n')
    with pytest.raises(InputError, match=r"labels\.jsonl:1: id is the number 14\.10"):
        read_labels(path)
    assert read_labels(path, ReadOptions(coerce=True)).ids.to_pylist() == ["14.10", "14.1"]


def test_a_label_id_that_stands_twice(tmp_path: Path):
    path = tmp_path / "labels.tsv"
    path.write_text("L1\tair transport\nL1\tships\n")
    with pytest.raises(InputError, match=rf"{path}:1 'air transport', {path}:2 'ships'"):
        read_labels(path)
    path.write_text("L1\tair transport\nL1\tair transport\n")
    report = ReadReport()
    assert len(read_labels(path, report=report)) == 1
    assert report.lines() == ["1 label stood twice and was merged (L1)"]


def test_labels_of_the_same_text_are_different_labels(tmp_path: Path):
    path = tmp_path / "labels.jsonl"
    records = [{"id": f"n{n}", "text": "cut", "description": f"meaning {n}"} for n in range(6)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    report = ReadReport()
    labels = read_labels(path, report=report)
    assert len(labels) == 6
    assert report.lines() == []


@pytest.fixture
def unknown(tmp_path: Path) -> tuple[Path, Path]:
    """A vocabulary with a retired label, and documents of which one has a label outside of it."""
    vocabulary, path = tmp_path / "labels.jsonl", tmp_path / "docs.jsonl"
    labels = [{"id": "L1", "text": "air"}, {"id": "L2", "text": "old", "retired": True}]
    vocabulary.write_text("".join(json.dumps(record) + "\n" for record in labels))
    gold = [["L1"], ["L1", "L77"], ["L2"]]
    records = [{"id": f"d{n}", "text": "x", "labels": ids} for n, ids in enumerate(gold)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return vocabulary, path


def test_a_gold_label_outside_the_vocabulary_stops(unknown: tuple[Path, Path]):
    vocabulary, path = unknown
    with pytest.raises(InputError, match=rf"1 gold label outside vocabulary .*'L77' at {path}:2"):
        label_matrix(open_corpus([path]), read_labels(vocabulary))


def test_a_gold_label_outside_the_vocabulary_is_skipped_or_added(unknown: tuple[Path, Path]):
    vocabulary, path = unknown
    report, labels = ReadReport(), read_labels(vocabulary)
    skipped = label_matrix(open_corpus([path]), labels, ReadOptions(on_unknown_label="skip"), report)
    assert skipped.toarray().tolist() == [[1, 0], [1, 0], [0, 0]]
    assert report.lines()[0].startswith("1 gold label outside vocabulary")
    added, longer = read_gold(open_corpus([path]), labels, ReadOptions(on_unknown_label="add"))
    assert added.toarray().tolist() == [[1, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert longer.ids.to_pylist() == ["L1", "L2", "L77"]


def test_a_retired_label_keeps_its_row_and_is_no_gold_label(unknown: tuple[Path, Path]):
    vocabulary, path = unknown
    report, labels = ReadReport(), read_labels(vocabulary)
    label_matrix(open_corpus([path]), labels, ReadOptions(on_unknown_label="skip"), report)
    assert labels.rows(["L2"]).tolist() == [1]
    assert "1 gold label was retired and left out (L2)" in report.lines()
