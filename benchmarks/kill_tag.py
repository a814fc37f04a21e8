"""Kills `xmc tag` at random moments and lets it go on: the output must be that of an undisturbed run.

    python benchmarks/kill_tag.py MODEL DOCS [--kills 20] [--seed 0] [SETTING ...]

The moments are drawn evenly over the time that the undisturbed run took. A run that comes to its end is taken
away and begun anew, until there were as many kills. Exit code 1 if a byte differs.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def command(model: str, docs: str, out: Path, settings: list[str]) -> list[str]:
    return [sys.executable, "-m", "xmc", "tag", "--model", model, "--docs", docs, "-o", str(out), *settings]


def killed(run: list[str], after: float) -> bool:
    """Whether the run was still at work ``after`` so many seconds, and so was killed."""
    process = subprocess.Popen(run, stderr=subprocess.PIPE)
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    if process.returncode != 0:
        raise SystemExit(f"a run ended with exit code {process.returncode}")
    return False


def remove(out: Path) -> None:
    """Take a finished output away, so that the next run begins anew."""
    out.unlink()
    out.with_name(f"{out.name}.run.json").unlink()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("docs")
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_intermixed_args()
    draw = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, out = Path(folder) / "whole.jsonl", Path(folder) / "killed.jsonl"
        started = time.monotonic()
        subprocess.run(command(args.model, args.docs, whole, args.settings), check=True)
        seconds = time.monotonic() - started
        run = command(args.model, args.docs, out, args.settings)
        n_killed = n_finished = 0
        while n_killed < args.kills:
            if killed(run, draw.uniform(0, seconds)):
                n_killed += 1
                continue
            n_finished += 1
            if out.read_bytes() != whole.read_bytes():
                raise SystemExit(f"the output differs after {n_killed} kills")
            remove(out)
        subprocess.run(run, check=True)
        same = out.read_bytes() == whole.read_bytes()
        n_docs = out.read_bytes().count(b"\n")
    print(
        f"{n_docs:,} documents, {n_killed} kills, {n_finished + 1} runs to the end: output identical: {same}"
    )
    sys.exit(not same)


if __name__ == "__main__":
    main()
