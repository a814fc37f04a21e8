"""A peer on a data set, measured as `xmc bench` measures xmc: same splits, same evaluator, one line of JSON.

    python benchmarks/peers/run.py PEER NAME|FOLDER -o DIR [--data DIR] [--results F] [--environments DIR]

Each peer runs in its own environment, ENVIRONMENTS/REQUIREMENTS, which `benchmarks/peers/setup.sh` makes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from xmc.bench.run import System, append, measure
from xmc.bench.stages import Stage
from xmc.bench.task import Task, task_of
from xmc.cli import run_script
from xmc.errors import InputError, ResourceError

HERE = Path(__file__).resolve().parent


class Peer(NamedTuple):
    """Its environment, the script here that runs it, options for building, the package it stands for."""

    environment: str
    script: str
    options: tuple[str, ...]
    package: str


LABELS = ("--labels", "{labels}")  # stands for the file of labels
PEERS = {
    "omikuji-bonsai": Peer("omikuji", "omikuji_trees.py", ("--tree", "bonsai"), "omikuji"),
    "omikuji-parabel": Peer("omikuji", "omikuji_trees.py", ("--tree", "parabel"), "omikuji"),
    "pecos-xr-linear": Peer("pecos", "pecos_trees.py", (), "libpecos"),
    "napkinxc-br": Peer("napkinxc", "napkinxc_linear.py", (), "napkinxc"),
    "annif-mllm": Peer("annif", "annif_projects.py", ("--project", "mllm", *LABELS), "annif"),
    "annif-ensemble": Peer("annif", "annif_projects.py", ("--project", "ensemble", *LABELS), "annif"),
    "sentence-names": Peer("sentence", "sentence.py", ("--by", "names", *LABELS), "transformers"),
    "sentence-neighbours": Peer("sentence", "sentence.py", ("--by", "neighbours"), "transformers"),
    "tfidf-linear-svc": Peer("linear", "linear.py", (), "scikit-learn"),
    "tfidf-neighbours": Peer("linear", "neighbours.py", (), "scikit-learn"),
}


def main() -> None:
    """Measure and print the line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("data_set")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--environments", type=Path, default=HERE / "environments")
    args = parser.parse_args()
    task = task_of(args.data_set, args.data, "auto", [], seed=0)
    peer = PEERS[args.peer]
    line = measure(task, _system(args.peer, peer, args.environments, task, args.out), args.out, tell)
    append(line, args.results or args.out / "results.jsonl")
    print(json.dumps(line, ensure_ascii=False, allow_nan=False))


def tell(stage: str) -> None:
    """Say on standard error what is run now."""
    print(stage, file=sys.stderr)


def _system(name: str, peer: Peer, environments: Path, task: Task, folder: Path) -> System:
    python = environments / peer.environment / "bin" / "python"
    if not python.exists():
        made = f"benchmarks/peers/setup.sh {peer.environment} makes it"
        raise ResourceError(f"{python}: no such environment; {made}")
    model, predictions, given = folder / "model", folder / "predictions.jsonl", folder / "documents"
    options = [str(given / "labels.jsonl") if o == "{labels}" else o for o in peer.options]
    script = [str(python), str(HERE / peer.script)]
    build = [*script, "build", "--docs", str(given / "train.jsonl"), "-o", str(model), *options]
    tag = [*script, "tag", "--model", str(model), "--docs", str(given / "judged.jsonl")]
    stages = (
        Stage("documents", _given(task, given), given),
        Stage("build", build, model),
        Stage("tag", [*tag, "-o", str(predictions)], predictions),
    )
    return System(name, peer.options, stages, model, predictions, _versions(python, peer.package))


def _given(task: Task, folder: Path) -> list[str]:
    """The command that makes what the peer reads of the data set's files."""
    if "train" not in task.layout.files:
        raise InputError(f"{task.layout.folder}: no training documents, which every peer here learns from")
    train, filtered = str(task.layout.files["train"]), task.layout.filter_of("train")
    files = ["--docs", train, *task.layout.labels, *filtered, "--judged", str(task.gold)]
    return [sys.executable, str(HERE / "documents.py"), *files, "-o", str(folder)]


def _versions(python: Path, package: str) -> dict[str, str]:
    asked = (
        f"import platform, importlib.metadata as m; print(platform.python_version(), m.version({package!r}))"
    )
    said = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    return {"python": said[0], package: said[1]}


if __name__ == "__main__":
    run_script(main)
