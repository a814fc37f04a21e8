"""What a figure depends on besides data and system: versions, the state of the code, the machine."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

CODE = (":(top)*.py", ":(top)*.yaml")  # not the results that a benchmark adds to a file of the repository
PACKAGES = ("xmc", "torch", "numpy", "scipy", "transformers", "faiss-cpu", "faiss-gpu")


def versions() -> dict[str, str]:
    """Python's and those of the packages that results depend on, where they are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_hash() -> str | None:
    """The commit of the code that runs, where code was changed with ``-dirty-`` and a hash of the changes.

    None outside a checkout. Installed below a folder that is a repository of something else, the code is in
    no commit.
    """
    return commit_of(Path(__file__).resolve())


def commit_of(file: Path) -> str | None:
    """The commit that is checked out where ``file`` is kept, and its changes as above; None without."""
    here = file.parent
    if _git(here, "ls-files", "--error-unmatch", file.name) is None:
        return None
    head = _git(here, "rev-parse", "HEAD")
    if head is None:
        return None
    changes = _git(here, "diff", "--no-ext-diff", "HEAD", "--", *CODE)
    return f"{head}-dirty-{hashlib.sha256(changes.encode()).hexdigest()[:12]}" if changes else head


def _git(folder: Path, *arguments: str) -> str | None:
    # Without GIT_DIR and its like, which a hook that runs this may have set for another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", check=True, env=environment
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def hardware() -> dict[str, Any]:
    """Processor, CPUs that this process may use, memory in GiB, and the load of the last minute."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": _processor(),
        "cpus": usable,
        "memory_gib": round(memory, 1),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
