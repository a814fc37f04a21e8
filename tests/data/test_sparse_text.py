from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data.sparse_text import TokenError, parse_lines

values = st.floats(allow_nan=False, allow_infinity=False)
features = st.dictionaries(st.integers(0, 10**12), values, max_size=5)
rows = st.lists(st.tuples(st.lists(st.integers(0, 10**9), max_size=4), features), max_size=8)


@given(rows, st.sampled_from(["\n", "\r\n", " \n", "\t\r\n"]), st.sampled_from([" ", "\t", "  "]))
def test_what_is_written_is_read(documents, line_end, blank):
    lines = [
        ",".join(map(str, labels)) + "".join(f"{blank}{i}:{v!r}" for i, v in given_features.items())
        for labels, given_features in documents
    ]
    read = parse_lines("".join(line + line_end for line in lines).encode())
    assert read.n_lines == len(documents)
    for i, (labels, given_features) in enumerate(documents):
        assert read.labels[read.label_lines == i].tolist() == labels
        assert read.features[read.feature_lines == i].tolist() == list(given_features)
        assert read.values[read.feature_lines == i].tolist() == list(given_features.values())


def test_a_leading_blank_means_no_labels_and_a_lone_label_no_features():
    read = parse_lines(b" 3:0.5\n7\n4 \n\n1:2")
    assert read.n_lines == 5
    assert read.labels.tolist() == [7, 4]
    assert read.label_lines.tolist() == [1, 2]
    assert read.feature_lines.tolist() == [0, 4]


@pytest.mark.parametrize(
    ("line", "token", "problem"),
    [
        ("1 2:abc", "2:abc", "not a number"),
        ("1 2:0x1f", "2:0x1f", "not a number"),
        ("0x1f 2:1", "0x1f", "not a label"),
        ("1.5 2:1", "1.5", "not a label"),
        ("1 a:1", "a:1", "not an index"),
        ("1 1.0:1", "1.0:1", "not an index"),
        ("1 2 3:1", "2", "not index:value"),
        (" 1,2 3:1", "1,2", "not index:value"),
        ("1 2:3:4", "2:3:4", "not index:value"),
        ("1 2:3,4", "2:3,4", "not index:value"),
        ("1,2:3", "1,2:3", "blank is missing"),
        ("1,,2 3:1", "1,,2", "comma or colon"),
        (",1 3:1", ",1", "comma or colon"),
        ("1 2:", "2:", "comma or colon"),
        ("1 :2", ":2", "comma or colon"),
        ("1 : 2", ":", "comma or colon"),
        ("1 2:1 99999999999999999999:1", "99999999999999999999:1", "not an index"),
        ("1 2:é", "2:é", "not a number"),
    ],
)
def test_the_bad_token_and_its_line_are_named(line, token, problem):
    with pytest.raises(TokenError) as error:
        parse_lines(f"1 2:1\n\n{line}\n1 2:1\n".encode())
    assert error.value.line == 2
    assert error.value.token == token
    assert problem in str(error.value)


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(TokenError):
        parse_lines(b"1\xff 2:1")
    with pytest.raises(TokenError):
        parse_lines(b"1 2:\xff")


def outcome(data):
    try:
        return parse_lines(data)
    except TokenError as error:
        return error


@given(st.binary(max_size=60) | st.text("0123 :,.\n-e", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused_with_a_line(data):
    read = outcome(data)
    if isinstance(read, TokenError):
        assert 0 <= read.line <= data.count(b"\n")
    else:
        assert len(read.features) == len(read.values) == len(read.feature_lines)
        assert len(read.labels) == len(read.label_lines)
        for lines in (read.label_lines, read.feature_lines):
            assert (np.diff(lines) >= 0).all()
            assert not len(lines) or lines[-1] < read.n_lines
