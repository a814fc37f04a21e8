from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from xmc.data.inspect import holds_labels, inspect
from xmc.data.options import ReadOptions
from xmc.data.paths import NOT_READ
from xmc.errors import InputError

LABELS = [
    {"id": "L1", "text": "air transport", "alt": ["aviation"]},
    {"id": "L2", "text": "fisheries", "broader": ["L1"]},
    {"id": "L3", "text": "fisheries", "description": "of other people", "retired": True},
    {"id": "06", "text": ""},
]
TRAIN = [
    {"id": "d1", "text": "Council Regulation No 12 on fish\nfull text", "labels": ["L1", "L2", "L2"]},
    {"id": "d2", "text": "fish  and ships", "labels": ["L2", "L77"]},
    {"id": "d3", "text": " ", "labels": []},
    {"id": "d3", "text": "fish and ships", "labels": ["L2"]},
]
DEV = [
    {"id": "d2", "text": "fish and\nships", "labels": ["L2"]},
    {"id": "e1", "text": "Council regulation No 345 on fish\nanother text", "labels": ["L1", "06"]},
]


@pytest.fixture
def files(write):
    return [write("labels.jsonl", LABELS), write("train.jsonl", TRAIN), write("dev.jsonl", DEV)]


@pytest.fixture
def found(files):
    return inspect(files).to_json()


def counts(findings):
    return {kind: (each["n"], each["examples"]) for kind, each in findings.items() if isinstance(each, dict)}


def test_a_vocabulary_is_counted(found):
    labels = found["files"][0]
    assert labels["kind"] == "labels"
    assert labels["n_labels"] == 4
    assert labels["retired"] == labels["with_other_names"] == labels["with_a_description"] == 1
    assert counts(labels["odd"]) == {
        "labels with the text of an earlier one": (1, ["L3"]),
        "label ids that a spreadsheet would change as numbers": (1, ["06"]),
        "labels without text": (1, ["06"]),
    }


def test_documents_and_their_labels_are_counted(found):
    train = found["files"][1]
    assert train["kind"] == "documents"
    assert train["n_docs"] == 4
    assert train["labels"] == {
        "documents_without": 1,
        "per_document": {"mean": 1.25, "min": 0, "median": 1, "p90": 2, "p99": 2, "max": 2},
        "used": 3,
        "frequent": 0,
        "few": 3,
        "n_labels": 4,
        "zero": 2,
        "unknown": 1,
        "unknown_uses": 1,
        "unknown_examples": ["L77"],
        "new": {},
    }
    assert train["words"]["max"] == 8
    assert found["files"][2]["labels"]["new"] == {"labels": 1, "share_of_uses": 0.3333}


def test_repeats_and_oddities_within_a_file_are_counted(found):
    train = found["files"][1]
    assert counts(train["repeats"]) == {
        "repeated ids": (1, ["d3"]),
        "repeated texts": (1, ["d3"]),
        "repeated titles once digits are removed": (1, ["d3"]),
    }
    assert list(train["odd"]) == [
        "documents with a gold label more than once",
        "documents without text",
    ]


def test_what_two_files_share_is_counted(found, files):
    (shared,) = found["shared"]
    assert (shared["first"], shared["second"]) == (str(files[1]), str(files[2]))
    assert counts(shared) == {
        "shared ids": (1, ["d2"]),
        "shared texts": (1, ["d2"]),
        "shared titles once digits are removed": (1, ["e1"]),
    }


def test_the_text_form_says_the_same(files):
    lines = inspect(files).lines()
    assert f"{files[0]}: 4 labels (JSON lines)" in lines
    assert (
        "  labels: 3 used, 0 frequent (50 documents and more), 3 few, 2 zero (of 4 in the vocabulary)"
        in lines
    )
    assert "  labels outside the vocabulary: 1, in 1 uses (L77)" in lines
    assert f"{files[2]} and {files[1]}: shared ids: 1 (d2)" in lines
    json.dumps(inspect(files).to_json())


def test_bins_of_frequency_part_at_fifty(write):
    docs = [{"id": f"d{i}", "text": f"text {i}", "labels": ["L1"] + ["L2"] * (i < 49)} for i in range(50)]
    labels = inspect([write("train.jsonl", docs)]).to_json()["files"][0]["labels"]
    assert (labels["frequent"], labels["few"]) == (1, 1)


