"""Corpus T and its odd relatives through `xmc index`, `xmc tag` and `xmc eval`, words only."""

from __future__ import annotations

import csv
import json
import time
from pathlib import Path

import pytest

from tests.cases.corpus_t import (
    DOCS,
    LABELS,
    data_files,
    docs_file,
    ids,
    index,
    jsonl,
    labels_file,
    synthetic,
    tag,
    xmc,
)
from xmc.tag.tagger import Tagger


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return index(folder / "model", labels_file(folder / "labels.jsonl"), docs_file(folder / "docs.jsonl"))


def texts_file(path: Path, *texts: str) -> Path:
    return jsonl(path, ({"id": f"q{i}", "text": text} for i, text in enumerate(texts)))


def evaluated(gold: Path, predicted: Path, labels: Path, capsys, *more: object) -> tuple[dict, str]:
    capsys.readouterr()
    assert xmc("eval", "--gold", gold, "--pred", predicted, "--labels", labels, "--json", *more) == 0
    said = capsys.readouterr()
    return json.loads(said.out), said.err


def test_bom_and_crlf_give_the_same_data_files(tmp_path):
    plain, windows = tmp_path / "plain", tmp_path / "windows"
    for folder, mark, end in ((plain, b"", b"\n"), (windows, b"\xef\xbb\xbf", b"\r\n")):
        folder.mkdir()
        (folder / "labels.tsv").write_bytes(mark + end.join([b"L1\tair transport", b"L2\tfisheries", b""]))
        docs = [b'{"id":"d1","text":"fish","labels":["L2"]}', b'{"id":"d2","text":"by air"}', b""]
        (folder / "docs.jsonl").write_bytes(mark + end.join(docs))
        index(folder / "model", folder / "labels.tsv", folder / "docs.jsonl")
        tag(folder / "model", folder / "docs.jsonl", folder / "out.jsonl")
    assert data_files(windows / "model") == data_files(plain / "model")
    assert (windows / "out.jsonl").read_bytes() == (plain / "out.jsonl").read_bytes()
    assert Tagger.load(windows / "model").labels.texts.to_pylist() == ["air transport", "fisheries"]


def test_blank_documents_are_counted_and_get_a_reason(model, tmp_path, capsys):
    blank = ["", "   \n", "\u200b", "\ufeff", "\u00ad\u200d\ufe0f"]
    docs = texts_file(tmp_path / "docs.jsonl", *blank, "fisheries")
    found = list(tag(model, docs, tmp_path / "out.jsonl").values())
    assert [each.get("reason") for each in found] == ["empty_text"] * 5 + [None]
    assert [ids(each) for each in found[:5]] == [[]] * 5
    assert ids(found[5])[0] == "L2"
    said = capsys.readouterr().err
    assert "5 documents had no text" in said
    assert "5 documents without a suggestion: empty_text" in said


def test_blank_documents_do_not_disturb_the_build(tmp_path):
    docs = [*DOCS, ("e1", "", ["L1"]), ("e2", "\u200b", []), ("e3", "\n", ["L2"])]
    model = index(tmp_path / "m", labels_file(tmp_path / "l.jsonl"), docs_file(tmp_path / "d.jsonl", docs))
    tagger = Tagger.load(model)
    assert tagger.memory.index.n_searchable == 5
    assert tagger.tag(["fisheries"])[0][0].id == "L2"


def test_a_label_without_text_and_document_is_kept_and_never_suggested(tmp_path, capsys):
    labels = labels_file(tmp_path / "labels.jsonl", [*LABELS, ("L5", ""), ("L6", "—")])
    docs = docs_file(tmp_path / "docs.jsonl")
    model = index(tmp_path / "model", labels, docs)
    said = capsys.readouterr().err
    assert "6 labels, 4 of them scoreable" in said
    assert "2 labels without words and documents, not scoreable yet: 'L5', 'L6'" in said
    found = tag(model, docs, tmp_path / "out.jsonl", "top_k=100")
    assert {label for each in found.values() for label in ids(each)} == {"L1", "L2", "L3", "L4"}


def test_a_retired_label_is_never_suggested(tmp_path, capsys):
    records = ({"id": i, "text": t, "retired": i == "L2"} for i, t in LABELS)
    labels, docs = jsonl(tmp_path / "labels.jsonl", records), docs_file(tmp_path / "docs.jsonl")
    model = index(tmp_path / "model", labels, docs)
    assert "2 gold labels were retired and left out" in capsys.readouterr().err
    found = tag(model, docs, tmp_path / "out.jsonl", "top_k=100")
    assert [sorted(ids(each)) for each in found.values()] == [["L1", "L3", "L4"]] * 5


