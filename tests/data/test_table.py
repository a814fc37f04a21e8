from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data import table
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Label, raising
from xmc.errors import InputError

IDS = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), min_size=1)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
LINES = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"))
HEADER = ["id", "text", "labels"]


def documents(path, **options) -> list[Document]:
    return list(raising(table.read_documents(path, ReadOptions(**options), ReadReport())))


def labels(path, **options) -> list[Label]:
    return list(table.read_labels(path, ReadOptions(**options), ReadReport()))


def written(rows: list[tuple], **dialect) -> bytes:
    out = io.StringIO()
    csv.writer(out, **dialect).writerows([HEADER, *((i, t, json.dumps(gold)) for i, t, gold in rows)])
    return out.getvalue().encode()


@given(
    st.lists(st.tuples(IDS, TEXTS, st.lists(IDS))),
    st.sampled_from(",;"),
    # Some versions of Python's csv leave a carriage return without quotes where lines end in \n.
    st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\r\n", csv.QUOTE_ALL), ("\n", csv.QUOTE_ALL)]),
)
def test_any_documents_survive_csv(tmp_path_factory, rows: list[tuple], delimiter: str, style: tuple):
    (end, quoting), path = style, tmp_path_factory.mktemp("t") / "docs.csv"
    path.write_bytes(written(rows, delimiter=delimiter, lineterminator=end, quoting=quoting))
    assert [tuple(d)[:3] for d in documents(path)] == rows


@given(
    st.lists(st.tuples(IDS, LINES, st.lists(IDS))),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_any_documents_of_one_line_survive_tsv(tmp_path_factory, rows: list[tuple], end: str, quoting: int):
    path = tmp_path_factory.mktemp("t") / "docs.tsv"
    path.write_bytes(written(rows, delimiter="\t", lineterminator=end, quoting=quoting))
    assert [tuple(d)[:3] for d in documents(path)] == rows


@given(st.lists(st.lists(LINES, min_size=1)), st.booleans())
def test_tabs_split_any_line_as_csv_wrote_it(rows: list[list[str]], all_quoted: bool):
    quoting = csv.QUOTE_ALL if all_quoted else csv.QUOTE_MINIMAL
    for row in rows:
        out = io.StringIO()
        csv.writer(out, delimiter="\t", lineterminator="", quoting=quoting).writerow([*row, "\t"])
        assert table.split_tsv(out.getvalue(), all_quoted) == [*row, "\t"]


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ('L4\t"budget, annual"', ["L4", "budget, annual"]),
        ('L5\t"Fram" Expedition', ["L5", '"Fram" Expedition']),
        ('L6\t"Fram"', ["L6", '"Fram"']),
        ('L7\t3.5" disks', ["L7", '3.5" disks']),
        ('L8\t"open', ["L8", '"open']),
        ('"a\tb"\t"""c"""', ["a\tb", '"c"']),
        ('\t"', ["", '"']),
        ('"a"\t', ['"a"', ""]),
    ],
)
def test_quotes_in_tsv_come_off_where_they_were_needed(line: str, cells: list[str]):
    assert table.split_tsv(line) == cells


def test_a_tsv_without_header_is_id_and_text(write):
    path = write("labels.tsv", "L1\tair transport\r\n\r\nL4\tbudget, annual\n")
    assert labels(path) == [
        Label("L1", "air transport", place=f"{path}:1"),
        Label("L4", "budget, annual", place=f"{path}:3"),
    ]
    assert [tuple(d)[:3] for d in documents(path)] == [
        ("L1", "air transport", None),
        ("L4", "budget, annual", None),
    ]


def test_a_third_column_without_header_is_refused(write):
    path = write("labels.tsv", "L1\tair transport\nL2\tsatyr play\ts\n")
    with pytest.raises(InputError, match=r"labels\.tsv:2: 3 columns; id TAB text was wanted"):
        labels(path)
    with pytest.raises(InputError, match=r"labels\.tsv:2: 1 column; id TAB text was wanted"):
        labels(write("labels.tsv", "L1\tair transport\nL2\n"))


