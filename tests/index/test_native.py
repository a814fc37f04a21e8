"""torch and FAISS in one process: import orders, one thread, a fork after use. Each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xmc
from xmc.index.kinds import make_index

SEARCH = """
import sys
from pathlib import Path
import numpy as np
from xmc.index.kinds import load_index

def search():
    queries = np.random.default_rng(1).standard_normal((300, 16), dtype=np.float32)
    lines = []
    for directory in sys.argv[1:]:
        found = load_index(Path(directory)).search(queries, 5)
        lines.append(f"{found.rows.sum()} {found.scores.sum(dtype=np.float64)!r}")
    return " ".join(lines)
"""

FORK = """
import os
print(search(), flush=True)
child = os.fork()
if child == 0:
    print(search(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs code that may call search(), and returns the lines it prints."""
    directories = []
    for kind in ("exact", "ivf_flat"):
        index = make_index(kind, 16)
        index.add(np.arange(3000), np.random.default_rng(0).standard_normal((3000, 16), dtype=np.float32))
        index.compact()
        directories.append(tmp_path_factory.mktemp(kind))
        index.save(directories[-1])

    def run(code, **environment):
        # A hang is what is looked for: subprocess.run kills the process after the time.
        done = subprocess.run(
            [sys.executable, "-c", code, *map(str, directories)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **environment},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    return run


@pytest.fixture(scope="module")
def usual(run):
    return run(SEARCH + "print(search())")[0]


@pytest.mark.parametrize("imports", ["import torch, faiss", "import faiss, torch"])
def test_either_import_order_gives_the_same(run, usual, imports):
    assert run(imports + SEARCH + "print(search())") == [usual]


def test_one_thread_gives_the_same(run, usual):
    assert run(SEARCH + "print(search())", OMP_NUM_THREADS="1") == [usual]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_after_use_gives_the_same_and_does_not_hang(run, usual):
    assert run(SEARCH + FORK) == [usual, usual]


def test_nothing_outside_the_index_imports_faiss():
    root = Path(xmc.__file__).parent
    importing = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if any(
            line.strip().startswith(("import faiss", "from faiss")) for line in path.read_text().splitlines()
        )
    ]
    assert importing == ["index/native.py"]