@pytest.mark.parametrize("kind", ["auto", "exact", "hnsw", "ivf_flat", "ivf_sq8", "ivf_pq"])
def test_more_suggestions_asked_for_than_there_are_labels(tmp_path, kind):
    labels, docs = labels_file(tmp_path / "labels.jsonl"), docs_file(tmp_path / "docs.jsonl")
    model = index(tmp_path / "model", labels, docs, more=["preset=fast", f"index.kind={kind}"])
    found = tag(model, docs, tmp_path / "out.jsonl", "top_k=5000")
    assert [sorted(ids(each)) for each in found.values()] == [["L1", "L2", "L3", "L4"]] * 5


@pytest.mark.parametrize("top_k", ["-1", "1.5", "ten"])
def test_a_number_of_suggestions_that_cannot_be(model, tmp_path, capsys, top_k):
    docs = docs_file(tmp_path / "docs.jsonl")
    assert xmc("tag", "--model", model, "--docs", docs, "-o", tmp_path / "o.jsonl", f"top_k={top_k}") == 2
    assert f"top_k={top_k}: wanted" in capsys.readouterr().err


ODD = [
    ("a,b", "budget, annual"),
    ("with\ttab", "text\twith tab"),
    ("قانون", "قانون البحار"),
    ("e\u0301", "cafe\u0301"),
    ("\u00e9", "th\u00e9"),
    ("👩‍⚖️", "👩‍⚖️"),
    ('q"uote', "\"quoted\", and 'more'"),
    ("bidi", "left \u202eright\u202c"),
    (" blank ", " blanks  inside "),
    ("=1+2", "=formula"),
]


@pytest.fixture(scope="module")
def odd_model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("odd")
    docs = docs_file(folder / "docs.jsonl", [(f"d{i}", t, [i]) for i, t in ODD])
    return index(folder / "model", labels_file(folder / "labels.jsonl", ODD), docs)


def test_odd_labels_come_out_as_they_went_in(odd_model, tmp_path):
    docs = texts_file(tmp_path / "docs.jsonl", *(text for _, text in ODD))
    found = tag(odd_model, docs, tmp_path / "out.jsonl").values()
    best = [each["suggestions"][0] for each in found]
    assert [(label["id"], label["text"]) for label in best] == ODD


def test_odd_labels_in_csv(odd_model, tmp_path):
    docs, out = texts_file(tmp_path / "docs.jsonl", *(text for _, text in ODD)), tmp_path / "out.csv"
    assert xmc("tag", "--model", odd_model, "--docs", docs, "-o", out, "top_k=1") == 0
    with out.open(encoding="utf-8", newline="") as file:
        rows = [(row["label_id"], row["label_text"]) for row in csv.DictReader(file)]
    guarded = [tuple("'" + cell if cell.startswith("=") else cell for cell in label) for label in ODD]
    assert rows == guarded


def test_accents_match_in_both_forms(odd_model, tmp_path):
    docs = texts_file(tmp_path / "docs.jsonl", "CAFÉ", "Cafe\u0301", "the\u0301")
    found = tag(odd_model, docs, tmp_path / "out.jsonl", "top_k=1")
    assert [ids(each) for each in found.values()] == [["e\u0301"], ["e\u0301"], ["\u00e9"]]


def test_gold_labels_outside_the_vocabulary(tmp_path, capsys):
    labels = labels_file(tmp_path / "labels.jsonl")
    docs = docs_file(tmp_path / "docs.jsonl", [*DOCS, ("d6", "The fleet", ["L1", "L77"])])
    command = ["index", "--labels", labels, "--docs", docs, "-o", tmp_path / "model", "preset=fast"]
    assert xmc(*command) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "1 gold label outside vocabulary (1 different): 'L77' at" in said
    assert "docs.jsonl:6" in said
    assert not (tmp_path / "model").exists()
    assert xmc(*command, "on_unknown_label=skip") == 0
    assert "1 gold label outside vocabulary" in capsys.readouterr().err
    tag(tmp_path / "model", docs, tmp_path / "out.jsonl")
    assert xmc("eval", "--gold", docs, "--pred", tmp_path / "out.jsonl", "--labels", labels) == 2
    found, said = evaluated(docs, tmp_path / "out.jsonl", labels, capsys, "on_unknown_label=skip")
    assert found["metrics"]["P@1"] == 100


def test_documents_without_labels(tmp_path, capsys):
    labels = labels_file(tmp_path / "labels.jsonl")
    docs = docs_file(tmp_path / "docs.jsonl", [*DOCS, ("d6", "Nothing of it", []), ("d7", "fisheries", [])])
    model = index(tmp_path / "model", labels, docs)
    assert len(tag(model, docs, tmp_path / "out.jsonl")) == 7
    found, _ = evaluated(docs, tmp_path / "out.jsonl", labels, capsys)
    assert found["metrics"]["P@1"] == 100


def test_labels_alone_make_a_model(tmp_path, capsys):
    labels, docs = labels_file(tmp_path / "labels.jsonl"), docs_file(tmp_path / "docs.jsonl")
    model = index(tmp_path / "model", labels)
    assert "4 labels, 4 of them scoreable, 0 with documents; 0 documents" in capsys.readouterr().err
    tag(model, docs, tmp_path / "out.jsonl", "tag.evidence=true")
    found, _ = evaluated(docs, tmp_path / "out.jsonl", labels, capsys)
    assert found["metrics"]["P@1"] == 100


