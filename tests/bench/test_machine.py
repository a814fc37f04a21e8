import shutil
import subprocess

import pytest

from xmc.bench.machine import commit_of

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def git(folder, *arguments):
    who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    done = subprocess.run(["git", "-C", folder, *who, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_commit_is_that_of_the_code_itself(tmp_path, monkeypatch):
    code, installed = tmp_path / "code.py", tmp_path / "lib" / "code.py"
    installed.parent.mkdir()
    for path in (code, installed):
        path.write_text("pass")
    assert commit_of(code) is None
    git(tmp_path, "init", "--quiet")
    (tmp_path / "results.jsonl").touch()
    git(tmp_path, "add", "code.py", "results.jsonl")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    (tmp_path / "results.jsonl").write_text("{}")
    assert commit_of(code) == head
    assert commit_of(installed) is None
    code.write_text("changed")
    first = commit_of(code)
    assert first.startswith(f"{head}-dirty-")
    assert commit_of(code) == first
    code.write_text("changed again")
    assert commit_of(code) not in (head, first)
