from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data import fields
from xmc.data.options import ReadOptions
from xmc.data.records import Document
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


def test_all_documents_of_a_file_have_an_id_or_none_has():
    with_id, without = Document("d1", "x", None, "a:1"), Document("", "x", None, "a:2")
    for first, second in ((with_id, without), (without, with_id)):
        rule = fields.IdRule()
        assert rule.check(first) == first
        with pytest.raises(InputError, match=r"^a:2: a document has no id, but the one at a:1 has"):
            rule.check(second)
