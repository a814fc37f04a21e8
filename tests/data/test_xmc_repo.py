from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from xmc.data import xmc_repo
from xmc.data.formats import labels_of, open_corpus
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError

FILE = "3 5 4\n0,3 1:0.5 4:2\n 2:1\n1 \n"


def batches(path, size=10, report=None):
    return list(xmc_repo.read_batches(path, size, ReadOptions(), report or ReadReport()))


def test_a_file_is_read_with_its_features_labels_and_places(write):
    path = write("train.txt", FILE)
    (batch,) = batches(path)
    assert batch.features.toarray().tolist() == [[0, 0.5, 0, 0, 2], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0]]
    assert batch.features.dtype == np.float32
    assert batch.labels == [["0", "3"], [], ["1"]]
    assert batch.texts is None
    assert batch.places == [f"{path}:{line}" for line in (2, 3, 4)]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_batches_have_the_size_that_is_asked_for(write, monkeypatch, size):
    monkeypatch.setattr(xmc_repo, "BLOCK", 16)  # many blocks, so that batches cross them
    path = write("train.txt", "7 9 4\n" + "".join(f"1 {i}:1\n" for i in range(7)))
    read = batches(path, size)
    assert [len(batch) for batch in read] == [size] * (7 // size) + [7 % size] * (7 % size > 0)
    rows = sparse.vstack([batch.features for batch in read])
    assert np.array_equal(rows.toarray(), np.eye(7, 9))
    assert [place for batch in read for place in batch.places] == [f"{path}:{i}" for i in range(2, 9)]


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**31))
def test_a_random_matrix_comes_back(tmp_path_factory, n_docs, n_features, seed):
    rng = np.random.default_rng(seed)
    features = sparse.random(n_docs, n_features, 0.3, "csr", np.float32, rng)
    lines = [
        "0" + "".join(f" {i}:{v}" for i, v in zip(row.indices, row.data, strict=True)) for row in features
    ]
    path = tmp_path_factory.mktemp("repo") / "train.txt"
    path.write_text(f"{n_docs} {n_features} 1\n" + "\n".join(lines) + "\n")
    read = sparse.vstack([batch.features for batch in batches(path, 9)])
    assert np.array_equal(read.toarray(), features.toarray())


def test_compression_bom_and_carriage_returns_change_nothing(write):
    plain = batches(write("train.txt", FILE))[0]
    odd = "\ufeff" + FILE.replace("\n", "\r\n")
    packed = batches(write("train.txt.gz", gzip.compress(odd.encode())))[0]
    assert np.array_equal(plain.features.toarray(), packed.features.toarray())
    assert plain.labels == packed.labels


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 5 4\n0 1:1\n0 1:1\n", "train.txt: the header says 3 documents, 2 are present"),
        ("1 5 4\n0 1:1\n\n0 1:1\n0 1:1\n", "header says 1 documents, 3 are present"),
        ("3 5\n0 1:1\n", "train.txt:1: the header is '3 5'; wanted three numbers"),
        ("0 1:1\n", "train.txt:1: the header is '0 1:1'"),
        ("", "train.txt:1: the header is ''"),
        ("1 5 -4\n0 1:1\n", "the header is '1 5 -4'"),
        ("1 5 99999999999999\n0 1:1\n", "the header is '1 5 99999999999999'"),
        ("2 5 4\n0 1:1\n9 1:1\n", "train.txt:3: label 9, but the header says 4 labels; wanted 0 to 3"),
        ("1 5 4\n-1 1:1\n", "train.txt:2: label -1"),
        ("1 5 4\n1 5:1\n", "train.txt:2: feature 5, but the header says 5 features; wanted 0 to 4"),
        ("1 5 4\n1 -2:1\n", "train.txt:2: feature -2"),
        ("2 5 4\n1 1:1\n1 2:abc\n", "train.txt:3: '2:abc' is not a number"),
        ("2 5 4\n1 1:1\n1 2:1 3:1 2:4\n", "train.txt:3: feature index 2 twice"),
        ("2 5 4\n1 1:1\n1 2:nan\n", "train.txt:3: '2:nan' is no finite"),
        ("1 5 4\n1 2:-inf\n", "train.txt:2: '2:-inf' is no finite"),
        ("1 5 4\n1 2:1e39\n", "is no finite 32-bit number"),
    ],
)
def test_malformed_files_are_refused_with_line_and_token(write, content, message):
    with pytest.raises(InputError) as error:
        batches(write("train.txt", content))
    assert message in str(error.value)


