"""Records that are no documents, kept as faults beside those that are, or raised."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xmc.data.corpus import Corpus
from xmc.data.options import ReadOptions
from xmc.errors import InputError

GOOD = b'{"id": "d1", "text": "air"}\n'
CASES = {
    "not JSON": ("x.jsonl", GOOD + b"{nonsense\n" + GOOD.replace(b"d1", b"d2")),
    "text is the number 3": ("x.jsonl", GOOD + b'{"id": "n", "text": 3}\n' + GOOD.replace(b"d1", b"d2")),
    "invalid UTF-8 byte E9": (
        "x.jsonl",
        GOOD + b'{"id": "n", "text": "\xe9"}\n' + GOOD.replace(b"d1", b"d2"),
    ),
    "a document has no id": ("x.jsonl", GOOD + b'{"text": "n"}\n' + GOOD.replace(b"d1", b"d2")),
    "document id 'd1' stood before": ("x.jsonl", GOOD + GOOD + GOOD.replace(b"d1", b"d2")),
    "1 column; the first line names 2": ("x.csv", b"id,text\nd1,air\nn\nd2,sea\n"),
    "not CSV: a carriage return": ("x.csv", b'id,text\nd1,air\nn,a\rb\nd2,"sea\nside"\n'),
    "invalid UTF-8 byte E9 ": ("x.csv", b"id,text\nd1,air\nn,\xe9\nd2,sea\n"),
    "3 columns; the first line names 2": ("x.tsv", b"id\ttext\nd1\tair\nn\tn\tn\nd2\tsea\n"),
}


@pytest.mark.parametrize("what", CASES)
def test_the_documents_around_a_fault_are_read(tmp_path: Path, what: str) -> None:
    name, content = CASES[what]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError):
        list(Corpus([tmp_path / name]).batches())
    batches = list(Corpus([tmp_path / name], keep_faults=True).batches())
    assert [doc_id for batch in batches for doc_id in batch.ids] == ["d1", "d2"]
    (fault,) = (fault for batch in batches for fault in batch.faults)
    assert what.strip() in fault.reason
    assert fault.place == f"{tmp_path / name}:{3 if name != 'x.jsonl' else 2}"


def test_every_document_file_of_a_folder_counts_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"air")
    (tmp_path / "b.txt").write_bytes(b"\xe9")
    (tmp_path / "c.txt").write_bytes(b"sea")
    (batch,) = Corpus([tmp_path], keep_faults=True).batches()
    assert batch.ids == ["a", "c"]
    assert [fault.place for fault in batch.faults] == [f"{tmp_path}/b.txt"]


def test_a_file_cut_off_in_the_middle_ends_there_and_the_next_is_read(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": "%d", "text": "some words %d"}\n' % (i, i * 7919) for i in range(2000))
    whole = gzip.compress(lines)
    (tmp_path / "1.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "2.jsonl").write_bytes(GOOD)
    batches = list(Corpus([tmp_path], keep_faults=True).batches(100))
    ids = [doc_id for batch in batches for doc_id in batch.ids]
    assert ids[:-1] == [str(i) for i in range(len(ids) - 1)]
    assert len(ids) > 500
    assert ids[-1] == "d1"
    (fault,) = (fault for batch in batches for fault in batch.faults)
    assert fault.ends_file
    assert "the file ends too early" in fault.reason
    assert "the rest of the file was not read" in fault.reason


def test_a_quote_that_stays_open_ends_the_file(tmp_path: Path) -> None:
    rows = "".join(f"d{i},some text {i}\n" for i in range(20))
    (tmp_path / "1.csv").write_text(f'id,text\n{rows}open,"a text\n{rows.replace("d", "e")}')
    (tmp_path / "2.csv").write_text("id,text\nlast,sea\n")
    with pytest.raises(InputError, match=r"1\.csv:22: not CSV: a quote that is never closed"):
        list(Corpus([tmp_path]).batches())
    (batch,) = Corpus([tmp_path], keep_faults=True).batches()
    assert batch.ids == [*(f"d{i}" for i in range(20)), "last"]
    (fault,) = batch.faults
    assert fault.ends_file
    told = "a quote that is never closed, in the record that begins here and reaches to line 42"
    assert str(fault.error).endswith(f"1.csv:22: not CSV: {told}; the rest of the file was not read")


def test_a_quote_that_is_closed_too_late_tells_how_far_it_reaches(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('id,text\nd1,air\nn,"open\nm,lost\nl,"closed\nd2,sea\n')
    (batch,) = Corpus([tmp_path / "x.csv"], keep_faults=True).batches()
    assert batch.ids == ["d1", "d2"]
    (fault,) = batch.faults
    assert str(fault.error).startswith(f"{tmp_path}/x.csv:3: not CSV: ")
    assert str(fault.error).endswith("begins here and reaches to line 5")


def test_numbers_of_documents_without_ids_count_the_faults(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b'{"text": "a"}\n{no\n{"text": "b"}\n')
    (batch,) = Corpus([tmp_path / "x.jsonl"], keep_faults=True).batches()
    assert batch.ids == ["1", "3"]


def test_faults_do_not_pile_up_in_memory(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(GOOD + b"{no\n" * 1000 + GOOD.replace(b"d1", b"d2"))
    batches = list(Corpus([tmp_path / "x.jsonl"], keep_faults=True).batches(100))
    assert sum(len(batch.faults) for batch in batches) == 1000
    assert max(len(batch.faults) for batch in batches) <= 200
    assert [doc_id for batch in batches for doc_id in batch.ids] == ["d1", "d2"]


@pytest.mark.parametrize("on_duplicate", ["first", "error"])
def test_faults_stay_where_repeats_are_left_out(tmp_path: Path, on_duplicate: str) -> None:
    (tmp_path / "x.jsonl").write_bytes(GOOD + b"{no\n" + GOOD)
    options = ReadOptions(on_duplicate=on_duplicate)
    (batch,) = Corpus([tmp_path / "x.jsonl"], options, keep_faults=True).batches()
    assert batch.ids == ["d1"]
    assert len(batch.faults) == (1 if on_duplicate == "first" else 2)


def test_the_only_file_must_begin_with_something(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(InputError):
        list(Corpus([tmp_path / "x.csv"], keep_faults=True).batches())
