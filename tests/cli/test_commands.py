"""All commands one after another on a corpus of four labels and five documents."""

import json
from pathlib import Path

import pytest

from xmc.cli import main

LABELS = [("L1", "air transport"), ("L2", "fisheries"), ("L3", "قانون"), ("L4", "budget, annual")]
DOCUMENTS = [
    ("d1", "Air transport between the islands", ["L1"]),
    ("d2", "Fisheries and the annual budget", ["L2", "L4"]),
    ("d3", "قانون", ["L3"]),
    ("d4", "", []),
    ("d5", "Fisheries in the north", ["L2"]),
]


def write(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
    return str(path)


class Corpus:
    def __init__(self, folder, name="docs.jsonl"):
        self.folder = folder
        self.labels = write(folder / "labels.jsonl", ({"id": i, "text": t} for i, t in LABELS))
        self.docs = write(folder / name, ({"id": i, "text": t, "labels": x} for i, t, x in DOCUMENTS))
        self.model, self.out = str(folder / "model"), str(folder / "out.jsonl")

    def index(self, *more):
        return main(
            ["index", "--labels", self.labels, "--docs", self.docs, "-o", self.model, "preset=fast", *more]
        )

    def tag(self, *more):
        return main(["tag", "--model", self.model, "--docs", self.docs, "-o", self.out, *more])

    def eval(self, *more):
        return main(["eval", "--gold", self.docs, "--pred", self.out, "--train", self.docs, *more])

    def suggestions(self):
        lines = Path(self.out).read_text(encoding="utf-8").splitlines()
        return {r["id"]: r["suggestions"] for r in map(json.loads, lines)}


@pytest.fixture
def corpus(tmp_path):
    return Corpus(tmp_path)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    made = Corpus(tmp_path_factory.mktemp("indexed"))
    assert made.index() == 0
    return made


def test_index_tag_eval(corpus, capsys):
    assert corpus.index() == 0
    assert corpus.tag("top_k=3") == 0
    found = corpus.suggestions()
    assert list(found) == [d[0] for d in DOCUMENTS]
    assert found["d1"][0]["id"] == "L1"
    assert found["d1"][0]["text"] == "air transport"
    assert found["d4"] == []
    capsys.readouterr()
    assert corpus.eval("--labels", corpus.labels, "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["metrics"]["P@1"] == 100


def test_eval_writes_a_report(indexed, capsys):
    indexed.out = str(indexed.folder / "for-report.jsonl")
    assert indexed.tag("top_k=1") == 0
    report = ["--report", str(indexed.folder / "report"), "--against", indexed.out]
    assert indexed.eval(*report, "eval.resamples=10", "propensity=wikipedia") == 0
    record = json.loads((indexed.folder / "report" / "report.json").read_text(encoding="utf-8"))
    assert record["settings"]["propensity_a"] == 0.5
    assert record["against"]["differences"]["P@1"]["value"] == 0
    page = (indexed.folder / "report" / "report.html").read_text(encoding="utf-8")
    assert "Fisheries and the annual budget" in page  # with two gold labels and one suggestion
    assert "this run against the other" in capsys.readouterr().out


def test_tag_streams_to_standard_output(indexed, capfdbinary):
    indexed.out = "-"
    assert indexed.tag("top_k=1", "progress=on") == 0
    said = capfdbinary.readouterr()
    assert len(said.out.splitlines()) == len(DOCUMENTS)
    assert all(json.loads(line) for line in said.out.splitlines())
    assert b"tagging" in said.err


def test_tagging_again_changes_nothing_and_another_setting_is_refused(indexed, capsys):
    indexed.out = str(indexed.folder / "again.jsonl")
    assert indexed.tag() == 0
    before = Path(indexed.out).read_bytes()
    assert indexed.tag() == 0
    assert indexed.tag("threshold=0.5") == 2
    assert Path(indexed.out).read_bytes() == before
    assert capsys.readouterr().err.splitlines()[-1].startswith("xmc: error: ")


def test_only_and_except(indexed):
    indexed.out = str(indexed.folder / "only.jsonl")
    ids = indexed.folder / "ids.txt"
    ids.write_text("L1\nL2\n")
    assert indexed.tag("--only", str(ids)) == 0
    assert {s["id"] for found in indexed.suggestions().values() for s in found} <= {"L1", "L2"}
    indexed.out = str(indexed.folder / "except.jsonl")
    assert indexed.tag("--except", str(ids)) == 0
    assert {s["id"] for found in indexed.suggestions().values() for s in found} <= {"L3", "L4"}


def test_an_empty_document_says_why(indexed):
    indexed.out = str(indexed.folder / "reason.jsonl")
    assert indexed.tag() == 0
    assert '"reason": "empty_text"' in Path(indexed.out).read_text(encoding="utf-8").splitlines()[3]


def test_bad_documents_are_left_out_and_told(indexed, tmp_path, capsys):
    docs = tmp_path / "docs.jsonl"
    docs.write_text(
        '{"id": "a", "text": "fisheries"}\n{"id": "b", "text": 3}\n{"id": "c", "text": "budget"}\n'
    )
    out = tmp_path / "out.jsonl"
    command = ["tag", "--model", indexed.model, "--docs", str(docs), "-o", str(out)]
    assert main(command) == 2
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["a", "c"]
    said = capsys.readouterr().err.splitlines()
    assert "3 documents (2 tagged, 1 quarantined)" in said[-2]
    assert said[-1].startswith(
        f"xmc: error: {out}: all is tagged but 1 document: {out}.quarantine.jsonl tells"
    )
    (told,) = map(json.loads, Path(f"{out}.quarantine.jsonl").read_text().splitlines())
    assert told["place"] == f"{docs}:2"
    assert "text is the number 3" in told["reason"]
    assert main(command) == 2  # the finished output is left as it is, and still lacks one
    capsys.readouterr()
    assert main([*command[:-1], str(tmp_path / "strict.jsonl"), "tag.on_bad_document=error"]) == 2
    assert f"{docs}:2: text is the number 3" in capsys.readouterr().err
    assert not (tmp_path / "strict.jsonl").exists()
    assert main([*command[:-1], "-"]) == 2
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert f"not tagged: {docs}:2: text is the number 3" in said.err


def test_folders_patterns_and_standard_input(indexed, tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").mkdir()
    for i in "ab":
        write(tmp_path / "docs" / f"{i}.jsonl", [{"id": i, "text": "fisheries"}])
    for n, docs in enumerate((f"{tmp_path}/docs", f"{tmp_path}/docs/*.jsonl")):
        out = tmp_path / f"{n}.jsonl"
        assert main(["tag", "--model", indexed.model, "--docs", docs, "-o", str(out)]) == 0
        assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["a", "b"]
    capsys.readouterr()
    assert main(["tag", "--model", indexed.model, "--docs", f"{tmp_path}/x*", "-o", str(tmp_path / "x")]) == 2


def test_inspect_data_and_artifacts(indexed, capsys):
    assert main(["inspect", indexed.labels, indexed.docs, indexed.model, "--verify"]) == 0
    said = capsys.readouterr().out
    assert all(path in said for path in (indexed.labels, indexed.docs, indexed.model))
    assert main(["inspect", indexed.labels, indexed.docs, indexed.model, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [a["path"] for a in found["artifacts"]] == [indexed.model]
    assert [f["path"] for f in found["files"]] == [indexed.labels, indexed.docs]


def test_inspect_of_a_damaged_model_fails_and_says_what_to_rebuild(corpus, capsys):
    assert corpus.index() == 0
    manifest = json.loads((corpus.folder / "model" / "manifest.json").read_text())
    file = corpus.folder / "model" / next(iter(manifest["files"]))
    file.write_bytes(file.read_bytes()[:-1])
    capsys.readouterr()
    assert main(["inspect", corpus.model]) == 2
    said = capsys.readouterr()
    assert "FAULT" in said.out
    assert "xmc index" in said.out
    assert "damaged" in said.err
    assert corpus.tag() == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "missing.jsonl"],
        ["index", "--labels", "missing.jsonl", "-o", "model"],
        ["tag", "--model", "missing", "--docs", "missing.jsonl", "-o", "out.jsonl"],
        ["eval", "--gold", "missing.jsonl", "--pred", "missing.jsonl"],
    ],
)
def test_a_missing_file_is_named_in_one_line(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "missing" in said
    assert not [p for p in tmp_path.iterdir() if not p.name.startswith(".")]