def test_sparse_files_are_compared_by_their_rows(write):
    train = write("train.txt", "3 5 4\n0 1:1 2:1\n1 1:1 2:1\n1 \n")
    test = write("test.txt", "2 5 4\n3 2:1 1:1\n3 2:1 1:0.5\n")
    found = inspect([train, test]).to_json()
    assert found["files"][0]["features"]["max"] == 2
    assert found["files"][0]["labels"]["zero"] == 2
    assert counts(found["files"][0]["repeats"]) == {"repeated rows of features": (1, [f"{train}:3"])}
    assert counts(found["shared"][0]) == {"shared rows of features": (1, [f"{test}:2"])}


def test_matrices_without_labels_are_counted(tmp_path):
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_matrix(np.eye(3)))
    (found,) = inspect([tmp_path]).to_json()["files"]
    assert found["n_docs"] == found["labels"]["documents_without"] == 3


def test_a_folder_is_one_file_of_documents_beside_its_vocabularies(write):
    write("all/labels.jsonl", LABELS)
    write("all/1.jsonl", TRAIN)
    folder = write("all/sub/2.csv", "id,text,labels\nd2,fish,L2\n").parent.parent
    write("all/notes.md", "no document")
    labels, found = inspect([folder]).to_json()["files"]
    assert (labels["path"], labels["kind"]) == (str(folder / "labels.jsonl"), "labels")
    assert (found["path"], found["n_docs"], found["format"]) == (str(folder), 5, "JSON lines, CSV or TSV")
    assert counts(found["repeats"])["repeated ids"] == (2, ["d3", "d2"])
    assert found["labels"]["n_labels"] == 4
    assert found["reading"] == {NOT_READ: 1}


def test_what_matches_a_pattern_is_told_one_by_one(files):
    pattern = f"{files[0].parent}/*.jsonl"
    assert inspect([pattern]).to_json() == inspect(sorted(files)).to_json()
    with pytest.raises(InputError, match="no file matches this pattern"):
        inspect([f"{files[0].parent}/*.csv"])


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("labels.jsonl", '{"id": "L1", "text": "fish"}\n', True),
        ("docs.jsonl", '{"id": "d1", "text": "fish"}\n', False),
        ("x.jsonl", '{"id": "L1", "text": "fish", "alt": ["fishes"]}\n', True),
        ("labels.jsonl", '{"id": "d1", "text": "fish", "labels": []}\n', False),
        ("x.tsv", "L1\tair transport\nL2\tfisheries\n", True),
        ("x.tsv", "id\ttext\tlabels\nd1\tfish\tL1\n", False),
        ("labels.csv", "id,text\nL1,fish\n", True),
        ("x.csv", "id,text,description\nL1,fish,swims\n", True),
        ("x.tsv", "some title\t<http://e/p1>\n", False),
        ("x.tsv", "<http://e/p1>\tfish\n", True),
        ("x.csv", "uri,label_en\nhttp://e/p1,fish\n", True),
        ("x.csv", "text,subject_uris\nfish,<http://e/p1>\n", False),
        ("x.ttl", "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n", True),
        ("x.rdf", '<?xml version="1.0"?>\n', True),
        ("train.txt", "1 5 4\n0 1:1\n", False),
        ("trn.json", '{"uid": "1", "title": "x", "target_ind": [0]}\n', False),
        ("lbl.json", '{"uid": "1", "title": "x"}\n', True),
        ("EURLEX57K.json", '{"1": {"concept_id": "1", "label": "x", "alt_labels": [], "parents": []}}', True),
        ("a.json", '{"celex_id": "1", "title": "x", "concepts": []}', False),
    ],
)
def test_labels_are_told_from_documents(write, name, content, expected):
    assert holds_labels(write(name, content), ReadOptions()) is expected


def test_a_file_of_no_format_is_refused(write):
    with pytest.raises(InputError, match="no known format"):
        inspect([write("x.md", "# Title\n")])
    with pytest.raises(InputError, match="no such file"):
        inspect(["missing.jsonl"])
