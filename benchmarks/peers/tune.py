"""Choose a peer's settings on training documents alone: every fifth is held out, and a grid tried.

    python benchmarks/peers/tune.py PEER GIVEN -o DIR [--environments DIR] [NAME=VALUE[,VALUE...] ...]

GIVEN: the folder that `documents.py` made of a data set (`OUT/documents` of a row). Prints a line of JSON for
each combination, metrics in percent and the CPU seconds of building, and keeps it in DIR/tuned.jsonl; what
stands there is not tried again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import scipy.sparse as sp
from run import HERE, PEERS, Peer

from xmc.cli import run_script
from xmc.errors import InputError
from xmc.evaluate.run import evaluate_files

EVERY = 5  # one in five training documents is held out
JUDGED = ("nDCG@5", "P@1", "R@100")


def main() -> None:
    """Try what has not been tried."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("given", type=Path)
    parser.add_argument("settings", nargs="*")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--environments", type=Path, default=HERE / "environments")
    args = parser.parse_intermixed_args()
    held_out(args.given, args.out)
    kept = args.out / "tuned.jsonl"
    for options in grid(args.settings):
        asked = {"peer": args.peer, "settings": options}
        if not any(asked.items() <= line.items() for line in lines_of(kept)):
            found = asked | tried(PEERS[args.peer], options, args.environments, args.given, args.out)
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            print(json.dumps(found))


def grid(settings: list[str]) -> Iterator[list[str]]:
    """Every combination of the values, as options of the peer's script."""
    pairs = [setting.partition("=") for setting in settings]
    if not all(values for _, _, values in pairs):
        raise InputError(f"{' '.join(settings)}: wanted NAME=VALUE[,VALUE...]")
    for chosen in itertools.product(*(values.split(",") for _, _, values in pairs)):
        named = zip((name for name, _, _ in pairs), chosen, strict=True)
        yield [part for name, value in named for part in (f"--{name}", value)]


def lines_of(path: Path) -> list[dict[str, object]]:
    """The records of a file of JSON lines; none without the file."""
    return [json.loads(line) for line in path.open(encoding="utf-8")] if path.is_file() else []


def held_out(given: Path, out: Path) -> None:
    """Write train.jsonl and judged.jsonl (with the rows of features beside them) unless they are there."""
    if (out / "judged.jsonl").is_file():
        return
    out.mkdir(parents=True, exist_ok=True)
    lines = (given / "train.jsonl").read_bytes().splitlines(keepends=True)
    features = given / "train.npz"
    rows = sp.load_npz(features).tocsr() if features.is_file() else None
    for name, judged in (("train", False), ("judged", True)):
        at = [n for n in range(len(lines)) if (n % EVERY == EVERY - 1) == judged]
        if rows is not None:
            sp.save_npz(out / f"{name}.npz", rows[at])
        (out / f"{name}.jsonl").write_bytes(b"".join(lines[n] for n in at))


def tried(
    peer: Peer, options: list[str], environments: Path, given: Path, out: Path
) -> dict[str, float | None]:
    """Percent of the metrics that are judged, and the CPU seconds of building."""
    script = [str(environments / peer.environment / "bin" / "python"), str(HERE / peer.script)]
    model, predictions, before = out / "model", out / "predictions.jsonl", os.times()
    stands = [str(given / "labels.jsonl") if o == "{labels}" else o for o in peer.options]
    build = ["build", "--docs", str(out / "train.jsonl"), "-o", str(model), *stands, *options]
    subprocess.run([*script, *build], check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    after = os.times()
    tag = ["tag", "--model", str(model), "--docs", str(out / "judged.jsonl"), "-o", str(predictions)]
    subprocess.run([*script, *tag], check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    found = evaluate_files(out / "judged.jsonl", predictions, out / "train.jsonl")
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return {name: percent(found.value(name)) for name in JUDGED} | {"build_cpu_s": round(cpu, 1)}


def percent(value: float | None) -> float | None:
    """With two decimals."""
    return None if value is None else round(100 * value, 2)


if __name__ == "__main__":
    run_script(main)
