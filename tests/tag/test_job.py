from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from tests.tag.overlap import OverlapTagger, label_set
from xmc.data.corpus import Corpus
from xmc.data.options import ReadOptions
from xmc.errors import ArtifactError, InputError, ResourceError, SettingError, XmcError
from xmc.tag.job import TagJob
from xmc.tag.readers import read_suggestions
from xmc.tag.suggestions import TagOptions

LABELS = [("L1", "air transport"), ("L2", "fisheries"), ("L3", "قانون"), ("L4", "budget, annual")]
TEXTS = {
    "d1": "The air transport budget of the year",
    "d2": "fisheries and transport",
    "d3": "",
    "d4": "قانون",
    "d5": "nothing of the kind",
}


@dataclass
class Case:
    """A folder with documents, and jobs on them."""

    folder: Path

    @property
    def docs(self) -> Path:
        return self.folder / "docs.jsonl"

    @property
    def out(self) -> Path:
        return self.folder / "tags.jsonl"

    @property
    def run_folder(self) -> Path:
        return self.folder / ".tags.jsonl.run"

    def write(self, texts: dict[str, str]) -> None:
        lines = [json.dumps({"id": i, "text": t}) + "\n" for i, t in texts.items()]
        self.docs.write_text("".join(lines), encoding="utf-8")

    def job(self, out: Path | str | None = None, tagger: OverlapTagger | None = None, **more: Any) -> TagJob:
        corpus = Corpus([self.docs], more.pop("reading", None))
        more = {"shard_size": 2, **more}
        return TagJob(tagger or OverlapTagger(label_set(*LABELS)), corpus, out or self.out, **more)

    def interrupt(self, after: int, **more: Any) -> None:
        """Run a job that stops with an exception once ``after`` documents are finished."""
        n = 0

        def progress(n_docs: int) -> None:
            nonlocal n
            n += n_docs
            if n >= after:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            self.job(progress=progress, **more).run()

    def snapshot(self) -> dict[str, tuple[bytes, int]]:
        files = [f for f in self.folder.rglob("*") if f.is_file()]
        return {
            str(f.relative_to(self.folder)): (f.read_bytes(), f.stat().st_mtime_ns)
            for f in files
            if f.name != "lock"
        }


@pytest.fixture
def case(tmp_path: Path) -> Case:
    found = Case(tmp_path)
    found.write(TEXTS)
    return found


def test_a_line_a_document_in_input_order(case: Case) -> None:
    report = case.job().run()
    documents = list(read_suggestions(case.out))
    assert [d.id for d in documents] == list(TEXTS)
    assert list(documents[0].label_ids) == ["L1", "L4"]
    assert [d.reason for d in documents] == ["", "", "empty_text", "", "no_vector"]
    assert (report.n_docs, report.n_suggestions) == (5, 5)
    assert report.reasons == {"empty_text": 1, "no_vector": 1}
    assert "1 document without a suggestion: empty_text" in report.lines()
    assert sorted(f.name for f in case.folder.iterdir()) == [
        "docs.jsonl",
        "tags.jsonl",
        "tags.jsonl.run.json",
    ]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.csv", "t.tsv.zst", "t.parquet", "t.npz"])
@pytest.mark.parametrize("after", [2, 4, 5])
def test_an_interrupted_job_goes_on_to_the_same_bytes(case: Case, name: str, after: int) -> None:
    whole, broken = case.folder / f"whole.{name}", case.folder / f"broken.{name}"
    case.job(whole).run()
    case.interrupt(after, out=broken)
    tagger = OverlapTagger(label_set(*LABELS))
    report = case.job(broken, tagger).run()
    assert broken.read_bytes() == whole.read_bytes()
    assert tagger.n_tagged == 5 - after
    assert report.n_reused == after
    assert report.n_docs == 5
    assert f"{after} documents taken over from an interrupted run" in report.lines()


def test_every_format_says_the_same(case: Case) -> None:
    said = []
    for name in ("t.jsonl", "t.csv", "t.tsv", "t.parquet", "t.npz", "t.tsv.gz", "t.csv.zst"):
        case.job(case.folder / name, options=TagOptions(threshold=0.6)).run()
        documents = list(read_suggestions(case.folder / name))
        said.append([(d.id, list(d.label_ids), np.float32(d.scores).tolist(), d.reason) for d in documents])
    assert said[0][1][3] == ""
    assert all(each == said[0] for each in said)


def test_a_finished_output_is_left_as_it_is(case: Case) -> None:
    case.job().run()
    before = case.snapshot()
    tagger = OverlapTagger(label_set(*LABELS))
    report = case.job(tagger=tagger).run()
    assert report.finished_before
    assert report.n_docs == 5
    assert tagger.n_tagged == 0
    assert case.snapshot() == before


