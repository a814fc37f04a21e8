"""An Evaluation for people and for programs: text, Markdown, JSON, a CSV row a label, and the HTML page."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from xmc.calibrate import RELIABILITY_K
from xmc.errors import InputError, ResourceError
from xmc.evaluate.bins import MEANING, bin_of
from xmc.evaluate.comparison import Comparison, p_value
from xmc.evaluate.evaluation import Evaluation
from xmc.evaluate.page import Findings, page
from xmc.evaluate.reliability import Calibrated
from xmc.evaluate.summary import DEFINITIONS, Table, comparison_table, printable, tables
from xmc.tag.lines import guarded

SCHEMA = 1


def text(e: Evaluation, comparison: Comparison | None = None) -> str:
    """The report for a terminal."""
    blocks = ["\n".join(_aligned(table)) for table in _tables(e, comparison)]
    if e.notes:
        blocks.append("\n".join(map(printable, e.notes)))
    return "\n\n".join(blocks) + "\n"


def _tables(e: Evaluation, comparison: Comparison | None, everything: bool = False) -> list[Table]:
    return [*tables(e, everything), *([] if comparison is None else [comparison_table(e, comparison)])]


def _aligned(table: Table) -> list[str]:
    """A line for the title and each row, columns of equal width, numbers to the right."""
    cells = [row for row in (table.head, *table.rows) if any(row)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [f"{table.title}:"]
    for first, *numbers in cells:
        right = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *right]))
    return lines


def markdown(f: Findings) -> str:
    """Every number as Markdown tables."""
    e = f.run
    sources = [f"- {name}: {_md(path)}" for name, path in e.sources.items()]
    blocks = ["# Evaluation", "", *sources, "", DEFINITIONS]
    for table in _tables(e, f.comparison, everything=True):
        rule = "|---|" + "---:|" * (len(table.head) - 1)
        blocks += ["", f"## {table.title}", "", _md_row(table.head), rule, *map(_md_row, table.rows)]
    if e.notes:
        blocks += ["", "## what reading found", "", *(f"- {_md(note)}" for note in e.notes)]
    return "\n".join(blocks) + "\n"


def _md_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_md, cells)) + " |"


def _md(cell: str) -> str:
    """Text that Markdown shows as it is: no table column, tag, link or line of its own."""
    return re.sub(r"([\\`*_\[\]|])", r"\\\1", html.escape(printable(cell), quote=False))


def record(e: Evaluation, comparison: Comparison | None = None) -> dict[str, Any]:
    """Everything as one JSON object; metrics are percentages, null where they are not defined."""
    against = {} if comparison is None else {"against": _comparison_record(e, comparison)}
    return {
        "schema": SCHEMA,
        "unit": "percent",
        "sources": dict(e.sources),
        "settings": asdict(e.settings),
        "counts": dict(e.counts),
        "notes": list(e.notes),
        "bins": {b: {"meaning": MEANING[b], "labels": n, "gold": g} for b, (n, g) in e.bins.items()},
        "metrics": {name: _number(value) for name, value in e.values.items()},
        "thresholds": dict(e.thresholds),
        "suggestions_per_document": None if math.isnan(e.set_size) else e.set_size,
        "calibration": None if e.calibration is None else _calibration_record(e.calibration),
        "intervals": {name: [_number(i.low), _number(i.high)] for name, i in e.intervals.items()},
        **against,
    }


def _comparison_record(e: Evaluation, c: Comparison) -> dict[str, Any]:
    """The other run's metrics, and the differences in percentage points."""
    return {
        "sources": dict(c.other.sources),
        "metrics": {name: _number(value) for name, value in c.other.values.items()},
        "documents": dict(zip(("better", "alike", "worse"), c.moved, strict=True)),
        "differences": {
            name: {
                **{
                    key: _number(value)
                    for key, value in (("value", d.value), ("low", d.low), ("high", d.high))
                },
                "p": None if math.isnan(p := p_value(d, e.settings.resamples)) else p,
            }
            for name, d in c.differences.items()
        },
    }


def _calibration_record(found: Calibrated) -> dict[str, Any]:
    bins = [[_number(p), _number(share), int(n)] for p, share, n in zip(*found.curve, strict=True)]
    return {"k": RELIABILITY_K, "error": _number(found.error), "bins": bins}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else 100 * value


def label_csv(e: Evaluation) -> str:
    """A row for each label that is gold or suggested in the first k; most frequent in gold first.

    Text cells are written as in suggestion files: one that a spreadsheet would take for a formula, or
    that begins with an apostrophe, has an apostrophe in front.
    """
    counts, k = e.labels, e.labels.k
    shown = np.flatnonzero((counts.gold > 0) | (counts.suggested > 0))
    shown = shown[np.argsort(-counts.gold[shown], kind="stable")]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\r\n")
    table.writerow(
        ["id", "text", "bin", "train_documents", "gold", f"suggested@{k}", f"hits@{k}"]
        + [f"{name}@{k}" for name in ("precision", "recall", "f1")]
    )
    for row in shown.tolist():
        table.writerow(_label_row(e, row))
    return out.getvalue()


def _label_row(e: Evaluation, row: int) -> list[object]:
    gold, suggested, found = (int(n[row]) for n in (e.labels.gold, e.labels.suggested, e.labels.hits))
    label_id, name = (e.names.ids[row], e.names.texts[row]) if e.names else (str(row), "")
    trained: list[object] = ["", ""]
    if e.train_frequency is not None:
        frequency = int(e.train_frequency[row])
        trained = [bin_of(frequency), frequency]
    rates = (_rate(found, suggested), _rate(found, gold), _rate(2 * found, gold + suggested))
    return [guarded(label_id), guarded(name), *trained, gold, suggested, found, *rates]


def _rate(part: int, whole: int) -> str:
    return f"{part / whole:.4f}" if whole else ""


FILES: dict[str, Callable[[Findings], str]] = {
    "report.json": lambda f: (
        json.dumps(record(f.run, f.comparison), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    ),
    "report.md": markdown,
    "report.html": page,
    "labels.csv": lambda f: label_csv(f.run),
}


def write(f: Findings, directory: str | Path) -> None:
    """Write ``report.json``, ``report.md``, ``report.html`` and ``labels.csv`` into ``directory``.

    Each file appears whole or not at all; earlier ones of these names are replaced.
    """
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: is a file; --report wants a directory, new or existing") from None
    except OSError as error:
        raise ResourceError(f"{folder}: {error.strerror}; the report needs a directory there") from None
    contents = {name: render(f).encode("utf-8", "backslashreplace") for name, render in FILES.items()}
    try:
        for name, content in contents.items():
            _replace(folder / name, content)
    except OSError as error:
        size = sum(map(len, contents.values()))
        raise ResourceError(f"{folder}: {error.strerror}; the report needs {size:,} bytes") from None


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
