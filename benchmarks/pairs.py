"""Tell by paired intervals where our best rows differ from the peers': `python benchmarks/pairs.py DATA OUT`.

OUT is the folder of a suite, with NAME/ROW.json (the line of a row) and NAME/ROW/predictions.jsonl; DATA that
of data sets. Writes OUT/pairs.jsonl: a line for each peer and each row of ours that is the best by a
metric which `benchmarks/table.py` judges, with the differences in percentage points and their intervals.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from table import JUDGED, Line, best, identity, is_ours, judged

from xmc.bench.run import evaluation
from xmc.bench.task import task_of
from xmc.cli import run_script
from xmc.errors import InputError


class Row(NamedTuple):
    """A row's line, and the suggestions that it was judged by."""

    line: Line
    predictions: Path


def main() -> None:
    """Compare what OUT holds and write the file anew."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    found = [json.dumps(pair, ensure_ascii=False) + "\n" for pair in pairs(rows_of(args.out), args.data)]
    (args.out / "pairs.jsonl").write_text("".join(found), encoding="utf-8")


def rows_of(out: Path) -> list[Row]:
    """The finished rows below ``out``."""
    found = []
    for path in sorted(out.glob("*/*.json")):
        text, predictions = path.read_text(encoding="utf-8"), path.with_suffix("") / "predictions.jsonl"
        if text.strip() and predictions.is_file():
            found.append(Row(json.loads(text), predictions))
    return found


def pairs(rows: Sequence[Row], data: Path) -> Iterator[dict[str, Any]]:
    """Each peer beside the best rows of ours on the same documents."""
    for at in sorted({judged(row.line) for row in rows}):
        here = [row for row in rows if judged(row.line) == at]
        lines = [row.line for row in here if is_ours(row.line)]
        chosen = [line for metric in JUDGED if (line := best(lines, metric)) is not None]
        for ours in (row for row in here if any(row.line is line for line in chosen)):
            for peer in (row for row in here if not is_ours(row.line)):
                print(f"{at[0]}: {ours.line['system']}, {peer.line['system']}", file=sys.stderr)
                yield paired(ours, peer, data)


def paired(ours: Row, peer: Row, data: Path) -> dict[str, Any]:
    """Ours minus the peer, by the settings of evaluation that ours was measured with."""
    line = ours.line
    task = task_of(line["target"], data, line["split"], line["settings"], line["seed"])
    command = [*evaluation(task, ours.predictions), "--against", str(peer.predictions)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"{peer.predictions}: {(done.stderr.splitlines() or ['no comparison'])[-1]}")
    found = json.loads(done.stdout)
    differences = found["against"]["differences"]
    return {
        "ours": identity(line),
        "peer": identity(peer.line),
        "differences": {name: rounded(differences[name]) for name in JUDGED if name in differences},
        "resamples": found["settings"]["resamples"],
        "confidence": found["settings"]["confidence"],
    }


def rounded(difference: dict[str, Any]) -> list[float | None]:
    """Value and interval, in percentage points."""
    bounds = (difference[key] for key in ("value", "low", "high"))
    return [None if x is None else round(x, 3) for x in bounds]


if __name__ == "__main__":
    run_script(main)
