"""Second and killed writers, readers beside writers, and what lies in the way."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases.artifacts.made import SOURCE, run, snapshot, write
from xmc.artifacts import (
    ArtifactWriter,
    open_artifact,
)
from xmc.errors import InputError, ResourceError

# Two writers, killed writers


def test_a_second_writer_is_refused_and_the_first_is_not_disturbed(tmp_path):
    with ArtifactWriter(tmp_path / "m", "model") as first:
        (first.path / "a").write_bytes(b"first")
        with pytest.raises(ResourceError, match="another xmc process is writing it"):
            write(tmp_path / "m", b"second")
        done = run(
            "import sys; sys.path[:0] = sys.argv[2:]\n"
            "from tests.cases.artifacts.made import write; write(sys.argv[1], b'x')",
            tmp_path / "m",
            SOURCE,
        )
        assert "another xmc process is writing it" in done.stderr
        assert (first.path / "a").read_bytes() == b"first"
    assert open_artifact(tmp_path / "m", "model").names == ["a"]


def test_writers_of_neighbours_do_not_meet(tmp_path):
    with ArtifactWriter(tmp_path / "m", "model") as one, ArtifactWriter(tmp_path / "n", "model") as two:
        (one.path / "a").write_bytes(b"1")
        (two.path / "a").write_bytes(b"2")
    assert open_artifact(tmp_path / "m", "model").id != open_artifact(tmp_path / "n", "model").id


# What a writer calls on the way; a kill is tried before and after each call.
CALLS = ("mkdir", "rename", "fsync", "unlink", "rmdir", "open", "link")


def killed_at(limit: int, after: bool, model: Path) -> bool:
    """Replace ``model`` in a child killed at its ``limit``-th call; whether the child got to its end."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        return not os.WIFSIGNALED(status)
    n_calls = 0

    def guarded(call):
        def guard(*arguments, **options):
            nonlocal n_calls
            n_calls += 1
            if n_calls == limit and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*arguments, **options)
            finally:
                if n_calls == limit:
                    os.kill(os.getpid(), signal.SIGKILL)

        return guard

    for name in CALLS:
        setattr(os, name, guarded(getattr(os, name)))
    write(model, b"new", replace=True)
    os._exit(0)


def kill_everywhere(folder: Path, after: bool, then: str) -> None:
    """Kill a writer at every call; after each, a whole artifact is there, if one was, and can be replaced."""
    os.fsync = lambda handle: None  # a killed process loses nothing that it wrote, synced or not
    for limit in itertools.count(1):
        model = folder / str(limit) / "model"
        if then != "first":
            write(model, b"old")
        finished = killed_at(limit, after, model)
        if then == "read" or (then == "first" and model.exists()):
            gap = "" if model.exists() else " after a gap"
            open_artifact(model, "model", verify=True)
            print(snapshot(model)["index.faiss"][:3].decode() + gap)
        write(model, b"two", replace=True)
        assert snapshot(model)["index.faiss"][:3] == b"two"
        open_artifact(model, "model", verify=True)
        assert sorted(os.listdir(model.parent)) == [".model.xmc-lock", "model"]
        if finished:
            break


KILL = """
import sys; sys.path[:0] = sys.argv[2:]
from pathlib import Path
from tests.cases.artifacts.test_busy_places import kill_everywhere
kill_everywhere(Path(sys.argv[1]), AFTER, THEN)
"""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("then", ["write", "read", "first"])
def test_no_kill_loses_the_artifact_or_blocks_the_next_writer(tmp_path, after, then):
    code = KILL.replace("AFTER", repr(after)).replace("THEN", repr(then))
    done = run(code, tmp_path, SOURCE)
    assert done.returncode == 0, done.stderr
    seen = done.stdout.splitlines()
    if then == "read":
        assert len(seen) > 20
        # Old until the swap, new from then on.
        assert list(dict.fromkeys(seen)) == ["old", "old after a gap", "new"]
    elif then == "first":
        assert set(seen) == {"new"}


def test_only_our_own_leftovers_are_removed(tmp_path):
    work = tmp_path / ".model.xmc-work"
    (work / "new").mkdir(parents=True)
    (work / "new" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="not made by xmc; move it away"):
        write(tmp_path / "model", b"x")
    (work / "owner").write_bytes(b"files that xmc is writing for another\n")
    with pytest.raises(InputError, match="not made by xmc"):
        write(tmp_path / "model", b"x")
    (work / "owner").write_bytes(b"files that xmc is writing for model\n")
    (work / "stranger").write_text("mine too")
    write(tmp_path / "model", b"x")
    assert sorted(os.listdir(work)) == ["owner", "stranger"]
    write(tmp_path / "model", b"y", replace=True)
    assert (work / "stranger").read_text() == "mine too"


def test_a_link_in_the_place_of_leftovers_is_not_followed(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat").write_text("mine")
    (tmp_path / ".model.xmc-work").symlink_to("photos")
    with pytest.raises(InputError, match="not made by xmc"):
        write(tmp_path / "model", b"x")
    (tmp_path / ".model.xmc-work").unlink()
    (tmp_path / ".model.xmc-work").mkdir()
    (tmp_path / ".model.xmc-work" / "owner").write_bytes(b"files that xmc is writing for model\n")
    (tmp_path / ".model.xmc-work" / "new").symlink_to("../photos")
    with contextlib.suppress(InputError):
        write(tmp_path / "model", b"x")
    assert (tmp_path / "photos" / "cat").read_text() == "mine"


def test_what_took_the_place_of_an_artifact_is_not_overwritten(tmp_path):
    model = write(tmp_path / "model", b"old")
    work = tmp_path / ".model.xmc-work"
    work.mkdir()
    (work / "owner").write_bytes(b"files that xmc is writing for model\n")
    model.rename(work / "old")
    model.mkdir()
    (model / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="took the place of an artifact"):
        write(model, b"new", replace=True)
    assert (model / "thesis.txt").read_text() == "mine"
    assert (work / "old" / "index.faiss").exists()


REPLACE = """
import os, sys; sys.path[:0] = sys.argv[2:]
from pathlib import Path
from tests.cases.artifacts.made import write
os.fsync = lambda handle: None
for i in range(60):
    write(Path(sys.argv[1]), b"%03d" % i, replace=True)
"""


def test_a_reader_beside_a_writer_always_finds_a_whole_artifact(model):
    writer = subprocess.Popen([sys.executable, "-c", REPLACE, str(model), str(SOURCE)])
    seen = set()
    while writer.poll() is None:
        seen.add(open_artifact(model, "model", verify=True).id)
    assert writer.returncode == 0
    assert len(seen) > 3
