"""An Evaluation as tables of cells, whatever they are then written as."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from xmc.calibrate import EQUAL_BINS, RELIABILITY_K
from xmc.evaluate.bins import MEANING
from xmc.evaluate.comparison import Comparison, p_value, verdict
from xmc.evaluate.evaluation import F1_KS, Evaluation
from xmc.evaluate.metrics import PROPENSITY, RANKING
from xmc.evaluate.reliability import Calibrated

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
SPOKEN = {"micro_f1_best": "best micro F1", "miss_rate": "miss rate"}
DEFINITIONS = (
    "All metrics are percentages. P, nDCG, R and RP are means over documents with gold labels; a document "
    "without a prediction and an empty slot are misses. PSP and PSnDCG weigh hits by inverse propensity "
    "(Jain et al. 2016) and are relative to the best attainable. F1 counts pairs of document and label; "
    "macro F1 is the mean over labels that occur in gold. By label bin, gold labels are those of the bin and "
    "compete with all labels; F1 counts gold labels and suggestions of the bin. The best micro F1 is over "
    "all thresholds, chosen on these gold labels. The miss rate is the share of a document's gold labels "
    "that are not suggested, mean over documents with gold labels. The calibration error is the mean "
    f"distance of score and share right over {EQUAL_BINS} bins of equally many of the suggestions among "
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


def printable(line: str) -> str:
    """The line with what would move a terminal's cursor or turn its direction written as an escape."""
    return _MOVING.sub(lambda m: m[0].encode("unicode_escape").decode(), line)


def spoken(name: str) -> str:
    """A metric's name for people: ``micro_f1_best[few]`` is best micro F1, few."""
    base, _, label_bin = name.removesuffix("]").partition("[")
    base = SPOKEN.get(base, base.replace("_f1", " F1").replace("_at_", " from score ").replace("_", " "))
    return f"{base}, {label_bin}" if label_bin else base


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


def comparison_table(e: Evaluation, c: Comparison) -> Table:
    """This run beside the other, the headline metrics, in percentage points."""
    rows = [
        [spoken(n), percent(e.value(n)), percent(c.other.value(n)), *difference_cells(e, c, n)]
        for n in HEADLINE
        if n in c.differences
    ]
    head, title = ["", "this", "other", "difference"], "this run against the other"
    if e.settings.resamples:
        head += ["from", "to", "p", ""]
        title += f", {100 * e.settings.confidence:g} % intervals of {e.settings.resamples} paired samples"
    return Table(title, head, rows)


def difference_cells(e: Evaluation, c: Comparison, name: str) -> list[str]:
    """Difference, from, to, p and verdict of one metric; without resamples the difference alone."""
    d, n = c.differences[name], e.settings.resamples
    if not n:
        return [points(d.value)]
    p = p_value(d, n)
    floor = "<= " if p <= 1 / n else ""
    return [*map(points, (d.value, d.low, d.high)), f"{floor}{p:.3f}", verdict(name, d, e.settings)]


def points(value: float) -> str:
    """A difference of fractions in percentage points, with its sign and two decimals."""
    return f"{100 * value:+.2f}"