def test_an_empty_file_of_documents(model, tmp_path):
    (tmp_path / "docs.jsonl").write_bytes(b"")
    assert tag(model, tmp_path / "docs.jsonl", tmp_path / "out.jsonl") == {}


def test_very_long_words(model, tmp_path):
    texts = ["(10E,14E)-" * 100_000 + " fisheries", "x" * 1_000_000, "漁業" * 100_000]
    found = tag(model, texts_file(tmp_path / "docs.jsonl", *texts), tmp_path / "out.jsonl", "top_k=1")
    assert ids(found["q0"]) == ["L2"]
    assert len(found) == 3


def test_a_document_of_ten_megabytes(model, tmp_path):
    sentence = "Of the fisheries in the north and of what was caught there in the year {} nothing is known. "
    text = "".join(sentence.format(year) for year in range(110_000))
    assert len(text) > 10_000_000
    started = time.process_time()
    found = tag(model, texts_file(tmp_path / "docs.jsonl", text), tmp_path / "out.jsonl", "tag.evidence=true")
    assert time.process_time() - started < 60
    assert ids(found["q0"])[0] == "L2"
    assert found["q0"]["suggestions"][0]["evidence"]["words"] == ["fisheries"]


@pytest.mark.parametrize(
    ("option", "listed", "wanted"),
    [("--only", "L1\nL3\n", {"L1", "L3"}), ("--except", "L1\nL3\n", {"L2", "L4"}), ("--only", "L2", {"L2"})],
)
def test_subsets_of_the_labels(model, tmp_path, option, listed, wanted):
    (tmp_path / "ids.txt").write_text(listed)
    docs = docs_file(tmp_path / "docs.jsonl")
    found = tag(model, docs, tmp_path / "out.jsonl", option, tmp_path / "ids.txt")
    assert {label for each in found.values() for label in ids(each)} == wanted


def test_subsets_that_leave_nothing_or_name_what_is_not_there(model, tmp_path, capsys):
    docs, listed = docs_file(tmp_path / "docs.jsonl"), tmp_path / "ids.txt"
    for content, message in (("L1\nL2\nL3\nL4\n", "no label is left"), ("L9\n", "'L9'")):
        listed.write_text(content)
        out = tmp_path / "out.jsonl"
        assert xmc("tag", "--model", model, "--docs", docs, "-o", out, "--except", listed) == 2
        assert message in capsys.readouterr().err
        assert not out.exists()


def test_evidence_is_sane(model, tmp_path):
    docs = docs_file(tmp_path / "docs.jsonl")
    found = tag(model, docs, tmp_path / "out.jsonl", "tag.evidence=true")
    gold = {doc_id: labels for doc_id, _, labels in DOCS}
    for doc_id, text, labels in DOCS:
        for suggestion in found[doc_id]["suggestions"]:
            near = suggestion["evidence"]["neighbours"]
            assert all(suggestion["id"] in gold[n["id"]] and 0 < n["similarity"] <= 1.00001 for n in near)
            assert set(suggestion["evidence"]["words"]) <= set(text.lower().split())
            if suggestion["id"] in labels:
                assert near[0]["id"] == doc_id
                assert suggestion["evidence"]["words"]


def test_shards_of_any_size_give_the_same_output(tmp_path):
    labels, docs = synthetic(60, 70)
    docs[5] = ("d5", "", [])
    files = labels_file(tmp_path / "labels.jsonl", labels), docs_file(tmp_path / "docs.jsonl", docs)
    model = index(tmp_path / "model", *files)
    outputs = []
    for size in (1, 3, 1000):
        out = tmp_path / f"out{size}.jsonl"
        tag(model, files[1], out, f"tag.shard_size={size}", "tag.evidence=true")
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]


def test_documents_that_are_sparse_features_do_not_fit_a_model_of_texts(model, tmp_path, capsys):
    (tmp_path / "x.txt").write_text("1 5 4\n0 1:1\n")
    out = tmp_path / "out.jsonl"
    assert xmc("tag", "--model", model, "--docs", tmp_path / "x.txt", "-o", out) == 2
    said = capsys.readouterr().err
    assert "sparse features, but the model was built on texts" in said
    assert said.count("\n") == 1


def test_many_documents_learn_what_their_texts_do_not_say(tmp_path, capsys):
    labels = [(f"L{i}", "") for i in range(30)]
    docs = synthetic(30, 150, 3)[1]
    files = labels_file(tmp_path / "labels.jsonl", labels), docs_file(tmp_path / "train.jsonl", docs[:120])
    test = docs_file(tmp_path / "test.jsonl", docs[120:])
    tag(index(tmp_path / "model", *files), test, tmp_path / "out.jsonl")
    found, _ = evaluated(test, tmp_path / "out.jsonl", files[0], capsys, "--train", files[1])
    assert found["metrics"]["P@1"] > 90
