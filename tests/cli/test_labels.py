"""``xmc labels`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from filelock import FileLock

from tests.cases.corpus_t import LABELS, data_files, docs_file, ids, index, jsonl, labels_file, tag, xmc
from xmc.artifacts import find_faults

NEW = [("L5", "space law"), ("L6", "cheese")]


class Changing:
    """A model in a folder of its own, and what is done to it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.n = folder, 0
        self.docs = docs_file(folder / "docs.jsonl")
        self.model = index(folder / "model", labels_file(folder / "labels.jsonl"), self.docs)

    def labels(self, action: str, labels: list[tuple[str, str]] | Path | None, *more: object) -> int:
        path = (
            labels if isinstance(labels, Path) else labels and labels_file(self.folder / "new.jsonl", labels)
        )
        return xmc("labels", action, "--model", self.model, *(["--labels", path] if path else []), *more)

    def tag(self, *texts: str) -> list[list[str]]:
        self.n += 1
        docs = jsonl(self.folder / "q.jsonl", ({"id": str(i), "text": t} for i, t in enumerate(texts)))
        found = tag(self.model, docs, self.folder / f"out{self.n}.jsonl", "top_k=1000")
        return [ids(each) for each in found.values()]

    def manifest(self) -> dict:
        return json.loads((self.model / "manifest.json").read_text())


@pytest.fixture
def it(tmp_path) -> Changing:
    return Changing(tmp_path)


def last_line(capsys) -> str:
    return capsys.readouterr().err.splitlines()[-1]


def test_labels_come_go_and_come_back(it, capsys):
    assert it.labels("add", NEW) == 0
    said = "2 labels added; 6 labels, 6 of them scoreable, 4 with documents; 5 documents"
    assert last_line(capsys) == f"xmc: {said}"
    assert it.tag("the law of space")[0][0] == "L5"
    assert it.labels("retire", [*NEW[:1], *LABELS[1:2]]) == 0
    assert last_line(capsys).startswith("xmc: 2 labels retired; 6 labels, 4 of them scoreable")
    assert sorted(it.tag("fisheries and the law of space")[0]) == ["L1", "L3", "L4", "L6"]
    assert it.labels("restore", [*LABELS]) == 0
    assert "1 label restored; 3 labels skipped (not retired); 6 labels, 5 of" in last_line(capsys)
    assert it.tag("fisheries")[0][0] == "L2"
    assert find_faults(it.model, verify=True) == []


def test_retiring_takes_a_list_of_ids(it, capsys):
    listed = it.folder / "ids.txt"
    listed.write_text("L1\nL2\n")
    assert it.labels("retire", listed) == 0
    assert it.labels("retire", listed) == 0
    assert last_line(capsys).startswith("xmc: 0 labels retired; 2 labels skipped (retired already); 4 labels")
    listed.write_text("L1\nL77\n")
    assert it.labels("restore", listed) == 2
    assert "1 of 2 label ids are not in the model: 'L77'" in last_line(capsys)
    assert it.labels("restore", listed, "on_unknown_label=skip") == 0
    said = capsys.readouterr().err
    assert "were not in the model (L77)" in said or "was not in the model (L77)" in said
    assert "1 label restored" in said


def test_replaced_and_compacted(it, capsys):
    assert it.labels("replace", [("L1", "cheese"), *LABELS[1:]]) == 0
    assert "1 label replaced; 3 labels skipped (no change)" in last_line(capsys)
    assert it.tag("cheese")[0][0] == "L1"
    assert it.labels("retire", [("L2", "")]) == 0
    assert it.labels("compact", None) == 0
    assert "1 label taken out of the files; 4 labels, 3 of them scoreable" in last_line(capsys)
    assert "L2" not in it.tag("fisheries and cheese")[0]
    assert it.labels("restore", [("L2", "")]) == 0
    assert it.tag("fisheries")[0][0] == "L2"


def test_the_old_model_is_the_parent_and_what_is_the_same_is_linked(it):
    old, inodes = it.manifest(), {p: p.stat().st_ino for p in it.model.rglob("*") if p.is_file()}
    assert it.labels("add", NEW) == 0
    new = it.manifest()
    assert new["parents"] == {"model": old["checksum"]}
    assert new["settings"] == old["settings"]
    same = {str(p.relative_to(it.model)) for p, inode in inodes.items() if p.stat().st_ino == inode}
    assert {"index/vectors.npy", "memory/index/vectors.npy", "encoder/lexical_keys.npy"} <= same
    assert not {"labels.arrow", "index/rows.npy", "index/tail.npy"} & same


def test_what_changes_nothing_writes_nothing(it):
    old = it.manifest()
    assert it.labels("replace", LABELS) == 0
    assert it.labels("restore", LABELS) == 0
    assert it.manifest() == old


def test_another_writer_is_refused(it, capsys):
    before = data_files(it.model)
    with FileLock(it.folder / ".model.xmc-lock"):
        assert it.labels("add", NEW) == 3
    assert "another xmc process is writing it" in last_line(capsys)
    assert data_files(it.model) == before


@pytest.mark.parametrize(
    ("action", "labels", "message"),
    [
        ("add", [("L1", "ships")], "'L1': are in the model; give them new texts with `xmc labels replace`"),
        ("replace", NEW, "'L5', 'L6': not in the model; new labels come in with `xmc labels add`"),
        ("retire", NEW, "2 of 2 label ids are not in the model"),
        ("add", None, "xmc labels add needs --labels F"),
        ("compact", NEW, "xmc labels compact takes no --labels"),
        ("remove", NEW, "unknown action 'remove': wanted one of add, replace, retire"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_changes_nothing(it, capsys, action, labels, message):
    before = data_files(it.model)
    capsys.readouterr()
    assert it.labels(action, labels) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert data_files(it.model) == before


def test_what_is_no_model_is_refused(tmp_path, capsys):
    new = labels_file(tmp_path / "new.jsonl", NEW)
    assert xmc("labels", "add", "--model", tmp_path / "none", "--labels", new) == 2
    assert "no such artifact" in last_line(capsys)
    assert [p.name for p in tmp_path.iterdir()] == ["new.jsonl"]


def test_broader_labels_of_the_model_are_known(it, capsys):
    records = [{"id": "L5", "text": "tuna", "broader": ["L2"]}, {"id": "L6", "text": "x", "broader": ["L99"]}]
    assert it.labels("add", jsonl(it.folder / "b.jsonl", records)) == 0
    assert "1 broader id was not in the vocabulary (L99)" in capsys.readouterr().err
