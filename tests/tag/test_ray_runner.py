"""The Ray runner, on a Ray of this machine: workers that die, and a run that changes its runner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tag.overlap import OverlapTagger, label_set
from xmc.data.corpus import Corpus
from xmc.data.records import DocumentBatch, Fault
from xmc.errors import InputError, SettingError
from xmc.tag.job import TagJob
from xmc.tag.ray_runner import RayRunner, Worker, from_json, to_json
from xmc.tag.run import ShardRecord
from xmc.tag.shards import Shard
from xmc.tag.spool import read_shard, write_shard
from xmc.tag.suggestions import Suggestions, TagOptions
from xmc.tag.work import ShardFailure, ShardWork
from xmc.tag.writers import format_of

ROOT = Path(__file__).resolve().parents[2]
PATIENT = {"RAY_raylet_start_wait_time_s": "300"}  # a busy machine takes long to start it
LABELS = (("L1", "air transport"), ("L2", "fisheries"))


class Mortal(OverlapTagger):
    """Kills its process at the text ``poison``, once: a file tells that it was done."""

    def __init__(self, mark: Path) -> None:
        super().__init__(label_set(*LABELS))
        self.mark = mark

    def suggest(self, batch: DocumentBatch, texts: list[set[str]], options: TagOptions) -> Suggestions:
        if any("poison" in text for text in texts) and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if any("never" in text for text in texts):
            raise InputError("NaN or infinity for a text")
        return super().suggest(batch, texts, options)


def docs(folder: Path, *odd: str) -> Path:
    texts = [f"fisheries {i}" for i in range(9)] + list(odd)
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    (folder / "docs.jsonl").write_text("\n".join([*lines[:4], "{no JSON", *lines[4:]]) + "\n")
    return folder / "docs.jsonl"


def job(folder: Path, out: Path, **more: Any) -> TagJob:
    corpus = Corpus([folder / "docs.jsonl"], keep_faults=True)
    return TagJob(Mortal(folder.resolve() / "mark"), corpus, out, shard_size=2, **more)


def test_a_shard_on_the_disk_is_the_same_shard(tmp_path: Path) -> None:
    fault = Fault("x:3", InputError("x:3: bad"), "d3", True)
    shard = Shard(4, DocumentBatch(["d1", "\ud800"], ["a\u2028", ""], None, None, ["x:1", "x:2"], [fault]))
    write_shard(tmp_path, shard)
    found = read_shard(tmp_path, 4)
    assert (found.index, found.batch.ids, found.batch.texts) == (4, ["d1", "\ud800"], ["a\u2028", ""])
    assert [(f.place, f.reason, f.id, f.ends_file) for f in found.batch.faults] == [
        ("x:3", "bad", "d3", True)
    ]


def test_rows_of_features_are_refused(tmp_path: Path) -> None:
    from scipy.sparse import csr_matrix

    with pytest.raises(SettingError, match=r"tag\.runner=local"):
        write_shard(tmp_path, Shard(0, DocumentBatch(["1"], None, csr_matrix((1, 3)), None, ["x:1"])))


def test_results_as_text() -> None:
    for result in (ShardRecord(1, 2, 3, {"empty_text": 1}, "d", 4, "s"), ShardFailure(1, 2, "p", "m", 3)):
        assert from_json(to_json(result)) == result


def test_nothing_left_to_do_starts_nothing() -> None:
    work = ShardWork(OverlapTagger(label_set(*LABELS)), TagOptions(), format_of("x.jsonl"), Path("."))
    assert list(RayRunner().run([], work)) == []


def test_a_shard_that_a_worker_does_not_see_is_told(tmp_path: Path) -> None:
    work = ShardWork(OverlapTagger(label_set(*LABELS)), TagOptions(), format_of("x.jsonl"), tmp_path)
    (told,) = Worker(work)({"shard": [3]})["result"]
    found = from_json(told)
    assert isinstance(found, ShardFailure)
    assert (found.index, found.exit_code, found.place) == (3, 3, f"{tmp_path}/00000003.docs")
    assert "No such file or directory; wanted OUT in a folder that all machines see" in found.message


CODE = """
import os
import sys
from pathlib import Path
import ray
from tests.tag.test_ray_runner import docs, job
from xmc.tag.ray_runner import RayRunner
from xmc.tag.work import ShardsFailedError

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
os.chdir(sys.argv[1])  # Ray's workers stand where it was started
folder = Path(".")
docs(folder, "poison", "more")

# Workers die, and the run is begun here and ended there.
(folder / "mark").touch()
job(folder, folder / "whole.jsonl").run()
(folder / "mark").unlink()
n = 0
def stop(n_docs):
    global n
    n += n_docs
    if n >= 4:
        raise KeyboardInterrupt
try:
    job(folder, folder / "out.jsonl", progress=stop).run()
except KeyboardInterrupt:
    pass
report = job(folder, folder / "out.jsonl", runner=RayRunner()).run()
assert (folder / "mark").exists()
assert report.n_reused == 4, report
assert report.n_quarantined == 1, report
assert (folder / "out.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()
assert not (folder / ".out.jsonl.run").exists()

# A shard that fails leaves the others, which came through a store.
store = (folder / "store").resolve()
docs(folder, "poison", "never", "never", "never")
try:
    job(folder, folder / "failed.jsonl", runner=RayRunner(f"file://{store}")).run()
    raise SystemExit("no failure")
except ShardsFailedError as failed:
    assert "1 of 7 shards failed" in str(failed), failed
    assert failed.exit_code == 2
assert len(list((folder / ".failed.jsonl.run").glob("*.part"))) == 6
assert not list((folder / ".failed.jsonl.run").glob("*.docs"))
assert not list(store.iterdir())
print("done")
"""


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_workers_that_die_and_shards_that_fail(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)],
        env={**os.environ, **PATIENT, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "done" in done.stdout.splitlines()  # among what Ray tells of workers that died
