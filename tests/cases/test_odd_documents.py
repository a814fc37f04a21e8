"""Texts that are null, numbers, empty or very long; ids that stand twice; documents without labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from xmc.data.formats import open_corpus, read_labels
from xmc.data.gold import label_matrix
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.text import is_blank
from xmc.errors import InputError


def docs(folder: Path, *lines: str | dict) -> Path:
    path = folder / "docs.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_null_and_missing_texts_are_empty_documents(tmp_path: Path):
    report = ReadReport()
    corpus = open_corpus([docs(tmp_path, {"id": "d1", "text": None}, {"id": "d2"})], report=report)
    assert [batch.texts for batch in corpus.batches()] == [["", ""]]
    assert report.lines()[0].startswith("2 documents had no text")


def test_a_number_as_text_is_an_error_or_coerced(tmp_path: Path):
    path = docs(tmp_path, {"id": "d1", "text": "x"}, {"id": "d3", "text": 123})
    with pytest.raises(InputError, match=r"docs\.jsonl:2: text is the number 123; .*`coerce=true`"):
        list(open_corpus([path]).batches())
    assert next(open_corpus([path], ReadOptions(coerce=True)).batches()).texts == ["x", "123"]


def test_nan_is_no_json(tmp_path: Path):
    path = docs(tmp_path, {"id": "d1", "text": "x"}, '{"id": "d4", "text": NaN}')
    with pytest.raises(InputError, match=r"docs\.jsonl:2: not JSON: NaN"):
        list(open_corpus([path], ReadOptions(coerce=True)).batches())


@pytest.mark.parametrize("text", ["", "   \n", "\u200b"])
def test_texts_with_nothing_to_see_stay_and_are_known_to_be_blank(tmp_path: Path, text: str):
    report = ReadReport()
    corpus = open_corpus([docs(tmp_path, {"id": "d1", "text": text})], report=report)
    (batch,) = corpus.batches()
    assert batch.texts == [text]
    assert is_blank(batch.texts[0])
    assert report.lines()[0].startswith("1 document had no text")


def test_a_document_id_that_stands_twice(tmp_path: Path):
    path = docs(tmp_path, {"id": "d1", "text": "x"}, {"id": "d2", "text": "y"}, {"id": "d1", "text": "z"})
    with pytest.raises(InputError, match=rf"'d1' stands twice: {path}:1 and {path}:3"):
        list(open_corpus([path]).batches())
    (batch,) = open_corpus([path], ReadOptions(on_duplicate="first")).batches()
    assert batch.texts == ["x", "y"]


def test_documents_without_labels_are_documents(tmp_path: Path):
    vocabulary = tmp_path / "labels.tsv"
    vocabulary.write_text("L1\tair transport\nL2\tfisheries\n")
    path = docs(
        tmp_path, {"id": "d1", "text": "x", "labels": []}, {"id": "d2", "text": "y", "labels": ["L2"]}
    )
    assert label_matrix(open_corpus([path]), read_labels(vocabulary)).toarray().tolist() == [[0, 0], [0, 1]]


def test_a_very_long_token_and_a_left_over_separator_are_text(tmp_path: Path):
    texts = ["(10E,14E)-" * 100, "of the material ¤ <P><b>Part 1 -- Foundations</b>", "a\tb | c ; d"]
    path = docs(tmp_path, *({"id": str(n), "text": text} for n, text in enumerate(texts)))
    assert next(open_corpus([path]).batches()).texts == texts


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udc00 x"'])
def test_half_a_surrogate_pair_is_replaced_and_counted(tmp_path: Path, text: str):
    report = ReadReport()
    (batch,) = open_corpus([docs(tmp_path, f'{{"id": "d1", "text": {text}}}')], report=report).batches()
    assert batch.texts[0].startswith("\ufffd")
    assert report.lines()[0].startswith("1 document had half a surrogate pair")


def test_nesting_without_end_is_a_line_error(tmp_path: Path):
    with pytest.raises(InputError, match=r"docs\.jsonl:1: JSON nested too deeply"):
        list(open_corpus([docs(tmp_path, '{"id": ' * 50_000)]).batches())