@pytest.mark.parametrize("separator", ["\t", ",", ";"])
def test_named_columns_stand_in_any_order(write, separator: str):
    rows = [
        ("\ufeffText", "size", "ID", "alt", "Broader", "description", "retired"),
        ("air transport", "3", "L1", "aviation|flying | ", "", "by air", "yes"),
        ("ships", "4", "L2", "", '"[""L|1""]"' if separator != "\t" else '["L|1"]', "", ""),
    ]
    path = write("labels.csv", "".join(separator.join(row) + "\r\n" for row in rows))
    assert labels(path) == [
        Label("L1", "air transport", ("aviation", "flying"), "by air", (), True, f"{path}:2"),
        Label("L2", "ships", (), "", ("L|1",), False, f"{path}:3"),
    ]


def test_a_csv_record_may_run_over_lines(write):
    path = write("docs.csv", 'id,text\r\nd1,"two\r\nlines, ""quoted"""\r\n\r\nd2,"x"\r\n')
    assert [tuple(d) for d in documents(path)] == [
        ("d1", 'two\r\nlines, "quoted"', None, f"{path}:2"),
        ("d2", "x", None, f"{path}:5"),
    ]


def test_numbers_in_a_table_are_strings(write):
    path = write("labels.csv", "id,text\n14.10,1e5\n06,NaN\n")
    assert [(label.id, label.text) for label in labels(path)] == [("14.10", "1e5"), ("06", "NaN")]


def test_title_and_text_and_gold_labels(write):
    path = write(
        "docs.tsv", 'title\ttext\tlabels\nLaw\tof the sea\tL1|a,b\nShips\t\t["L|1", "[x]"]\nAir\tx\t\n'
    )
    assert [tuple(d)[:3] for d in documents(path)] == [
        ("", "Law\nof the sea", ["L1", "a,b"]),
        ("", "Ships", ["L|1", "[x]"]),
        ("", "Air\nx", []),
    ]


def test_a_long_field_is_no_problem(write):
    text = "law " * 100_000
    assert documents(write("a.csv", f"id,text\nd1,{text}\n"))[0].text == text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id,text\nd1,x,y\n", r":2: 3 columns; the first line names 2: id, text"),
        ("id\ttext\nd1\n", r":2: 1 column; the first line names 2: id, text"),
        (
            'id\ttext\nd1\t"two\nlines"\n',
            r":3: 1 column, and a quote that stays open; 2 were wanted, on one line",
        ),
        ('id,text\nd1,x\nd2,"open\nd3,y\n', r":3: not CSV: .* in the record that begins here"),
        ('id,text\nd1,"a"b\n', r":2: not CSV"),
        ("id,text\nd1,a\rb\n", r":2: not CSV: a carriage return outside quotes"),
        (
            "L1,air transport\n",
            r":1: no header: .*; a first line naming the columns was wanted, such as id,text",
        ),
        ("id,labels\nd1,L1\n", r":1: the columns are id, labels; one named text or title was wanted"),
        ("id,text,Text\nd1,a,b\n", r":1: two columns are named text"),
        ("id,text,labels\nd1,x,['L1']\n", r":2: labels: not JSON"),
        ("id,text,labels\nd1,x,[1]\n", r":2: an item of labels is the number 1"),
    ],
)
def test_a_bad_table_is_refused_by_its_place(write, content: str, message: str):
    with pytest.raises(InputError, match=r"docs\.csv" + message):
        documents(write("docs.csv", content))


def test_bad_label_tables_are_refused(write):
    with pytest.raises(InputError, match="one named id was wanted"):
        labels(write("a.csv", "text,alt\nx,y\n"))
    with pytest.raises(InputError, match=r":2: retired is 'maybe'; true or false was wanted"):
        labels(write("a.csv", "id,text,retired\nL1,x,maybe\n"))
    with pytest.raises(InputError, match=r":2: a document"):
        labels(write("a.csv", "id,text,labels\nd1,x,L1\n"))


@pytest.mark.parametrize(
    ("line", "header"),
    [
        ("id\ttext", True),
        ('"id","text"', True),
        ("ID;Title;year", True),
        ("id", True),
        ("text\tfoo", True),
        ("L1\ttext", False),
        ("L1\tair transport, labels", False),
        ("", False),
    ],
)
def test_a_header_is_told_by_known_names(line: str, header: bool):
    assert table.has_header(line) == header
