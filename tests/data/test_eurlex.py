from __future__ import annotations

import json
from pathlib import Path

import pytest

from xmc.data import eurlex
from xmc.data.formats import open_corpus, read_labels
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import raising
from xmc.errors import InputError

EXCERPT = Path(__file__).parent / "excerpts" / "eurlex57k" / "train"
DOC = {
    "celex_id": "31958R0001",
    "title": "Regulation No 1",
    "header": "THE COUNCIL",
    "recitals": ",\nHaving regard to the Treaty;",
    "main_body": ["Article 1", "Article 2"],
    "attachments": "Done at Brussels",
    "concepts": ["2457", "4274"],
}


def documents(path):
    return list(raising(eurlex.read_documents(path, ReadOptions(), ReadReport())))


def test_a_folder_is_read_in_the_order_of_its_names(write):
    for name in ("b", "a", "c"):
        path = write(f"train/{name}.json", json.dumps({**DOC, "celex_id": name}))
    read = documents(path.parent)
    assert [d.id for d in read] == ["a", "b", "c"]
    assert read[0].text.split("\n") == [
        "Regulation No 1",
        "THE COUNCIL",
        ",",
        "Having regard to the Treaty;",
        "Article 1",
        "Article 2",
        "Done at Brussels",
    ]
    assert read[0].labels == ["2457", "4274"]
    assert [batch.ids for batch in open_corpus([path.parent]).batches()] == [["a", "b", "c"]]


def test_a_record_as_it_is_published():
    (document,) = documents(EXCERPT)
    assert document.id == "31979D0509"
    assert document.labels == ["192", "2356", "2560", "862", "863"]
    assert document.text.startswith("79/509/EEC: Council Decision of 24 May 1979")
    assert document.text.endswith("Article 5 shall apply until 21 June 1981.")


def test_sections_may_be_missing_or_be_one_string(write):
    path = write("test/x.json", json.dumps({"title": "A", "main_body": "whole", "header": None}))
    (document,) = documents(path.parent)
    assert document[:3] == ("x", "A\nwhole", None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"title": "A"', "b.json: not JSON"),
        ("[1]", "b.json: not a JSON object"),
        ('{"name": "x"}', "b.json: no EURLEX57K document"),
        ('{"celex_id": "x", "title": 3}', "b.json: title is the number 3"),
        ('{"id": "x", "title": "A", "labels": ["L1"]}', "b.json: no EURLEX57K document"),
        (b'{"title": "\xe9"}', "b.json:1: invalid UTF-8 byte E9"),
    ],
)
def test_a_broken_file_is_named(write, content, message):
    write("train/a.json", json.dumps(DOC))
    path = write("train/b.json", content)
    with pytest.raises(InputError) as error:
        documents(path.parent)
    assert message in str(error.value)


def test_the_folder_of_all_splits_is_refused_with_what_to_give(write):
    path = write("train/a.json", json.dumps(DOC))
    with pytest.raises(InputError, match=r"holds the folders train; give one of them, such as .*train"):
        documents(path.parent.parent)


def test_concepts_are_read_with_names_and_parents(write):
    concepts = {
        "2457": {"concept_id": "2457", "label": "transport", "alt_labels": ["haulage"], "parents": ["4274"]},
        "4274": {"concept_id": "4274", "label": "policy", "alt_labels": [], "parents": []},
    }
    labels = read_labels(write("EURLEX57K.json", json.dumps(concepts)))
    assert labels.ids.to_pylist() == ["2457", "4274"]
    assert labels.texts.to_pylist() == ["transport", "policy"]
    assert labels.alts.to_pylist() == [["haulage"], []]
    assert labels.broader.to_pylist() == [["4274"], []]


def test_a_concept_that_is_no_object_is_named(write):
    path = write("EURLEX57K.json", '{"2457": "transport"}')
    with pytest.raises(InputError, match="concept '2457': not a JSON object"):
        list(eurlex.read_labels(path, ReadOptions(), ReadReport()))