def test_the_same_documents_elsewhere_are_the_same_job(case: Case) -> None:
    case.job().run()
    case.docs.rename(case.folder / "moved.jsonl")
    corpus = Corpus([case.folder / "moved.jsonl"])
    assert TagJob(OverlapTagger(label_set(*LABELS)), corpus, case.out, shard_size=2).run().finished_before


CHANGES: dict[str, dict[str, Any]] = {
    "threshold was none and is 0.5": {"options": TagOptions(threshold=0.5)},
    "rule was none and is micro_f1": {"options": TagOptions(threshold=0.5, rule="micro_f1")},
    "top_k was 10 and is 3": {"options": TagOptions(top_k=3)},
    "evidence was False and is True": {"options": TagOptions(evidence=True)},
    "allowed labels was none and is 3 of 4": {"options": TagOptions(allowed=np.arange(4) > 0)},
    "tag.shard_size was 2 and is 3": {"shard_size": 3},
    "coerce was False and is True": {"reading": ReadOptions(coerce=True)},
    "model was overlap-1 and is overlap-2": {"tagger": OverlapTagger(label_set(*LABELS), "overlap-2")},
    "threads was 1 and is 2": {"tagger": OverlapTagger(label_set(*LABELS), dtype="float32", threads=2)},
    "dtype was float32 and is float16": {
        "tagger": OverlapTagger(label_set(*LABELS), dtype="float16", threads=1)
    },
}


@pytest.mark.parametrize("told", CHANGES)
def test_a_run_refuses_to_go_on_under_other_settings(case: Case, told: str) -> None:
    case.interrupt(2)
    before = case.snapshot()
    with pytest.raises(InputError) as refused:
        case.job(**CHANGES[told]).run()
    assert told in str(refused.value)
    assert f"delete the folder {case.run_folder} to start again" in str(refused.value)
    assert case.snapshot() == before
    case.job().run()


@pytest.mark.parametrize("told", CHANGES)
def test_a_finished_output_refuses_other_settings(case: Case, told: str) -> None:
    case.job().run()
    before = case.snapshot()
    with pytest.raises(InputError, match="delete it or choose another name") as refused:
        case.job(**CHANGES[told]).run()
    assert told in str(refused.value)
    assert case.snapshot() == before


@pytest.mark.parametrize("after", [0, 2])
def test_changed_documents_are_refused(case: Case, after: int) -> None:
    if after:
        case.interrupt(after)
    else:
        case.job().run()
    case.write({**TEXTS, "d1": "the air transport BUDGET of the year"})
    with pytest.raises(InputError, match=r"the content of .*docs\.jsonl changed \(\d+ bytes then, \d+ now\)"):
        case.job().run()


def test_more_files_are_other_documents(case: Case) -> None:
    case.job().run()
    more = case.folder / "more.jsonl"
    more.write_text('{"id": "d6", "text": "fisheries"}\n')
    job = TagJob(OverlapTagger(label_set(*LABELS)), Corpus([case.docs, more]), case.out, shard_size=2)
    with pytest.raises(InputError, match="there were 1 document files and are 2"):
        job.run()


def test_documents_that_change_during_the_job_are_refused(case: Case) -> None:
    def progress(n_docs: int) -> None:
        with case.docs.open("a") as more:
            more.write("\n")

    with pytest.raises(InputError, match="the documents changed while they were read"):
        case.job(progress=progress).run()
    assert not case.out.exists()


@pytest.mark.parametrize("content", [b"", b"mine\n"])
def test_a_file_of_someone_else_is_refused(case: Case, content: bytes) -> None:
    case.out.write_bytes(content)
    with pytest.raises(InputError, match="exists, and no tagging run wrote it"):
        case.job().run()
    assert case.out.read_bytes() == content
    assert not case.run_folder.exists()


def test_documents_are_never_overwritten(case: Case) -> None:
    before = case.docs.read_bytes()
    with pytest.raises(InputError, match="exists"):
        case.job(case.docs).run()
    assert case.docs.read_bytes() == before


def test_an_output_that_was_changed_is_refused(case: Case) -> None:
    case.job().run()
    case.out.write_bytes(case.out.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="was changed"):
        case.job().run()


def test_a_deleted_output_is_made_again(case: Case) -> None:
    case.job().run()
    content = case.out.read_bytes()
    case.out.unlink()
    case.job().run()
    assert case.out.read_bytes() == content


def test_a_damaged_part_is_tagged_again(case: Case) -> None:
    case.job(case.folder / "whole.jsonl").run()
    case.interrupt(5)
    parts = sorted(case.run_folder.glob("*.part"))
    parts[0].write_bytes(parts[0].read_bytes()[::-1])
    parts[2].unlink()
    report = case.job().run()
    assert case.out.read_bytes() == (case.folder / "whole.jsonl").read_bytes()
    assert report.n_repaired == 2
    assert report.n_reused == 2


