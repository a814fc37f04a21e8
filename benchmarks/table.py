"""Write the tables of benchmarks/README.md anew from result lines: `python benchmarks/table.py [RESULTS]`.

RESULTS (default: benchmarks/results.jsonl) holds lines of `xmc bench` and `benchmarks/peers/run.py`; of equal
rows the last counts. pairs.jsonl beside it holds what `benchmarks/pairs.py` found; without it nothing is said
about which rows differ. What stands between the two markers is replaced.
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
NOTHING, CHANGED = "–", " ‡"
RANKS = (
    "Our best row of each table beside the peers, by paired {:g} % intervals over the judged documents "
    "([pairs.jsonl](pairs.jsonl)):"
)
UNCOMMITTED = (
    "\n‡ made with files that were not committed, so the commit in its line is not all of its code.\n"
)
Line = dict[str, Any]


def main() -> None:
    """Read the lines and replace the tables."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results.jsonl"
    page = HERE / "README.md"
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    shown = tables(latest(read(source)), read(source.with_name("pairs.jsonl")))
    page.write_text(f"{before}{BEGIN}\n{shown}{END}{after}", encoding="utf-8")


def read(path: Path) -> list[Line]:
    """The lines of a file of JSON lines; none where there is no such file."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def latest(lines: Sequence[Line]) -> list[Line]:
    """The last line of each data set, split and system with its settings, in the order of the first."""
    found: dict[tuple[str, ...], Line] = {}
    for line in lines:
        found[(*judged(line), line["system"], *line["settings"])] = line
    return list(found.values())


def judged(line: Line) -> tuple[str, str]:
    """The data set, as it was named, and the split."""
    return line["target"], line["split"]


def identity(line: Line) -> list[str]:
    """What tells a row from all others, also from one that was measured anew."""
    return [*judged(line), line["system"], *line["settings"], line["time"]]


def tables(lines: Sequence[Line], pairs: Sequence[Line]) -> str:
    """How our best rows stand to the peers', then a table for each data set and split."""
    sets = sorted({judged(line) for line in lines})
    said = verdict(lines, pairs, sets)
    parts = [said] if said else []
    for data, split in sets:
        rows = [line for line in lines if judged(line) == (data, split)]
        parts.append(table(data, split, sorted(rows, key=lambda line: -(value(line, "nDCG@5") or 0))))
    return "\n".join(parts)


def verdict(lines: Sequence[Line], pairs: Sequence[Line], sets: Sequence[tuple[str, str]]) -> str:
    """By data set and metric, which peers our best row is above, below or not told apart from.

    A peer is named only where both have a value and the two rows were compared by pairs.
    """
    found = {(*pair["ours"], *pair["peer"]): pair["differences"] for pair in pairs}
    said = []
    for at in sets:
        here = [line for line in lines if judged(line) == at]
        for metric, name in JUDGED.items():
            ours = best([row for row in here if is_ours(row)], metric)
            if ours is not None and (told := standing(ours, here, metric, found)):
                said.append(f"- {', '.join(at)}, {name}: {title(ours)} is {told}\n")
    return f"{RANKS.format(100 * pairs[0]['confidence'])}\n\n{''.join(said)}" if said else ""


def standing(ours: Line, rows: Sequence[Line], metric: str, found: dict[tuple[str, ...], Line]) -> str:
    """Above, below or beside which peers, best first; "" without one that it was compared with."""
    groups: dict[str, list[str]] = {"**below** ": [], "above ": [], "not told apart from ": []}
    for row in sorted((r for r in rows if not is_ours(r)), key=lambda r: -(value(r, metric) or 0)):
        pair = found.get((*identity(ours), *identity(row)), {}).get(metric)
        if pair is not None and pair[1] is not None:
            _, low, high = pair
            groups[list(groups)[0 if high < 0 else 1 if low > 0 else 2]].append(row["system"])
    return "; ".join(word + ", ".join(names) for word, names in groups.items() if names)


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
    note = UNCOMMITTED if any(map(is_changed, rows)) else ""
    return "\n".join(lines) + "\n" + note


def is_changed(line: Line) -> bool:
    """Whether the code that made the row was not all committed."""
    return "-dirty" in (line["git"] or "")


def row(line: Line) -> str:
    """The cells of one system; a cost that is not known whole, as of a stage that was cut off, is a dash."""
    build, tag = (line["stages"][name] for name in ("build", "tag"))
    peaks = [build["peak_kib"], tag["peak_kib"]]
    cells = [
        title(line) + (CHANGED if is_changed(line) else ""),
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
