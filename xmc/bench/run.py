"""One row of a benchmark table: build, tag, evaluate, each its own process, and a JSON line of it all."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from xmc.artifacts.staging import Staging
from xmc.bench.layout import refuse_other_counts
from xmc.bench.machine import git_hash, hardware, versions
from xmc.bench.stages import Conditions, Cost, Stage, digest_of, run_stage, state_of
from xmc.bench.task import ONLY_EVAL, READING, Task
from xmc.errors import InputError, ResourceError, SettingError

SCHEMA = 2
MARK = ".xmc-bench"  # in a folder that may be written to
# Settings of building that tagging must be given too: what it computes with, and how files are read.
ALSO_FOR_TAGGING = ("device", "threads", "dtype", *(n for n in READING if n != "language"))
# The bases of metrics that a result line keeps; the report has all.
KEPT: tuple[str, ...] = (
    "P@1",
    "P@3",
    "P@5",
    "nDCG@5",
    "R@10",
    "R@50",
    "R@100",
    "PSP@1",
    "PSP@5",
    "PSnDCG@5",
    "RP@5",
)
KEPT += ("micro_f1_best", "macro_f1@5", "miss_rate")
DOCUMENTS = "documents"
TRAINING = "training documents"


@dataclass(frozen=True)
class System:
    """What is measured: its name, all settings as given, and the stages that build and tag.

    ``stages`` are run after one another; two of them are named ``build`` and ``tag``, and leave ``model`` and
    ``predictions``.
    """

    name: str
    settings: Sequence[str]
    stages: Sequence[Stage]
    model: Path
    predictions: Path
    versions: Mapping[str, str]


def xmc(*arguments: object) -> list[str]:
    """The command line of an ``xmc`` command, run by this very Python."""
    return [sys.executable, "-m", "xmc", *map(str, arguments)]


def measure(task: Task, system: System, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """Run what ``folder`` does not hold yet, and return the result line; ``tell`` hears of each stage.

    Raises: InputError where the folder is not a benchmark's, or holds results of other data or code;
    ResourceError while another benchmark writes to it.
    """
    _make(folder)
    with Staging(folder).locked():
        _mark(folder)
        return _measured(task, system, folder, tell)


def _measured(task: Task, system: System, folder: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    made = _conditions(task, system)
    tell(f"{task.name}: what it holds")
    counts = _inspected(task, folder, made)
    report = folder / "eval.json"
    stages = [
        *system.stages,
        Stage("eval", evaluation(task, system.predictions), report, report, quick=True),
    ]
    costs, anew = {}, False
    for stage in stages:
        tell(f"{task.name}, {system.name}: {stage.name}; what it says is in {folder / stage.name}.log")
        costs[stage.name], anew = run_stage(stage, folder, made, anew)
    found = json.loads(report.read_text(encoding="utf-8"))
    return _line(task, system, costs, found) | {"shared": counts}


def _conditions(task: Task, system: System) -> Conditions:
    files = {str(path): state_of(path) for path in task.layout.files.values()}
    return Conditions(files, git_hash(), dict(system.versions), hardware())


def _inspected(task: Task, folder: Path, made: Conditions) -> dict[str, int]:
    """Refuse other counts than the published ones before anything is built; what both splits share."""
    roles = {role: task.layout.files[role] for role in ("train", task.split) if role in task.layout.files}
    paths = [task.layout.files["labels"]] if "labels" in task.layout.files else []
    command = xmc("inspect", *paths, *roles.values(), "--json", *task.reading)
    output = folder / "inspect.json"
    run_stage(Stage("inspect", command, output, output, quick=True), folder, made)
    found = json.loads(output.read_text(encoding="utf-8"))
    by_path = {entry["path"]: entry for entry in found["files"]}
    counts = {role: by_path[str(path)]["n_docs"] for role, path in roles.items()}
    counts["labels"] = by_path[str(next(iter(roles.values())))]["labels"]["n_labels"]
    refuse_other_counts(counts, task.known)
    shared = [each for pair in found["shared"] for each in pair.items()]
    return {kind: each["n"] for kind, each in shared if isinstance(each, dict)}


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: is a file; -o wants a folder, new or of an earlier run") from None
    except OSError as error:
        raise ResourceError(f"{folder}: {error.strerror}; -o wants a folder that can be written") from None


def _mark(folder: Path) -> None:
    """Take an empty folder for benchmarks; InputError for one with other people's files."""
    mark = folder / MARK
    if mark.exists():
        return
    if any(folder.iterdir()):
        raise InputError(f"{folder}: holds other files; -o wants a folder, new or of an earlier run")
    mark.write_text("`xmc bench` made this folder and replaces files in it\n", encoding="utf-8")


