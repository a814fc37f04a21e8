"""XMC repository files: the malformed ones of the list, and the lawful ones that others trip over."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data.formats import labels_of, open_corpus
from xmc.data.gold import label_matrix
from xmc.errors import InputError


def read(path):
    return list(open_corpus([path]).batches())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 5 4\n1 2:1\n2 3:1\n", "the header says 3 documents, 2 are present"),
        ("3 5\n1 2:1\n2 3:1\n", "x.txt:1: the header is '3 5'; wanted three numbers"),
        ("2 5 4\n1 2:1\n9 3:1\n", "x.txt:3: label 9, but the header says 4 labels"),
        ("2 5 4\n1 2:1\n1 2:abc\n", "x.txt:3: '2:abc' is not a number"),
        ("2 5 4\n1 2:1\n1 3:1 3:2\n", "x.txt:3: feature index 3 twice"),
    ],
)
def test_each_fault_is_named_with_line_and_token(tmp_path, content, message):
    path = tmp_path / "x.txt"
    path.write_text(content)
    with pytest.raises(InputError) as error:
        read(path)
    assert message in str(error.value)


def test_documents_without_labels_and_without_features_are_lawful(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("4 5 4\n 1:1 4:1\n3 \n \n0,2 0:0.5\n")
    (batch,) = read(path)
    assert batch.labels == [[], ["3"], [], ["0", "2"]]
    assert np.diff(batch.features.indptr).tolist() == [2, 0, 0, 1]
    gold = label_matrix(open_corpus([path]), labels_of(path))
    assert gold.toarray().tolist() == [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 1, 0]]


def outcome(path):
    """The number of documents read, and what a user is told about a file that is refused."""
    try:
        return sum(map(len, read(path))), ""
    except InputError as error:
        return 0, str(error)


@given(st.text("0123456789 :,.\n-naif", max_size=80))
def test_any_text_behind_a_header_is_read_or_refused_in_one_sentence(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("sparse") / "x.txt"
    path.write_text(f"2 50 4\n{text}")
    n_docs, message = outcome(path)
    assert n_docs == 2 or (str(path) in message and "\n" not in message)
