"""A change of a model that is killed at any step on disk: the old model is there, or the new one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.corpus_t import data_files, docs_file, index, labels_file, xmc
from xmc.artifacts import find_faults

ROOT = Path(__file__).resolve().parents[2]
NEW = [("L5", "space law"), ("L6", "cheese")]
DOCS = [("n1", "Zeppelins over the sea", ["L1"]), ("n2", "Zeppelins again", ["L1", "L3"])]

# Runs one command on copies of a model, each in a fork that dies before its n-th step on disk; ends with the
# first that lives.
CHANGES = """
import json, os, signal, shutil, sys
from xmc.cli import main
from xmc.config import settings_of
from xmc.model import Model

settings_of("labels")  # imports what each fork would import

def run(end, arguments):
    calls = 0
    def counted(do):
        def wrapped(*args, **more):
            nonlocal calls
            calls += 1
            if calls > end:
                os.kill(os.getpid(), signal.SIGKILL)
            return do(*args, **more)
        return wrapped
    for name in ("rename", "link", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    os._exit(main(arguments))

for end in range(200):
    shutil.copytree("model", f"model{end}")
    child = os.fork()
    if child == 0:
        run(end, [sys.argv[1], *sys.argv[2:], "--model", f"model{end}"])
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps(code), flush=True)
    if code != -signal.SIGKILL:
        break
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    index(tmp_path / "model", labels_file(tmp_path / "labels.jsonl"), docs_file(tmp_path / "docs.jsonl"))
    labels_file(tmp_path / "new.jsonl", NEW)
    docs_file(tmp_path / "newdocs.jsonl", DOCS)
    return tmp_path


def outcomes(folder: Path, *arguments: str) -> list[int]:
    command = [sys.executable, "-c", CHANGES, *arguments]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    environment["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("labels", "add", "--labels", "new.jsonl"),
        ("learn", "--docs", "newdocs.jsonl"),
        ("learn", "--remove", "--docs", "docs.jsonl"),
    ],
)
def test_killed_at_any_step_it_leaves_the_old_model_or_the_new_one(folder, arguments, monkeypatch):
    monkeypatch.chdir(folder)
    old = data_files(folder / "model")
    codes = outcomes(folder, *arguments)
    assert codes[-1] == 0
    assert set(codes[:-1]) == {-signal.SIGKILL}
    new = data_files(folder / f"model{len(codes) - 1}")
    assert new != old
    seen = set()
    for end in range(len(codes) - 1):
        model = folder / f"model{end}"
        assert find_faults(model, verify=True) == []
        found = data_files(model)
        assert found in (old, new)
        seen.add(found == new)
    assert seen == {True, False}  # it is killed before and behind the moment at which the new one counts
    killed = next(folder / f"model{i}" for i in range(len(codes)) if data_files(folder / f"model{i}") == old)
    assert xmc(*arguments, "--model", killed) == 0
    assert data_files(killed) == new
    assert not (folder / f".{killed.name}.xmc-work").exists()