def evaluation(task: Task, predictions: Path) -> list[str]:
    """The command that measures suggestions as a row is measured."""
    report = [] if task.report is None else ["--report", task.report]
    train = task.layout.option("train", "train")
    files = ["--gold", task.gold, "--pred", predictions, *train, *task.layout.labels]
    return xmc("eval", *files, *task.layout.filter_of(task.split), *report, "--json", *task.evaluation)


def _line(
    task: Task,
    system: System,
    costs: Mapping[str, Cost],
    found: Mapping[str, Any],
) -> dict[str, Any]:
    n_docs, tag, made = found["counts"][DOCUMENTS], costs["tag"], costs["build"].made
    return {
        "schema": SCHEMA,
        "data": task.name,
        "target": task.target,
        "split": task.split,
        "system": system.name,
        "settings": list(system.settings),
        "seed": task.seed,
        "metrics": _metrics(found),
        "calibration_error": None
        if found["calibration"] is None
        else round(found["calibration"]["error"], 3),
        "files": {role: digest_of(path) for role, path in sorted(task.layout.files.items())},
        "documents": n_docs,
        "training_documents": found["counts"].get(TRAINING, 0),
        "bins": {name: {"labels": b["labels"], "gold": b["gold"]} for name, b in found["bins"].items()},
        "stages": {name: _cost(cost) for name, cost in costs.items()},
        "documents_per_second": None if tag.resumed else round(n_docs / tag.wall_s, 2),
        "tag_cpu_ms_per_document": None if tag.resumed else round(1000 * tag.cpu_s / max(n_docs, 1), 3),
        "model_bytes": state_of(system.model)[1],
        "versions": dict(made.versions),
        "git": made.git,
        "hardware": dict(made.hardware),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _metrics(found: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Name to value and interval, percent; only value where there is no interval."""
    out: dict[str, list[float | None]] = {}
    for name, value in found["metrics"].items():
        if name.split("[")[0] in KEPT:
            bounds = found["intervals"].get(name, [])
            out[name] = [None if x is None else round(x, 3) for x in (value, *bounds)]
    return out


def _cost(cost: Cost) -> dict[str, Any]:
    """Its figures; None where a part of them was spent in an attempt that was cut off."""
    if cost.resumed:
        return {"cpu_s": None, "wall_s": None, "peak_kib": None, "resumed": True}
    wall, cpu = round(cost.wall_s, 2), round(cost.cpu_s, 2)
    return {"cpu_s": cpu, "wall_s": wall, "peak_kib": cost.peak_kib, "resumed": False}


def append(line: Mapping[str, Any], path: Path) -> None:
    """Add one line to a results file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    except OSError as error:
        raise ResourceError(f"{path}: {error.strerror}; the result line could not be added") from None


def own_system(task: Task, folder: Path, given: Sequence[str], command: str, top_k: int) -> System:
    """Xmc itself: ``xmc train`` or ``xmc index``, then ``xmc tag``; ``given``: all settings of the user.

    Raises: SettingError where training is asked for and there are no training documents.
    """
    if command == "train" and "train" not in task.layout.files:
        only = "bench.system=index works from the labels' names alone"
        raise SettingError(f"{task.layout.folder}: no training documents, which `xmc train` wants; {only}")
    settings = [a for a in given if not a.startswith(("bench.", *ONLY_EVAL))]
    model, predictions = folder / "model", folder / "predictions.jsonl"
    documents = [*task.layout.option("docs", "train"), *task.layout.filter_of("train")]
    build = xmc(command, *task.layout.labels, *documents, "-o", model, *settings)
    shared = [s for s in settings if s.split("=")[0] in ALSO_FOR_TAGGING]
    tag = xmc("tag", "--model", model, "--docs", task.gold, "-o", predictions, f"top_k={top_k}", *shared)
    stages = (Stage("build", build, model), Stage("tag", tag, predictions))
    return System(f"xmc {command}", given, stages, model, predictions, versions())
