from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmc.data import corpus as module
from xmc.data.corpus import Corpus
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError, SettingError


def ids(corpus: Corpus, size: int = 1024) -> list[list[str]]:
    return [batch.ids for batch in corpus.batches(size)]


def numbered(n: int, start: int = 0) -> list[dict]:
    return [{"id": f"d{i}", "text": f"text {i}", "labels": [f"L{i}"]} for i in range(start, start + n)]


def test_batches_have_the_size_asked_for_through_all_files(write):
    corpus = Corpus([write("a.jsonl", numbered(5)), write("b.jsonl", numbered(4, 5)), write("c.jsonl", [])])
    assert ids(corpus, 4) == [["d0", "d1", "d2", "d3"], ["d4", "d5", "d6", "d7"], ["d8"]]
    assert ids(corpus, 9) == [[f"d{i}" for i in range(9)]]
    assert corpus.has_text
    assert corpus.n_features is None


def test_documents_of_each_file_are_counted_once_all_are_read(write):
    paths = [write("a.jsonl", numbered(5)), write("b.jsonl", []), write("c.jsonl", numbered(4, 3))]
    corpus = Corpus(paths, ReadOptions(on_duplicate="first"))
    next(corpus.batches(2))
    assert corpus.n_docs == []
    ids(corpus, 2)
    assert corpus.n_docs == [5, 0, 2]


def test_a_batch_holds_parallel_fields(write):
    path = write("a.jsonl", numbered(2))
    batch = next(Corpus([path]).batches())
    assert len(batch) == 2
    assert batch.texts == ["text 0", "text 1"]
    assert batch.labels == [["L0"], ["L1"]]
    assert batch.places == [f"{path}:1", f"{path}:2"]
    assert batch.features is None


def test_labels_are_none_where_no_document_has_any(write):
    bare = write("a.jsonl", [{"id": "a", "text": "x"}])
    assert next(Corpus([bare]).batches()).labels is None
    some = write("b.jsonl", [{"id": "b", "text": "x", "labels": ["L1"]}, {"id": "c", "text": "x"}])
    assert next(Corpus([some]).batches()).labels == [["L1"], []]
    assert next(Corpus([bare, some]).batches()).labels == [[], ["L1"], []]


def test_reading_again_gives_the_same_and_counts_once(write):
    report = ReadReport()
    corpus = Corpus([write("a.jsonl", [{"id": "a", "text": " "}, *numbered(3)])], report=report)
    next(corpus.batches(2))
    assert report.counts == {}
    assert ids(corpus) == ids(corpus)
    assert report.counts == {"documents had no text": 1}


def test_standard_input_is_read_twice(monkeypatch):
    content = "".join(json.dumps(record) + "\n" for record in numbered(3))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    corpus = Corpus(["-"])
    assert ids(corpus) == ids(corpus) == [["d0", "d1", "d2"]]
    assert next(corpus.batches()).places[2] == "-:3"


def test_odd_texts_stay_and_are_counted(write):
    report = ReadReport()
    records = [
        {"id": "d1", "text": "fish\x00eries \x07"},
        {"id": "d2", "text": None},
        {"id": "d3"},
        {"id": "d4", "text": "   \n"},
        {"id": "d5", "text": "\u200b"},
        {"id": "d6", "text": "\ud800", "labels": ["L1", "L1", "L2"]},
    ]
    path = write("a.jsonl", records)
    batch = next(Corpus([path], report=report).batches())
    list(Corpus([path], report=report).batches())
    assert batch.texts == ["fish eries  ", "", "", "   \n", "\u200b", "\ufffd"]
    assert batch.labels[5] == ["L1", "L2"]
    assert report.lines() == [
        f"1 document had control characters ({path}:1)",
        f"4 documents had no text ({path}:2, {path}:3, {path}:4, {path}:5)",
        f"1 document had half a surrogate pair ({path}:6)",
        f"1 document had a gold label more than once ({path}:6)",
    ]


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_repeated_id_is_refused_with_both_places(write, size: int):
    first, second = write("a.jsonl", numbered(5)), write("b.jsonl", [*numbered(3, 5), *numbered(1, 2)])
    with pytest.raises(InputError) as caught:
        ids(Corpus([first, second]), size)
    assert f"document id 'd2' stands twice: {first}:3 and {second}:4; " in str(caught.value)
    assert "`on_duplicate=first`" in str(caught.value)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_the_first_of_a_repeated_id_is_kept(write, size: int):
    report = ReadReport()
    records = [*numbered(3), {"id": "d1", "text": "other"}, {"id": "d1", "text": "third"}, *numbered(2, 3)]
    path = write("a.jsonl", records)
    corpus = Corpus([path], ReadOptions(on_duplicate="first"), report)
    found = list(corpus.batches(size))
    assert [i for batch in found for i in batch.ids] == ["d0", "d1", "d2", "d3", "d4"]
    assert [text for batch in found for text in batch.texts][1] == "text 1"
    assert all(len(batch) == size for batch in found[:-1])
    what = "documents had an id that stood before and were left out"
    assert report.lines() == [f"2 {what} ({path}:4, {path}:5)"]