def test_a_bad_token_behind_many_blocks_is_named_with_its_line(write, monkeypatch):
    monkeypatch.setattr(xmc_repo, "BLOCK", 64)
    with pytest.raises(InputError, match=r"train.txt:902: '3:x'"):
        batches(write("train.txt", "1000 9 4\n" + "1 1:1\n" * 900 + "1 3:x\n" + "1 1:1\n" * 99))


def test_empty_lines_at_the_end_are_let_pass(write):
    assert len(batches(write("train.txt", FILE + "\n \n"))[0]) == 3


def test_labels_are_numbered_and_take_their_texts_from_a_file_beside(write):
    path = write("train.txt", FILE)
    labels = labels_of(path)
    assert labels.ids.to_pylist() == ["0", "1", "2", "3"]
    assert labels.texts.to_pylist() == [""] * 4
    write("Y.txt", "air\nfish\nlaw\nbudget, annual\n")
    assert labels_of(path).texts.to_pylist() == ["air", "fish", "law", "budget, annual"]


def test_a_file_of_names_that_does_not_fit_is_counted_and_left_out(write):
    path = write("train.txt", FILE)
    write("Y.txt", "air\nfish\n")
    report = ReadReport()
    assert labels_of(path, report=report).texts.to_pylist() == [""] * 4
    assert any("2 lines, 4 labels" in line for line in report.lines())


def test_names_are_also_taken_from_the_raw_labels(write):
    path = write("train.txt", "1 5 2\n0 1:1\n")
    write("lbl.json", [{"uid": "B1", "title": "air"}, {"uid": "B2", "title": "fish"}])
    labels = labels_of(path)
    assert labels.ids.to_pylist() == ["0", "1"]
    assert labels.texts.to_pylist() == ["air", "fish"]


def test_a_split_file_selects_documents_of_the_data_beside_it(write):
    write("Delicious_data.txt", "4 9 4\n" + "".join(f"{i} {i}:1\n" for i in range(4)))
    path = write("delicious_tstSplit.txt", "4 1\n1 2\n")
    report = ReadReport()
    (batch,) = batches(path, report=report)
    assert batch.ids == ["1", "4"]
    assert batch.labels == [["0"], ["3"]]
    assert "2 splits" in report.lines()[0]
    corpus = open_corpus([path])
    assert [batch.ids for batch in corpus.batches()] == [["1", "4"]]


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ("1\n9\n", "document 9 is wanted, but"),
        ("1\nx\n", "split.txt:2: 'x' is not the number"),
        ("0\n", "'0'"),
    ],
)
def test_bad_split_files_are_refused(write, split, message):
    write("data.txt", "1 9 4\n1 1:1\n")
    with pytest.raises(InputError, match=message):
        batches(write("trn_split.txt", split))


def test_a_split_file_alone_says_what_is_missing(write):
    with pytest.raises(InputError, match=r"wanted bibtex_data.txt in the same folder"):
        batches(write("bibtex_trSplit.txt", "1\n"))


def test_the_corpus_reads_sparse_files(write):
    corpus = open_corpus([write("train.txt", FILE)])
    assert corpus.n_features == 5
    assert not corpus.has_text
    assert [batch.ids for batch in corpus.batches(2)] == [["1", "2"], ["3"]]
