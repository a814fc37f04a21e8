from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data import fields
from xmc.data.options import ReadOptions
from xmc.data.records import Document, Fault
from xmc.errors import InputError

OPTIONS = ReadOptions()


def test_numbers_stay_as_they_are_written():
    value = fields.parse_json('{"a": 14.10, "b": [-0, 1E400]}', "a:1")
    assert value == {"a": "14.10", "b": ["-0", "1E400"]}
    assert isinstance(value["a"], fields.Number)


@given(st.text(max_size=50))
def test_json_is_a_value_or_an_error_of_one_line(text: str):
    message = "a:1: not JSON: "
    try:
        fields.parse_json(text, "a:1")
    except InputError as error:
        message = str(error)
    assert message.startswith("a:1: not JSON: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("cell", "ids"),
    [
        ("", []),
        ("L1", ["L1"]),
        ("a,b; c | d||", ["a,b; c", "d"]),
        ('["a|b", " c ", "[d]"]', ["a|b", " c ", "[d]"]),
        (" [] ", []),
        ("[open", ["[open"]),
    ],
)
def test_ids_in_a_cell(cell: str, ids: list[str]):
    assert fields.split_cell(cell, "labels", "a:1", OPTIONS) == ids


@pytest.mark.parametrize("cell", ["[abc]", "['L1', 'L2']", "[1]", '[["a"]]'])
def test_a_cell_in_square_brackets_is_json_of_strings(cell: str):
    with pytest.raises(InputError, match=r"^a:1: "):
        fields.split_cell(cell, "labels", "a:1", OPTIONS)


@pytest.mark.parametrize(
    ("value", "flag"), [(None, False), (True, True), ("Yes", True), ("0", False), ("", False)]
)
def test_retired_is_a_flag(value: object, flag: bool):
    assert fields.label({"id": "L1", "retired": value}, "a:1", OPTIONS).retired is flag


def document(doc_id: str, number: int) -> Document:
    return Document(doc_id, "x", None, f"a:{number}")


@pytest.mark.parametrize("n", [1, 19])
def test_a_document_without_id_is_a_fault_among_others_that_have_one(n: int):
    having = [document(f"d{i}", i) for i in range(n + 1, n + 30)]
    records = [*(document("", i) for i in range(1, n + 1)), *having, document("", 99)]
    found = list(fields.alike_in_ids(records))
    assert [record for record in found if isinstance(record, Document)] == having
    faults = [record for record in found if isinstance(record, Fault)]
    assert [fault.place for fault in faults] == [*(f"a:{i}" for i in range(1, n + 1)), "a:99"]
    assert str(faults[0].error).startswith(f"a:1: a document has no id, but the one at a:{n + 1} has")


def test_a_late_id_ends_a_file_of_documents_without():
    records = fields.alike_in_ids([*(document("", i) for i in range(1, 30)), document("d", 30)])
    assert [next(records).place for _ in range(29)] == [f"a:{i}" for i in range(1, 30)]
    with pytest.raises(InputError, match=r"^a:1: a document has no id, but the one at a:30 has"):
        next(records)


def test_ids_are_looked_for_behind_faults_too():
    faults = [Fault("a:1", InputError("no record"))] * 40
    assert list(fields.alike_in_ids(faults)) == faults
    for doc_id in ("", "d"):
        records = [*faults, document(doc_id, 6), document(doc_id and "e", 7)]
        assert list(fields.alike_in_ids(records)) == records


def test_what_stands_before_damage_is_read():
    def damaged():
        yield document("", 1)
        yield document("", 2)
        raise InputError("damaged")

    records = fields.alike_in_ids(damaged())
    assert [next(records).place for _ in range(2)] == ["a:1", "a:2"]
    with pytest.raises(InputError, match="damaged"):
        next(records)
