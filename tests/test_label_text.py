from __future__ import annotations

from itertools import pairwise

from xmc.data.labels import LabelSet
from xmc.data.records import Label
from xmc.label_text import label_names, label_texts, same_text

LABELS = LabelSet.from_records(
    [
        Label("a", "air transport", ("aviation", "air transport")),
        Label("b", ""),
        Label("c", "قانون", (), "rules that bind"),
        Label("d", "", ("fisheries",), ""),
        Label("e", "", (), "only described"),
    ]
)


def test_one_text_holds_all_of_a_label():
    assert label_texts(LABELS) == [
        "air transport, aviation",
        "",
        "قانون. rules that bind",
        "fisheries",
        "only described",
    ]


def test_names_stand_one_by_one_and_with_a_description_all_together():
    names, starts = label_names(LABELS, label_texts(LABELS))
    by_label = [names[a:b] for a, b in pairwise(starts)]
    assert by_label == [
        ["air transport", "aviation", "air transport"],
        [],
        ["قانون", "قانون. rules that bind"],
        ["fisheries"],
        ["only described"],
    ]


def test_no_labels():
    names, starts = label_names(LABELS.take([]), [])
    assert (names, starts.tolist()) == ([], [0])


def test_labels_of_one_text_have_one_number_and_those_without_each_its_own():
    labels = [Label("a", "law"), Label("b", ""), Label("c", "tax"), Label("d", "law"), Label("e", "")]
    assert same_text(LabelSet.from_records(labels)).tolist() == [0, 1, 2, 0, 4]
