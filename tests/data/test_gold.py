from __future__ import annotations

import numpy as np
import pytest

from xmc.data.corpus import Corpus
from xmc.data.gold import GoldReader, label_matrix, read_gold
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch, Label
from xmc.errors import InputError


@pytest.fixture
def labels() -> LabelSet:
    return LabelSet.from_records(
        [Label("L1", "air"), Label("L2", "old", retired=True), Label("L3", "budget")]
    )


def corpus(write, *gold: list[str] | None) -> Corpus:
    records = [{"id": f"d{n}", "text": "x", "labels": ids} for n, ids in enumerate(gold)]
    return Corpus([write("docs.jsonl", records)])


def test_gold_labels_are_ones_in_the_labels_columns(write, labels: LabelSet):
    matrix = label_matrix(corpus(write, ["L3", "L1"], [], None, ["L3"]), labels)
    assert matrix.dtype == np.float32
    assert matrix.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert matrix.has_sorted_indices


def test_many_batches_join_up(write, labels: LabelSet):
    gold = [["L1"] if n % 3 else ["L3"] for n in range(2500)]
    matrix = label_matrix(corpus(write, *gold), labels)
    assert matrix.shape == (2500, 3)
    assert matrix.sum(axis=0).tolist() == [[1666, 0, 834]]


def test_no_documents_and_no_gold(write, labels: LabelSet):
    assert label_matrix(corpus(write), labels).shape == (0, 3)
    assert label_matrix(corpus(write, None), labels).nnz == 0


def test_a_label_twice_in_a_batch_is_one(labels: LabelSet):
    batch = DocumentBatch(["d"], ["x"], None, [["L1", "L1"]], ["a:1"])
    assert GoldReader(labels).batch(batch).toarray().tolist() == [[1, 0, 0]]


def test_unknown_labels_are_one_error_with_places(write, labels: LabelSet):
    gold = [["L1", "L77"], ["L77"], *[[f"M{n}"] for n in range(6)]]
    with pytest.raises(InputError) as caught:
        label_matrix(corpus(write, *gold), labels)
    message = str(caught.value)
    assert message.startswith("8 gold labels outside vocabulary (7 different): 'L77' at ")
    assert all(f"{where}:{line}" in message for where, line in (("docs.jsonl", n) for n in (1, 3, 4, 5, 6)))
    assert "'M3'" in message
    assert "'M4'" not in message
    assert "\n" not in message
    assert "`on_unknown_label=skip`" in message


def test_unknown_labels_are_skipped_and_counted(write, labels: LabelSet):
    report = ReadReport()
    matrix = label_matrix(corpus(write, ["L1", "L77"]), labels, ReadOptions(on_unknown_label="skip"), report)
    assert matrix.toarray().tolist() == [[1, 0, 0]]
    assert report.lines()[0].startswith("1 gold label outside vocabulary (L77 at ")


def test_unknown_labels_are_added_at_the_end(write, labels: LabelSet):
    report = ReadReport()
    gold = [["L1", "L77"], *[["L1"]] * 1100, ["L78", "L77"]]
    options = ReadOptions(on_unknown_label="add")
    matrix, longer = read_gold(corpus(write, *gold), labels, options, report)
    assert longer.ids.to_pylist() == ["L1", "L2", "L3", "L77", "L78"]
    assert longer.texts.to_pylist()[3:] == ["L77", "L78"]
    assert matrix.shape == (1102, 5)
    assert matrix[[0, -1]].toarray().tolist() == [[1, 0, 0, 1, 0], [0, 0, 0, 1, 1]]
    assert report.lines() == ["2 gold labels outside vocabulary were added (L77, L78)"]


def test_retired_gold_labels_are_left_out_and_counted(write, labels: LabelSet):
    report = ReadReport()
    matrix = label_matrix(corpus(write, ["L2", "L3"]), labels, None, report)
    assert matrix.toarray().tolist() == [[0, 0, 1]]
    assert report.lines() == ["1 gold label was retired and left out (L2)"]


def test_gold_labels_given_by_their_texts_are_found_by_them(write):
    labels = LabelSet.from_records(
        [
            Label("u1", "networking", alt=("nets",)),
            Label("u2", "old", retired=True),
            Label("u3", "old", alt=("networking",)),
            Label("law", "right"),
        ]
    )
    write("full/a.txt", "eins")
    write("full/a.key", "networking\nold\nnets\n")
    path = write("full/b.txt", "zwei")
    write("full/b.key", "law\nright\n")
    matrix = label_matrix(Corpus([path.parent]), labels)
    assert matrix.toarray().tolist() == [[1, 0, 1, 0], [0, 0, 0, 1]]
    write("full/b.key", "nobody\n")
    with pytest.raises(InputError, match=r"1 gold label outside vocabulary.*'nobody'"):
        label_matrix(Corpus([path.parent]), labels)
