from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data import jsonl
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Label, raising
from xmc.errors import InputError

IDS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1)
TEXTS = st.text(st.characters(codec="utf-8"))


def documents(path, **options) -> list[Document]:
    return list(raising(jsonl.read_documents(path, ReadOptions(**options), ReadReport())))


def labels(path, **options) -> list[Label]:
    return list(jsonl.read_labels(path, ReadOptions(**options), ReadReport()))


@given(st.lists(st.tuples(IDS, TEXTS, st.lists(IDS))), st.booleans())
def test_any_documents_survive(tmp_path_factory, records: list[tuple], ascii_only: bool):
    path = tmp_path_factory.mktemp("t") / "docs.jsonl"
    rows = [
        json.dumps(dict(zip(("id", "text", "labels"), r, strict=True)), ensure_ascii=ascii_only)
        for r in records
    ]
    path.write_bytes("".join(row + "\n" for row in rows).encode())
    assert [tuple(d)[:3] for d in documents(path)] == records


def test_fields_of_a_document(write):
    path = write(
        "docs.jsonl",
        [
            {"id": "d1", "text": "ships", "labels": ["L1"], "date": 1987},
            {"id": "d2", "title": "Law", "text": "of the sea", "labels": []},
            {"id": "d3", "title": "Law", "text": "Law of the sea"},
            {"id": "d4", "title": "Law", "labels": None},
            {"id": "d5", "text": None},
            {"id": "d6"},
        ],
    )
    assert documents(path) == [
        Document("d1", "ships", ["L1"], f"{path}:1"),
        Document("d2", "Law\nof the sea", [], f"{path}:2"),
        Document("d3", "Law of the sea", None, f"{path}:3"),
        Document("d4", "Law", None, f"{path}:4"),
        Document("d5", "", None, f"{path}:5"),
        Document("d6", "", None, f"{path}:6"),
    ]


def test_fields_of_a_label(write):
    path = write(
        "labels.jsonl",
        [
            {
                "id": "L1",
                "text": "air transport",
                "alt": ["aviation"],
                "broader": ["L2"],
                "retired": True,
                "set": 1,
            },
            {"id": "L2", "alt": "x", "description": "y", "retired": None},
        ],
    )
    assert labels(path) == [
        Label("L1", "air transport", ("aviation",), "", ("L2",), True, f"{path}:1"),
        Label("L2", "", ("x",), "y", (), False, f"{path}:2"),
    ]


def test_blank_lines_and_blanks_around_a_record_are_nothing(write):
    path = write("docs.jsonl", '\n  {"id": "d1", "text": "a"} \r\n\n \t\n{"id": "d2", "text": "b"}')
    assert [(d.id, d.place) for d in documents(path)] == [("d1", f"{path}:2"), ("d2", f"{path}:5")]


def test_one_array_of_objects_is_read(write):
    path = write("docs.json", '[\n{"id": "d1", "text": "a"},\n{"id": "d2",\n "text": "b"}\n]\n')
    assert [tuple(d) for d in documents(path)] == [
        ("d1", "a", None, f"{path}: record 1"),
        ("d2", "b", None, f"{path}: record 2"),
    ]
    with pytest.raises(InputError, match="record 2: not a JSON object"):
        documents(write("bad.json", '[{"id": "d1"}, 3]'))


def test_raw_control_characters_in_a_string_are_read(write):
    assert documents(write("a.jsonl", '{"id": "d1", "text": "a\tb\x07"}'))[0].text == "a\tb\x07"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "d1", "text": NaN}', "not JSON: NaN is no JSON value"),
        ('{"id": "d1", "text": -Infinity}', "not JSON: -Infinity"),
        ('{"id": "d1" "text": "x"}', "not JSON: Expecting ',' delimiter at column 13, near"),
        ('{"id": "d1", "text": "x', "not JSON: Unterminated string"),
        ('{"id": "d1"} {"id": "d2"}', "not JSON: Extra data"),
        ('"d1"', "not a JSON object"),
        ("d1\tx", "not JSON"),
        ('{"id": "d1", "text": 123}', "text is the number 123; a string was wanted .*`coerce=true`"),
        ('{"id": "d1", "text": true}', "text is true or false"),
        ('{"id": "d1", "text": ["x"]}', "text is a list"),
        ('{"id": 14.10, "text": "x"}', r"id is the number 14\.10"),
        ('{"id": "d1", "text": "x", "labels": "L1"}', "labels is a string; a list of strings was wanted"),
        ('{"id": "d1", "text": "x", "labels": [1]}', "an item of labels is the number 1"),
        ('{"id": "d1", "text": "x", "labels": [null]}', "a null stands in labels"),
        ('{"id": "d1", "text": "x", "labels": [{"id": "L1"}]}', "an item of labels is an object"),
        ('{"id": "", "text": "x"}', "a document has no id, but the one at .*:1 has"),
        ("[" * 100_000, "not a JSON object|not JSON|nested too deeply"),
        ('{"a":' * 100_000, "JSON nested too deeply"),
    ],
)
def test_a_bad_line_is_refused_by_its_place(write, line: str, message: str):
    path = write("docs.jsonl", '{"id": "d0", "text": "x"}\n' + line + "\n")
    with pytest.raises(InputError, match=rf"docs\.jsonl:2: {message}"):
        documents(path)


def test_deep_nesting_is_a_line_error_whatever_the_recursion_limit(write):
    path = write("docs.jsonl", '{"id": "d0", "x": ' + "[" * 5000 + "]" * 5000 + "}")
    assert sys.getrecursionlimit() < 5000
    with pytest.raises(InputError, match=r"docs\.jsonl:1: JSON nested too deeply"):
        documents(path)


def test_numbers_are_coerced_as_they_are_written(write):
    huge = "9" * 10_000
    path = write(
        "docs.jsonl",
        f'{{"id": 14.10, "text": 1e5, "labels": [06.0, 7, "8", {huge}]}}'.replace("06.0", "6.00"),
    )
    document = documents(path, coerce=True)[0]
    assert tuple(document)[:3] == ("14.10", "1e5", ["6.00", "7", "8", huge])
    assert {type(v) for v in (document.id, document.text, *document.labels)} == {str}


def test_a_file_without_ids_has_none(write):
    assert [d.id for d in documents(write("a.jsonl", [{"text": "x"}, {"text": "y"}]))] == ["", ""]
    with pytest.raises(
        InputError, match=r"b\.jsonl:1: a document has no id, but the one at .*b\.jsonl:2 has"
    ):
        documents(write("b.jsonl", [{"text": "x"}, {"id": "d2", "text": "y"}]))


def test_documents_given_as_labels_are_refused(write):
    with pytest.raises(InputError, match=r"docs\.jsonl:1: a document \(it has `labels`\)"):
        labels(write("docs.jsonl", [{"id": "d1", "text": "x", "labels": ["L1"]}]))
