"""Interrupted batch tagging: after SIGKILL or a full disk the output is as if nothing had happened."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xmc.tag.readers import read_suggestions

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ["tags.jsonl", "tags.csv.gz", "tags.parquet", "tags.npz"]
N_DOCS = 9
LABELS = '{"id": "L1", "text": "air transport"}\n{"id": "L2", "text": "fisheries"}\n'

# Runs the job again and again, each time in a fork that dies at the next of the moments at which something
# reaches the disk (before each sync and before and after each rename), until one run comes to its end.
AT_EVERY_MOMENT = """
import os, signal, sys
from pathlib import Path
from tests.tag.overlap import OverlapTagger
from xmc.data.corpus import Corpus
from xmc.data.formats import read_labels
from xmc.tag.job import TagJob
from xmc.tag.writers import format_of

docs, labels, out, again = sys.argv[1:]

def job():
    tagger = OverlapTagger(read_labels(Path(labels)))
    TagJob(tagger, Corpus([docs]), out, shard_size=2).run()

def dying(moment):
    left = moment
    def step(call):
        def stepped(*args, **more):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **more)
        return stepped
    replace = step(os.replace)
    os.fsync, os.replace = step(os.fsync), lambda *a: (replace(*a), step(lambda: None)())

def forked(moment):
    child = os.fork()
    if child == 0:
        dying(moment)
        job()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

moment, n_killed = 1, 0
while (code := forked(moment)) == -signal.SIGKILL:
    n_killed += 1
    moment += 1
    # "fresh": a second run ends each job, and the next begins anew; otherwise it is killed again, later.
    if again == "fresh":
        job()
        content = Path(out).read_bytes()
        if n_killed == 1:
            first = content
        assert content == first, moment
        assert not Path(out).with_name(f".{Path(out).name}.run").exists()
        Path(out).unlink()
assert code == 0, code
print(n_killed)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = ["air transport", "fisheries", "", "the transport of fish by air", "nothing"]
    lines = [json.dumps({"id": f"d{i}", "text": f"{texts[i % 5]} {i}"}) for i in range(N_DOCS)]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "labels.jsonl").write_text(LABELS)
    return tmp_path


def tag(folder: Path, out: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.tag.overlap", "docs.jsonl", "labels.jsonl", out, *more]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def script(folder: Path, text: str, *arguments: str) -> str:
    command = [sys.executable, "-c", text, *arguments]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shards_in(folder: Path, out: str) -> list[str]:
    return sorted(part.name for part in (folder / f".{out}.run").glob("*.part"))


@pytest.mark.parametrize("out", FORMATS)
def test_killed_after_three_of_five_shards_and_run_again(folder: Path, out: str) -> None:
    assert tag(folder, f"whole.{out}").returncode == 0

    killed = tag(folder, out, "--kill-after", "6")
    assert killed.returncode == -signal.SIGKILL
    assert not (folder / out).exists()
    assert len(shards_in(folder, out)) == 3

    resumed = tag(folder, out)
    assert resumed.returncode == 0
    assert "tagged now: 3" in resumed.stderr
    assert "6 documents taken over from an interrupted run" in resumed.stderr
    assert (folder / out).read_bytes() == (folder / f"whole.{out}").read_bytes()
    assert [d.id for d in read_suggestions(folder / out)] == [f"d{i}" for i in range(N_DOCS)]


def test_killed_and_run_with_another_threshold(folder: Path) -> None:
    tag(folder, "tags.jsonl", "--kill-after", "6")
    before = {f.name: f.read_bytes() for f in (folder / ".tags.jsonl.run").iterdir()}

    refused = tag(folder, "tags.jsonl", "--threshold", "0.5")
    assert refused.returncode == 2
    assert "threshold was none and is 0.5" in refused.stderr
    assert "delete the folder .tags.jsonl.run to start again" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert {f.name: f.read_bytes() for f in (folder / ".tags.jsonl.run").iterdir()} == before

    for file in (folder / ".tags.jsonl.run").iterdir():
        file.unlink()
    (folder / ".tags.jsonl.run").rmdir()
    assert tag(folder, "tags.jsonl", "--threshold", "0.5").returncode == 0


@pytest.mark.parametrize("out", FORMATS)
def test_killed_at_any_moment_and_run_again(folder: Path, out: str) -> None:
    n_moments = int(script(folder, AT_EVERY_MOMENT, "docs.jsonl", "labels.jsonl", out, "fresh"))
    assert n_moments > 20


@pytest.mark.parametrize("out", FORMATS)
def test_killed_over_and_over(folder: Path, out: str) -> None:
    assert tag(folder, f"whole.{out}").returncode == 0
    assert int(script(folder, AT_EVERY_MOMENT, "docs.jsonl", "labels.jsonl", out, "resume")) > 5
    assert (folder / out).read_bytes() == (folder / f"whole.{out}").read_bytes()


@pytest.mark.parametrize(
    ("limit", "words", "n_parts", "where"),
    [
        (100, 1, 0, "run.json"),
        (1000, 70, 0, "00000000.part: File too large: needs ≈ 1.5 kB, "),
        (700, 1, 3, "shards.jsonl"),
        (4000, 70, 5, "merged: File too large: needs ≈ 7.7 kB, "),
    ],
    ids=["at the manifest", "at a part", "at the journal", "while merging"],
)
def test_a_full_disk_keeps_finished_shards(
    folder: Path, limit: int, words: int, n_parts: int, where: str
) -> None:
    # A limit on the size of files makes writes fail as a full disk does.
    lines = [json.dumps({"id": f"d{i}", "text": "air transport fisheries"}) for i in range(10)]
    (folder / "docs.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "labels.jsonl").write_text(json.dumps({"id": "L1", "text": "fisheries " * words}) + "\n")
    whole = tag(folder, "whole.jsonl")
    assert whole.returncode == 0

    full = tag(folder, "tags.jsonl", "--file-limit", str(limit))
    assert full.returncode == 3, full.stderr
    assert len(full.stderr.splitlines()) == 1
    assert where in full.stderr
    assert "free; finished shards are kept" in full.stderr
    assert not (folder / "tags.jsonl").exists()
    assert len(shards_in(folder, "tags.jsonl")) == n_parts
    assert not list((folder / ".tags.jsonl.run").glob("*.tmp"))
    assert not (folder / ".tags.jsonl.run" / "merged").exists()

    assert tag(folder, "tags.jsonl").returncode == 0
    assert (folder / "tags.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()


def test_two_jobs_at_once_write_one_output(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.tag.overlap", "docs.jsonl", "labels.jsonl", "tags.jsonl"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    jobs = [
        subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [job.communicate(timeout=120)[1] for job in jobs]
    for job, text in zip(jobs, told, strict=True):
        assert job.returncode == 0 or (job.returncode == 3 and "another job is writing it" in text), text
    assert 0 in {job.returncode for job in jobs}
    assert tag(folder, "whole.jsonl").returncode == 0
    assert (folder / "tags.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()