def test_a_journal_line_cut_off_by_a_crash_is_dropped(case: Case) -> None:
    case.job(case.folder / "whole.jsonl").run()
    case.interrupt(4)
    journal = case.run_folder / "shards.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert case.job().run().n_reused == 2
    assert case.out.read_bytes() == (case.folder / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["run.json", "shards.jsonl"])
def test_a_damaged_run_folder_is_refused_and_kept(case: Case, name: str) -> None:
    case.interrupt(4)
    (case.run_folder / name).write_bytes(b"{]\n")
    before = case.snapshot()
    with pytest.raises(ArtifactError, match="to start again"):
        case.job().run()
    assert case.snapshot() == before


def test_a_folder_of_someone_else_is_left_alone(case: Case) -> None:
    case.run_folder.mkdir()
    (case.run_folder / "0001.part").write_text("mine")
    with pytest.raises(InputError, match="no tagging run made this folder"):
        case.job().run()
    assert (case.run_folder / "0001.part").read_text() == "mine"


def test_two_jobs_on_one_output(case: Case) -> None:
    case.interrupt(2)
    with FileLock(case.run_folder / "lock"), pytest.raises(ResourceError, match="another job is writing it"):
        case.job().run()
    case.job().run()


def test_a_folder_left_by_a_job_killed_at_its_very_end_goes_away(case: Case) -> None:
    case.interrupt(5)
    case.run_folder.rename(case.folder / "kept")
    case.job().run()
    (case.folder / "kept").rename(case.run_folder)
    assert case.job().run().finished_before
    assert not case.run_folder.exists()


def test_a_folder_that_cannot_be_written(case: Case) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        case.job(case.folder / "none" / "tags.jsonl").run()
    (case.folder / "dir.jsonl").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        case.job(case.folder / "dir.jsonl").run()
    with pytest.raises(ResourceError, match="write elsewhere"):
        case.job(Path("/proc/tags.jsonl")).run()


def test_settings_out_of_range(case: Case) -> None:
    for job in (
        case.job(shard_size=0),
        case.job(options=TagOptions(top_k=-1)),
        case.job(case.folder / "tags.doc"),
        case.job(case.folder / "tags.csv", options=TagOptions(evidence=True)),
    ):
        with pytest.raises(SettingError):
            job.run()
    assert [f.name for f in case.folder.iterdir()] == ["docs.jsonl"]


def test_standard_output_gets_every_shard_at_once(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, write_through=True))
    seen: list[int] = []
    report = case.job("-", progress=lambda n: seen.append(raw.getvalue().count(b"\n"))).run()
    assert seen == [2, 4, 5]
    assert report.reasons == {"empty_text": 1, "no_vector": 1}
    case.job().run()
    assert raw.getvalue() == case.out.read_bytes()


def test_documents_from_a_pipe_are_not_resumed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def piped() -> TagJob:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(case.docs.read_bytes())))
        return TagJob(OverlapTagger(label_set(*LABELS)), Corpus(["-"]), case.out, shard_size=2)

    stopped = piped()
    stopped.progress = lambda n: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    assert piped().run().n_reused == 0
    with pytest.raises(InputError, match="documents from a pipe cannot be compared"):
        piped().run()


def test_no_documents_at_all(case: Case) -> None:
    case.write({})
    for name in ("none.jsonl", "none.parquet", "none.npz", "none.csv"):
        assert case.job(case.folder / name).run().n_docs == 0
        assert list(read_suggestions(case.folder / name)) == []


def test_evidence_reaches_the_output(case: Case) -> None:
    case.job(options=TagOptions(evidence=True)).run()
    first = json.loads(case.out.read_text("utf-8").split("\n")[0])
    assert first["suggestions"][0]["evidence"]["words"] == ["air", "transport"]


def test_a_tagger_that_answers_for_other_documents_is_a_bug(case: Case) -> None:
    class Confused(OverlapTagger):
        def suggest(self, batch: Any, texts: Any, options: TagOptions) -> Any:
            return super().suggest(batch, texts, options).slice(0, 1)

    with pytest.raises(RuntimeError, match="the tagger gave suggestions for other documents"):
        case.job(tagger=Confused(label_set(*LABELS))).run()


def test_every_message_is_one_line(case: Case) -> None:
    case.interrupt(2)
    with pytest.raises(XmcError) as refused:
        case.job(options=TagOptions(threshold=0.5, top_k=1)).run()
    assert "\n" not in str(refused.value)


def test_a_job_begun_by_code_that_wrote_another_form_is_not_resumed(case: Case) -> None:
    case.interrupt(after=2)
    begun = json.loads((case.run_folder / "run.json").read_text())
    for form, was in ((begun["settings"]["output form"] - 1, "1"), (None, "none")):
        begun["settings"]["output form"] = form
        (case.run_folder / "run.json").write_text(json.dumps(begun))
        with pytest.raises(InputError, match=f"output form was {was} and is 2"):
            case.job().run()
    assert not case.out.exists()