def test_equal_hashes_of_different_ids_are_no_repetition(write, monkeypatch):
    monkeypatch.setattr(module, "hashes", lambda found: np.zeros(len(found), dtype=np.int64))
    assert ids(Corpus([write("a.jsonl", numbered(5))]), 2) == [["d0", "d1"], ["d2", "d3"], ["d4"]]


@given(st.lists(st.lists(st.text("abc", max_size=2))))
def test_seen_ids_finds_every_repetition(groups: list[list[str]]):
    seen, before = module._SeenIds(), set()
    for group in groups:
        repeats = []
        for i, doc_id in enumerate(group):
            if doc_id in before:
                repeats.append(i)
            before.add(doc_id)
        assert seen.add(group).tolist() == repeats


def test_seen_ids_takes_eight_bytes_an_id():
    seen = module._SeenIds()
    for start in range(0, 100_000, 1000):
        assert len(seen.add([str(n) for n in range(start, start + 1000)])) == 0
    assert sum(run.nbytes for run in seen._runs) == 800_000
    assert len(seen._runs) < 10
    assert seen.add(["99999", "x", "0"]).tolist() == [0, 2]


def test_documents_without_ids_are_numbered_through_all_files(write):
    report = ReadReport()
    bare, more = (write(name, [{"text": "x"}, {"text": "y"}]) for name in ("a.jsonl", "c.jsonl"))
    corpus = Corpus([bare, write("b.jsonl", numbered(1)), more], report=report)
    assert ids(corpus) == [["1", "2", "d0", "4", "5"]]
    assert report.counts == {"documents had no id and were numbered": 4}


@pytest.mark.parametrize("bad", ["a\nb", "\ud800"])
def test_an_id_that_cannot_be_one_is_refused(write, bad: str):
    with pytest.raises(InputError, match=r"a\.jsonl:1: document id"):
        ids(Corpus([write("a.jsonl", [{"id": bad, "text": "x"}])]))
    if bad != "a\nb":
        with pytest.raises(InputError, match=r"a\.jsonl:1: gold label id"):
            ids(Corpus([write("a.jsonl", [{"id": "d", "text": "x", "labels": [bad]}])]))


def test_sparse_documents_come_in_batches_too(write):
    a = write("a.txt", "3 4 2\n0,1 0:1 3:0.5\n 1:2\n1 \n")
    b = write("b.txt", "2 4 2\n0 2:1\n1 3:1\n")
    report = ReadReport()
    corpus = Corpus([a, b], report=report)
    assert not corpus.has_text
    assert corpus.n_features == 4
    batches = list(corpus.batches(2))
    assert [batch.ids for batch in batches] == [["1", "2"], ["3", "4"], ["5"]]
    assert [batch.labels for batch in batches] == [[["0", "1"], []], [["1"], ["0"]], [["1"]]]
    assert batches[0].texts is None
    assert batches[0].features.toarray().tolist() == [[1, 0, 0, 0.5], [0, 2, 0, 0]]
    assert batches[1].features.toarray().tolist() == [[0, 0, 0, 0], [0, 0, 1, 0]]
    assert report.counts["documents had no features"] == 1


def test_files_that_do_not_fit_together_are_refused(write):
    text = write("a.jsonl", numbered(1))
    four, five = write("a.txt", "1 4 2\n0 0:1\n"), write("b.txt", "1 5 2\n0 0:1\n")
    with pytest.raises(InputError, match=r"a\.txt holds sparse features and .*a\.jsonl text"):
        Corpus([text, four])
    with pytest.raises(InputError, match="5 features; the file before has 4"):
        ids(Corpus([four, five]))


def test_bad_arguments_are_refused(write, tmp_path: Path):
    with pytest.raises(SettingError, match="no documents given"):
        Corpus([])
    with pytest.raises(InputError, match="no such file"):
        Corpus([tmp_path / "missing.jsonl"])
    with pytest.raises(SettingError, match="on_duplicate=last"):
        Corpus([write("a.jsonl", [])], ReadOptions(on_duplicate="last"))
    with pytest.raises(ValueError, match="a batch of 0"):
        next(Corpus([write("a.jsonl", [])]).batches(0))
