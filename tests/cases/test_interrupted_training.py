"""`xmc train` that is killed while it trains, and run again: the same model to the byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cases.corpus_t import data_files, docs_file, labels_file, synthetic

pytestmark = pytest.mark.timeout(900)  # one fixture does some twenty trainings
ROOT = Path(__file__).resolve().parents[2]
STEPS = 6  # of three epochs on 136 documents; as many again on all 170
STEPS_DEV = 6  # on all 170, once, where other documents judge
SOFTMAX = "decoupled_softmax"

# Runs trainings one after another, each in a fork. Each writes down how many steps it took. Those that are to
# end keep every step up to the one that is named: they die before it, or while it is kept, or raise an error.
TRAININGS = """
import json, os, signal, sys
import safetensors.torch, scipy.optimize, torch._dynamo, torch.profiler
from xmc import build
from xmc.cli import main
from xmc.config import settings_of
from xmc.data import jsonl
from xmc.errors import ResourceError
from xmc.train import checkpoint, loop

settings_of("train"), torch._dynamo  # imports what each fork would import
one_step, save = loop.Trainer._step, checkpoint.save_tensors

def run(out, end, how, loss, dev):
    steps = []
    def stepped(self, rows):
        if len(steps) == end and how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if len(steps) == end and how == "error":
            raise ResourceError("something is missing")
        steps.append(len(rows))
        return one_step(self, rows)
    def saved(path, tensors):
        save(path, tensors)
        if len(steps) == end and how == "kill while saving":
            os.kill(os.getpid(), signal.SIGKILL)
    loop.Trainer._step, checkpoint.save_tensors = stepped, saved
    loop.SAVE_EVERY = 60 if end < 0 else 0
    code = main(["train", "--labels", "labels.jsonl", "--docs", "docs.jsonl", "-o", out, "preset=fast",
                 "threads=1", "train.epochs=3", "train.dim=32", f"train.loss={loss}",
                 *(["--dev", dev] if dev else [])])
    with open("steps.json", "w") as file:
        json.dump(len(steps), file)
    os._exit(code)

for job in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        run(*job)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    hidden = {p: sorted(os.listdir(p)) for p in os.listdir() if p.endswith(".xmc-build")}
    steps = json.load(open("steps.json")) if code == 0 else None
    print(json.dumps({"code": code, "steps": steps, "hidden": hidden}), flush=True)
"""


def job(out: str, end: int = -1, how: str = "kill", loss: str = "bce", dev: str = "") -> list[Any]:
    return [out, end, how, loss, dev]


JOBS = {
    "whole": [job("whole"), job("whole softmax", loss=SOFTMAX)],
    "killed": [job("killed", 3), job("killed", 1), job("killed")],
    "softmax": [job("softmax", 3, loss=SOFTMAX), job("softmax", loss=SOFTMAX)],
    "final": [job("final", STEPS + 3), job("final")],
    "saving": [job("saving", 3, "kill while saving"), job("saving")],
    "error": [job("error", 2, "error"), job("error")],
    "dev": [job("whole dev", dev="dev.jsonl"), job("dev", 4, dev="dev.jsonl"), job("dev", dev="dev.jsonl")],
    "other dev": [
        job("whole other", dev="other.jsonl"),
        job("other", 4, dev="dev.jsonl"),
        job("other", dev="other.jsonl"),
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trainings")
    labels, docs = synthetic(25, 170)
    labels_file(folder / "labels.jsonl", labels)
    docs_file(folder / "docs.jsonl", docs)
    dev = [(f"e{i}", text, gold) for i, text, gold in synthetic(25, 200)[1][170:]]
    docs_file(folder / "dev.jsonl", dev)
    docs_file(folder / "other.jsonl", [(i, text, gold[:1]) for i, text, gold in dev])
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What became of each of the ``JOBS``, all run in one process, which saves the imports."""
    command = [sys.executable, "-c", TRAININGS, json.dumps([each for jobs in JOBS.values() for each in jobs])]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    environment["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    return {name: [json.loads(next(lines)) for _ in jobs] for name, jobs in JOBS.items()}


def outcomes(found: list[dict[str, Any]]) -> list[tuple[int, int | None]]:
    return [(each["code"], each["steps"]) for each in found]


def steps_of_softmax(found: dict[str, list[dict[str, Any]]]) -> int:
    """All of the first training, and as many epochs of the second as were best in the first."""
    steps = int(found["whole"][1]["steps"])
    assert steps in {STEPS + epochs * STEPS // 3 for epochs in (1, 2, 3)}
    return steps


KILLED = (-signal.SIGKILL, None)


def test_not_interrupted(folder, found):
    assert outcomes(found["whole"]) == [(0, 2 * STEPS), (0, steps_of_softmax(found))]
    assert found["whole"][1]["hidden"] == {}
    one, other = data_files(folder / "whole"), data_files(folder / "whole softmax")
    assert one["encoder/trained.safetensors"] != other["encoder/trained.safetensors"]


def test_killed_while_training_and_run_again(folder, found):
    assert outcomes(found["killed"]) == [KILLED, KILLED, (0, 2 * STEPS - 4)]
    assert [list(each["hidden"]) for each in found["killed"]] == [[".killed.xmc-build"]] * 2 + [[]]
    assert data_files(folder / "killed") == data_files(folder / "whole")


def test_the_same_with_the_other_loss(folder, found):
    assert outcomes(found["softmax"]) == [KILLED, (0, steps_of_softmax(found) - 3)]
    assert data_files(folder / "softmax") == data_files(folder / "whole softmax")


def test_killed_in_the_second_training_on_all_documents(folder, found):
    assert outcomes(found["final"]) == [KILLED, (0, STEPS - 3)]
    assert data_files(folder / "final") == data_files(folder / "whole")


def test_killed_while_a_checkpoint_is_written(folder, found):
    assert outcomes(found["saving"]) == [KILLED, (0, 2 * STEPS - 2)]
    assert data_files(folder / "saving") == data_files(folder / "whole")


def test_an_error_keeps_the_checkpoint_and_nothing_else(folder, found):
    assert outcomes(found["error"]) == [(3, None), (0, 2 * STEPS - 2)]
    assert [each["hidden"] for each in found["error"]] == [{".error.xmc-build": ["training"]}, {}]
    assert data_files(folder / "error") == data_files(folder / "whole")


def test_killed_while_other_documents_judge_and_run_again(folder, found):
    assert outcomes(found["dev"]) == [(0, STEPS_DEV), KILLED, (0, STEPS_DEV - 4)]
    assert data_files(folder / "dev") == data_files(folder / "whole dev")


def test_run_again_with_other_gold_labels_of_those_that_judge(folder, found):
    """Nothing that was done before counts."""
    assert outcomes(found["other dev"]) == [(0, STEPS_DEV), KILLED, (0, STEPS_DEV)]
    assert data_files(folder / "other") == data_files(folder / "whole other")
