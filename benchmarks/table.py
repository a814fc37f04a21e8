"""Write the tables of benchmarks/README.md anew from result lines: `python benchmarks/table.py [RESULTS]`.

RESULTS (default: benchmarks/results.jsonl) holds lines of `xmc bench` and `benchmarks/peers/run.py`; of equal
rows the last counts. What stands between the two markers is replaced.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
METRICS = ("P@1", "P@5", "nDCG@5", "PSP@5", "R@100", "R@50[zero]", "micro_f1_best")
HEADS = ("P@1", "P@5", "nDCG@5", "PSP@5", "R@100", "zero R@50", "best micro-F1")
JUDGED = {"nDCG@5": "nDCG@5", "PSP@5": "PSP@5", "R@50[zero]": "zero R@50"}
NOTHING = "–"
Line = dict[str, Any]


def main() -> None:
    """Read the lines and replace the tables."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results.jsonl"
    lines = latest([json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()])
    page = HERE / "README.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{tables(lines)}{END}{after}", encoding="utf-8")


def latest(lines: Sequence[Line]) -> list[Line]:
    """The last line of each data set, split and system with its settings, in the order of the first."""
    found: dict[tuple[str, ...], Line] = {}
    for line in lines:
        found[(*judged(line), line["system"], *line["settings"])] = line
    return list(found.values())


def judged(line: Line) -> tuple[str, str]:
    """The data set, as it was named, and the split."""
    return line["target"], line["split"]


def tables(lines: Sequence[Line]) -> str:
    """What is behind, then a table for each data set and split."""
    sets = sorted({judged(line) for line in lines})
    parts = [verdict(lines, sets)]
    for data, split in sets:
        rows = [line for line in lines if judged(line) == (data, split)]
        parts.append(table(data, split, sorted(rows, key=lambda line: -(value(line, "nDCG@5") or 0))))
    return "\n".join(parts)


def verdict(lines: Sequence[Line], sets: Sequence[tuple[str, str]]) -> str:
    """On which data sets a peer is above the best of our presets."""
    behind = []
    for at in sets:
        rows = [line for line in lines if judged(line) == at]
        for metric, name in JUDGED.items():
            ours = best([r for r in rows if is_ours(r)], metric)
            theirs = best([r for r in rows if not is_ours(r)], metric)
            if ours and theirs and value(theirs, metric) > value(ours, metric):
                here, there = value(ours, metric), value(theirs, metric)
                behind.append(
                    f"{at[0]} ({at[1]}) {name}: {there:.1f} {theirs['system']}, {here:.1f} {title(ours)}"
                )
    if not behind:
        measured = ", ".join(JUDGED.values())
        return f"The best of our presets is above every peer that ran, by {measured}; mind the intervals.\n"
    return "**A peer is above the best of our presets on:** " + "; ".join(behind) + ".\n"


def best(rows: Sequence[Line], metric: str) -> Line | None:
    """The row with the highest value; None without any."""
    having = [row for row in rows if value(row, metric) is not None]
    return max(having, key=lambda row: value(row, metric), default=None)


def value(line: Line, metric: str) -> float | None:
    """A metric in percent; None where it is not defined."""
    return line["metrics"].get(metric, [None])[0]


def is_ours(line: Line) -> bool:
    """Whether xmc made the row."""
    return line["system"].startswith("xmc ")


def title(line: Line) -> str:
    """A row's system, and of ours the settings."""
    settings = [s for s in line["settings"] if not s.startswith("bench.system=")] if is_ours(line) else []
    return " ".join([line["system"], *settings])


def table(data: str, split: str, rows: Sequence[Line]) -> str:
    """One data set: a row a system, best nDCG@5 first, each with the command that makes it again."""
    first = rows[0]
    bins = ", ".join(f"{b['labels']:,} {name}" for name, b in first["bins"].items())
    head = ["system", *HEADS, "build CPU s", "tag CPU ms a document", "peak MiB", "model MB", "made again by"]
    lines = [
        f"### {data}, {split}\n",
        f"{first['training_documents']:,} training documents, {first['documents']:,} judged. Labels by "
        f"training documents: {bins}. {first['hardware']['processor']}, {first['hardware']['cpus']} CPUs.\n",
        "| " + " | ".join(head) + " |",
        "|---|" + "---:|" * (len(head) - 2) + "---|",
        *(row(line) for line in rows),
    ]
    return "\n".join(lines) + "\n"


def row(line: Line) -> str:
    """The cells of one system; a cost that is not known whole, as of a stage that was cut off, is a dash."""
    build, tag = (line["stages"][name] for name in ("build", "tag"))
    peaks = [build["peak_kib"], tag["peak_kib"]]
    cells = [
        title(line),
        *(cell(line, metric) for metric in METRICS),
        amount(build["cpu_s"], 0),
        amount(line["tag_cpu_ms_per_document"], 1),
        amount(None if None in peaks else max(peaks) / 1024, 0),
        amount(line["model_bytes"] / 1e6, 1),
        f"`{command(line)}`",
    ]
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |"


def amount(value: float | None, digits: int) -> str:
    """A number with as many decimals; a dash for none."""
    return NOTHING if value is None else f"{value:,.{digits}f}"


def cell(line: Line, metric: str) -> str:
    """The value and half of its interval's width."""
    found = line["metrics"].get(metric)
    if not found or found[0] is None:
        return NOTHING
    return f"{found[0]:.1f}" + (f" ± {(found[2] - found[1]) / 2:.1f}" if len(found) == 3 else "")


def command(line: Line) -> str:
    """What makes the row again, with all settings that it was made with."""
    if is_ours(line):
        return shlex.join(["xmc", "bench", line["target"], "-o", "OUT", *line["settings"]])
    return shlex.join(["python", "benchmarks/peers/run.py", line["system"], line["target"], "-o", "OUT"])


if __name__ == "__main__":
    main()
