"""An Evaluation for people and for programs: text, Markdown, HTML, JSON and a CSV row a label."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xmc.errors import InputError, ResourceError
from xmc.evaluate.bins import MEANING, bin_of
from xmc.evaluate.evaluation import F1_KS, Evaluation
from xmc.evaluate.metrics import PROPENSITY, RANKING
from xmc.evaluate.reliability import N_BINS, RELIABILITY_K, Calibrated
from xmc.tag.lines import guarded

SCHEMA = 1
HEADLINE = (
    "P@1",
    "P@5",
    "nDCG@5",
    "PSP@1",
    "PSP@5",
    "R@10",
    "R@100",
    "miss_rate",
    "micro_f1_best",
    "macro_f1@5",
)
BY_BIN = ("P@5", "nDCG@5", "PSP@5", "R@5", "R@10", "R@50", "R@100", "miss_rate", "macro_f1@5")
NOTHING = "–"
DEFINITIONS = (
    "All metrics are percentages. P, nDCG, R and RP are means over documents with gold labels; a document "
    "without a prediction and an empty slot are misses. PSP and PSnDCG weigh hits by inverse propensity "
    "(Jain et al. 2016) and are relative to the best attainable. F1 counts pairs of document and label; "
    "macro F1 is the mean over labels that occur in gold. By label bin, gold labels are those of the bin and "
    "compete with all labels; F1 counts gold labels and suggestions of the bin. The best micro F1 is over "
    "all thresholds, chosen on these gold labels. The miss rate is the share of a document's gold labels "
    "that are not suggested, mean over documents with gold labels. The calibration error is the mean "
    f"distance of score and share right over {N_BINS} bins of equally many of the suggestions that are among "
    f"their document's best {RELIABILITY_K}; it is given where all scores lie between 0 and 1."
)
# What moves a terminal's cursor, ends a line or turns the direction of writing.
_MOVING = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069]")


@dataclass(frozen=True)
class Table:
    """A title, the column heads and rows of cells; the first column is text, the others are numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def percent(value: float) -> str:
    """A fraction as a percentage with two decimals."""
    return NOTHING if math.isnan(value) else f"{100 * value:.2f}"


def _cell(e: Evaluation, name: str) -> str:
    return percent(e.value(name)) if name in e.metrics else NOTHING


def _ranking_table(e: Evaluation, suffix: str = "", title: str = "by rank") -> Table:
    ks = sorted(set(e.settings.ks))
    names = [n for n in (*RANKING, *PROPENSITY) if f"{n}@{ks[0]}" in e.metrics]
    rows = [[n, *(_cell(e, f"{n}@{k}{suffix}") for k in ks)] for n in names]
    return Table(title, ["", *(f"@{k}" for k in ks)], rows)


def _f1_table(e: Evaluation, suffix: str = "", title: str = "F1") -> Table:
    at = f"_at_{e.settings.threshold:g}"
    best = e.thresholds.get(f"micro_f1_best{suffix}")
    chosen = "best" if best is None else f"best (score >= {best:.4g})"
    head = ["", *(f"@{k}" for k in F1_KS), f"score >= {e.settings.threshold:g}", chosen]
    columns = [*(f"@{k}" for k in F1_KS), at, "_best"]
    rows = [[f"{n} F1", *(_cell(e, f"{n}_f1{c}{suffix}") for c in columns)] for n in ("micro", "macro")]
    return Table(title, head, rows)


def _set_table(e: Evaluation) -> Table:
    size = NOTHING if math.isnan(e.set_size) else f"{e.set_size:.2f}"
    rows = [["miss rate", _cell(e, "miss_rate")], ["suggestions a document", size]]
    if e.calibration is not None:
        rows.append([f"calibration error of the best {RELIABILITY_K}", percent(e.calibration.error)])
    return Table("suggestions as sets and as probabilities", ["", ""], rows)


def _reliability_table(found: Calibrated) -> Table:
    rows = [[percent(p), percent(share), f"{int(n):,}"] for p, share, n in zip(*found.curve, strict=True)]
    title = f"reliability of the best {RELIABILITY_K} suggestions, by score"
    return Table(title, ["mean score", "right", "suggestions"], rows)


def _interval_table(e: Evaluation, names: Sequence[str]) -> Table:
    sure = f"{100 * e.settings.confidence:g} %"
    rows = [
        [n, _cell(e, n), percent(e.intervals[n].low), percent(e.intervals[n].high)]
        for n in names
        if n in e.intervals
    ]
    title = f"{sure} intervals, {e.settings.resamples} bootstrap samples of the documents"
    return Table(title, ["", "value", "from", "to"], rows)


