from __future__ import annotations

import gzip
import json

import pytest

from xmc.data import xmc_raw
from xmc.data.formats import labels_of, open_corpus, read_labels
from xmc.data.gold import label_matrix
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import raising
from xmc.errors import InputError

LABELS = [
    {"uid": "B0", "title": "air transport", "content": "by plane"},
    {"uid": "B1", "title": "fisheries", "content": ""},
]
DOCS = [
    {"uid": "D0", "title": "Fish", "content": "of the sea", "target_ind": [1, 0], "target_rel": [1.0, 1.0]},
    {"uid": "D1", "title": "Nothing", "content": "", "target_ind": [], "target_rel": []},
]


def documents(path, report=None):
    return list(raising(xmc_raw.read_documents(path, ReadOptions(), report or ReadReport())))


def test_documents_have_the_uids_of_their_labels(write):
    write("lbl.json", LABELS)
    path = write("trn.json", DOCS)
    assert [d[:3] for d in documents(path)] == [
        ("D0", "Fish\nof the sea", ["B1", "B0"]),
        ("D1", "Nothing", []),
    ]


def test_labels_keep_their_row_as_index(write):
    labels = read_labels(write("lbl.json", LABELS))
    assert labels.ids.to_pylist() == ["B0", "B1"]
    assert labels.texts.to_pylist() == ["air transport", "fisheries"]
    assert labels.descriptions.to_pylist() == ["by plane", ""]


def test_packed_files_are_found_and_read(write):
    def packed(records):
        return gzip.compress("".join(json.dumps(r) + "\n" for r in records).encode())

    write("lbl.json.gz", packed(LABELS))
    path = write("trn.json.gz", packed(DOCS))
    corpus = open_corpus([path])
    labels = labels_of(path)
    assert label_matrix(corpus, labels).toarray().tolist() == [[1, 1], [0, 0]]


def test_documents_without_targets_need_no_labels(write):
    path = write("tst.json", [{"uid": "D0", "title": "Fish", "content": "x"}])
    assert documents(path)[0].labels is None


def test_a_missing_label_file_is_asked_for(write):
    with pytest.raises(InputError, match=r"trn.json: its labels are lines of a lbl.json"):
        documents(write("trn.json", DOCS))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"target_ind": [2]}, "trn.json:1: target_ind 2, but there are 2 labels"),
        ({"target_ind": [-1]}, "target_ind -1"),
        ({"target_ind": ["a"]}, "whole numbers were wanted"),
        ({"target_ind": [0.5]}, "whole numbers were wanted"),
        ({"target_ind": 3}, "a list of line numbers was wanted"),
        ({"target_ind": [0], "target_rel": [1, 1]}, "target_ind has 1 labels, target_rel 2"),
        ({"target_ind": [0], "target_rel": ["much"]}, "numbers were wanted"),
    ],
)
def test_bad_targets_are_refused(write, target, message):
    write("lbl.json", LABELS)
    with pytest.raises(InputError) as error:
        documents(write("trn.json", [{"uid": "D0", "title": "x", **target}]))
    assert message in str(error.value)


def test_labels_of_no_relevance_are_left_out_and_counted(write):
    write("lbl.json", LABELS)
    path = write("trn.json", [{"uid": "D0", "title": "x", "target_ind": [0, 1], "target_rel": [0, 0.4]}])
    report = ReadReport()
    assert documents(path, report)[0].labels == ["B1"]
    assert report.lines() == [f"1 gold label had relevance 0 and was left out ({path}:1)"]
