"""``xmc learn`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cases.corpus_t import DOCS, data_files, docs_file, ids, index, jsonl, labels_file, tag, xmc
from xmc.artifacts import find_faults

NEW = [("n1", "Zeppelins over the sea", ["L1"]), ("n2", "Zeppelins again", ["L1", "L3"])]


class Learning:
    """A model in a folder of its own, and what it learns."""

    def __init__(self, folder: Path, with_docs: bool = True) -> None:
        self.folder, self.n = folder, 0
        docs = [docs_file(folder / "docs.jsonl")] if with_docs else []
        self.model = index(folder / "model", labels_file(folder / "labels.jsonl"), *docs)

    def learn(self, docs: list | Path, *more: object) -> int:
        path = docs if isinstance(docs, Path) else docs_file(self.folder / "new.jsonl", docs)
        return xmc("learn", "--model", self.model, "--docs", path, *more)

    def tag(self, *texts: str) -> list[dict]:
        self.n += 1
        docs = jsonl(self.folder / "q.jsonl", ({"id": str(i), "text": t} for i, t in enumerate(texts)))
        out = self.folder / f"out{self.n}.jsonl"
        return list(tag(self.model, docs, out, "top_k=1000", "tag.evidence=true").values())


@pytest.fixture
def it(tmp_path) -> Learning:
    return Learning(tmp_path)


def last_line(capsys) -> str:
    return capsys.readouterr().err.splitlines()[-1]


def test_documents_count_at_once_and_can_be_taken_out_again(it, capsys):
    before = it.tag("zeppelins")[0]
    assert it.learn(NEW) == 0
    said = "2 documents learned; 0 labels with documents for the first time; 4 labels, 4 of them scoreable"
    assert last_line(capsys) == f"xmc: {said}, 4 with documents; 7 documents"
    found = it.tag("zeppelins")[0]
    assert ids(found)[0] == "L1"
    assert "n1" in json.dumps(found)
    assert it.learn(NEW, "--remove") == 0
    assert last_line(capsys).startswith("xmc: 2 documents removed; 0 labels left without documents; 4 labels")
    after = it.tag("zeppelins")[0]
    assert [s["score"] for s in after["suggestions"]] == pytest.approx(
        [s["score"] for s in before["suggestions"]], rel=1e-3
    )
    assert ids(after) == ids(before)
    assert find_faults(it.model, verify=True) == []


def test_a_model_without_documents_learns_its_first(tmp_path, capsys):
    it = Learning(tmp_path, with_docs=False)
    assert it.learn(NEW) == 0
    assert "2 documents learned; 2 labels with documents for the first time" in last_line(capsys)
    assert ids(it.tag("zeppelins")[0])[0] == "L1"
    assert it.learn(NEW, "--remove") == 0
    assert "2 labels left without documents" in last_line(capsys)


def test_documents_that_are_there(it, capsys):
    before = data_files(it.model)
    assert it.learn([NEW[0], DOCS[1]]) == 2
    assert "1 of 2 documents are in the model already: 'd2'" in last_line(capsys)
    assert data_files(it.model) == before
    assert it.learn([NEW[0], DOCS[1]], "on_duplicate=first") == 0
    said = capsys.readouterr().err
    assert "1 document was left out: ids that the model has (d2)" in said
    assert "1 document learned" in said


def test_labels_that_are_not_there(it, capsys):
    docs = [("n1", "rockets in orbit", ["space"])]
    assert it.learn(docs) == 2
    assert "1 gold label outside vocabulary" in last_line(capsys)
    assert it.learn(docs, "on_unknown_label=skip") == 0
    assert it.learn([("n2", *docs[0][1:])], "on_unknown_label=add") == 0
    assert "1 label with documents for the first time; 5 labels, 5 of them scoreable" in last_line(capsys)
    assert ids(it.tag("rockets in orbit")[0])[0] == "space"


def test_documents_are_removed_by_a_list_of_ids(it, capsys):
    listed = it.folder / "ids.txt"
    listed.write_text("d1\nd3\n")
    assert it.learn(listed, "--remove") == 0
    assert "2 documents removed; 2 labels left without documents" in last_line(capsys)
    assert it.learn(listed, "--remove") == 2
    assert "2 of 2 documents are not in the model: 'd1', 'd3'; correct the ids" in last_line(capsys)
    assert b"d1" not in (it.model / "memory" / "documents.arrow").read_bytes()


def test_documents_without_ids_are_not_removed_by_their_number(it, capsys):
    docs = jsonl(it.folder / "none.jsonl", [{"text": "fish", "labels": []}])
    before = data_files(it.model)
    assert it.learn(docs, "--remove") == 2
    assert "none.jsonl: documents without ids" in last_line(capsys)
    assert data_files(it.model) == before


def test_retired_labels_are_not_learned(it, capsys):
    listed = it.folder / "ids.txt"
    listed.write_text("L1\n")
    assert xmc("labels", "retire", "--model", it.model, "--labels", listed) == 0
    assert it.learn(NEW) == 0
    assert "2 gold labels were retired and left out" in capsys.readouterr().err


def test_rows_of_features_are_refused_by_a_model_of_texts(it, capsys):
    path = it.folder / "train.txt"
    path.write_text("1 5 4\n0 3:0.5\n")
    assert it.learn(path) == 2
    assert capsys.readouterr().err.count("Traceback") == 0