def _bin_table(e: Evaluation) -> Table:
    names = [n for n in BY_BIN if n in e.metrics]
    rows = [
        [f"{b}: {MEANING[b]}", f"{n_labels:,}", f"{n_gold:,}", *(_cell(e, f"{n}[{b}]") for n in names)]
        for b, (n_labels, n_gold) in e.bins.items()
    ]
    return Table("by training frequency of the label", ["", "labels", "gold", *names], rows)


def tables(e: Evaluation, everything: bool = False) -> list[Table]:
    """What is shown; ``everything`` adds every metric of every bin, and all intervals."""
    out = [Table("counts", ["", ""], [[what, f"{n:,}"] for what, n in e.counts.items()])]
    out += [_ranking_table(e), _f1_table(e), _set_table(e)]
    if e.bins:
        out.append(_bin_table(e))
    if e.intervals:
        out.append(_interval_table(e, list(e.intervals) if everything else HEADLINE))
    if everything and e.calibration is not None:
        out.append(_reliability_table(e.calibration))
    for b in e.bins if everything else ():
        title = f"{b}: {MEANING[b]}"
        out += [_ranking_table(e, f"[{b}]", f"{title}, by rank"), _f1_table(e, f"[{b}]", f"{title}, F1")]
    return out


def text(e: Evaluation) -> str:
    """The report for a terminal."""
    blocks = ["\n".join(_aligned(table)) for table in tables(e)]
    if e.notes:
        blocks.append("\n".join(map(printable, e.notes)))
    return "\n\n".join(blocks) + "\n"


def _aligned(table: Table) -> list[str]:
    """A line for the title and each row, columns of equal width, numbers to the right."""
    cells = [row for row in (table.head, *table.rows) if any(row)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [f"{table.title}:"]
    for first, *numbers in cells:
        right = [number.rjust(width) for number, width in zip(numbers, widths[1:], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *right]))
    return lines


def printable(line: str) -> str:
    """The line with what would move a terminal's cursor or turn its direction written as an escape."""
    return _MOVING.sub(lambda m: m[0].encode("unicode_escape").decode(), line)


def markdown(e: Evaluation) -> str:
    """Every number as Markdown tables."""
    sources = [f"- {name}: {_md(path)}" for name, path in e.sources.items()]
    blocks = ["# Evaluation", "", *sources, "", DEFINITIONS]
    for table in tables(e, everything=True):
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


STYLE = (
    "body{font-family:sans-serif;max-width:70em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
    "th,td{padding:.2em .8em;border-bottom:1px solid #ccc;text-align:right}"
    "th:first-child,td:first-child{text-align:left}"
)


def page(e: Evaluation) -> str:
    """Every number as one HTML page without scripts."""
    parts = ["<!doctype html><html lang=en><meta charset=utf-8><title>Evaluation</title>"]
    parts += [f"<style>{STYLE}</style><h1>Evaluation</h1>"]
    parts += ["<ul>", *(f"<li>{name}: {_html(path)}" for name, path in e.sources.items()), "</ul>"]
    parts.append(f"<p>{_html(DEFINITIONS)}")
    for table in tables(e, everything=True):
        body = [_html_row("th", table.head), *(_html_row("td", row) for row in table.rows)]
        parts += [f"<h2>{_html(table.title)}</h2><table>", *body, "</table>"]
    parts += ["<ul>", *(f"<li>{_html(note)}" for note in e.notes), "</ul>"]
    return "\n".join(parts) + "\n"


def _html(cell: str) -> str:
    return html.escape(printable(cell))


def _html_row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_html(c)}</{tag}>" for c in cells) + "</tr>"


def record(e: Evaluation) -> dict[str, Any]:
    """Everything as one JSON object; metrics are percentages, null where they are not defined."""
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


FILES: dict[str, Callable[[Evaluation], str]] = {
    "report.json": lambda e: json.dumps(record(e), indent=1, ensure_ascii=False, allow_nan=False) + "\n",
    "report.md": markdown,
    "report.html": page,
    "labels.csv": label_csv,
}


def write(e: Evaluation, directory: str | Path) -> None:
    """Write ``report.json``, ``report.md``, ``report.html`` and ``labels.csv`` into ``directory``.

    Each file appears whole or not at all; earlier ones of these names are replaced.
    """
    folder = Path(directory)
    contents = {name: render(e).encode("utf-8", "backslashreplace") for name, render in FILES.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            _replace(folder / name, content)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: is a file; --report wants a directory, new or existing") from None
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
