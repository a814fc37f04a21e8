"""Curves as inline SVG, whose colours are CSS variables: one drawing for light, dark and print.

matplotlib draws; text stays text, in the font of the page. Series are told apart by dash and marker too,
and named by a legend in HTML, which wraps where a drawing cannot.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xmc.calibrate import RELIABILITY_K
from xmc.errors import ResourceError
from xmc.evaluate.curves import by_frequency, precision_recall, recall_by_bin
from xmc.evaluate.evaluation import PER_LABEL_K, Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INCHES = (4.6, 3.3)
MARGINS = {"left": 0.145, "right": 0.985, "bottom": 0.16, "top": 0.97}  # of the drawing
# What matplotlib is given, and what the page's style sheet makes of it.
INK, GRID = "#000001", "#000002"
SERIES = tuple(f"#0000a{n}" for n in range(4))
VARIABLES = {INK: "var(--ink)", GRID: "var(--line)", **{c: f"var(--s{n})" for n, c in enumerate(SERIES)}}
MARKERS = ("o", "s", "^", "D")
WIDEST = 10  # groups whose numbers fit beside each other
DASHES = {False: "", True: "5 3"}
MISSING = "matplotlib is missing, which draws the plots of --report; `pip install matplotlib` installs it"
SETTINGS: dict[str, Any] = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color", "axes.edgecolor"), INK),
    **{"grid.color": GRID, "axes.grid": True, "axes.axisbelow": True, "font.size": 11},
    **{"axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none", "lines.linewidth": 1.8},
    **{"xtick.labelsize": 10, "ytick.labelsize": 10, "lines.markersize": 4},
}


@dataclass(frozen=True)
class Series:
    """One line: its name, its points (n,) each, its colour, and whether it is dashed (the other run's)."""

    name: str
    x: np.ndarray
    y: np.ndarray
    colour: int
    dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """A drawing: title, what it shows in a sentence, the lines, whether points are marked, and its SVG."""

    title: str
    caption: str
    series: Sequence[Series]
    markers: bool
    svg: str


def plots(runs: Sequence[Evaluation]) -> list[Plot]:
    """All that can be drawn of one run, or of a run and the one it is compared with."""
    made = [_precision_recall(runs), _reliability(runs), _shortlist(runs), _frequency(runs)]
    return [plot for plot in made if plot is not None]


def _names(runs: Sequence[Evaluation]) -> list[str]:
    return ["this run", "the other run"][: len(runs)]


def _precision_recall(runs: Sequence[Evaluation]) -> Plot | None:
    found = [precision_recall(e.matches) for e in runs]
    series = [
        Series(name, 100 * curve.recall, 100 * curve.precision, 0, n > 0)
        for n, (name, curve) in enumerate(zip(_names(runs), found, strict=True))
        if len(curve.recall)
    ]
    caption = (
        "Of all pairs of document and label that score a threshold or more: the share that is right, and "
        "the share of the gold labels that they hold, as the threshold falls."
    )
    return _plot("Precision and recall", caption, series, ("recall, %", "precision, %"))


def _reliability(runs: Sequence[Evaluation]) -> Plot | None:
    series = [
        Series(
            name, 100 * e.calibration.curve.mean_probability, 100 * e.calibration.curve.share_right, 0, n > 0
        )
        for n, (name, e) in enumerate(zip(_names(runs), runs, strict=True))
        if e.calibration is not None
    ]
    caption = (
        f"The best {RELIABILITY_K} suggestions of each document, in groups of equally many by score. On the "
        "diagonal a score is the probability that it looks like."
    )

    def diagonal(ax: Axes) -> None:
        ax.plot([0, 100], [0, 100], color=GRID, linewidth=1.5)

    return _plot(
        "Reliability of the scores", caption, series, ("score, %", "right, %"), diagonal, markers=True
    )


def _shortlist(runs: Sequence[Evaluation]) -> Plot | None:
    order = {"": 0, "frequent": 1, "few": 2, "zero": 3}
    series = [
        Series(
            (name or "all labels") + ", the other run" * (n > 0),
            curve.k,
            100 * curve.recall,
            order[name],
            n > 0,
        )
        for n, e in enumerate(runs)
        for name, curve in recall_by_bin(e).items()
        if len(curve.k)
    ]
    caption = (
        "The share of a document's gold labels among its first k suggestions, mean over documents; by bin, "
        "of the gold labels with many, few and no training documents."
    )

    def logarithmic(ax: Axes) -> None:
        from matplotlib.ticker import FuncFormatter

        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
        ax.margins(x=0.02)

    axes = ("k, suggestions of a document", "recall, %")
    return _plot("Recall of the shortlist", caption, series, axes, logarithmic, markers=True, wide=False)


def _frequency(runs: Sequence[Evaluation]) -> Plot | None:
    found = [by_frequency(e) for e in runs]
    if found[0] is None or not len(found[0].low):
        return None
    groups, place = found[0], np.arange(len(found[0].low))
    series = []
    for n, curve in enumerate(found):
        other = ", the other run" * (n > 0)
        if curve is not None:
            series.append(Series(f"recall@{PER_LABEL_K}{other}", place, 100 * curve.recall, 0, n > 0))
            series.append(Series(f"precision@{PER_LABEL_K}{other}", place, 100 * curve.precision, 1, n > 0))

    def bars(ax: Axes) -> None:
        ax.bar(place, 100 * groups.share, color=GRID, width=0.8)
        every = 1 if len(place) <= WIDEST else 2
        ax.set_xticks(place[::every], [_short(int(low)) for low in groups.low[::every]])

    caption = (
        f"Suggestions among a document's first {PER_LABEL_K} by how many training documents their label has; "
        "a group reaches up to the next number. Bars: the group's share of all gold labels."
    )
    axes = ("training documents of the label, from", "%")
    return _plot("By frequency of the label", caption, series, axes, bars, markers=True, wide=False)


def _short(n: int) -> str:
    return str(n) if n < 1000 else f"{n // 1000}k"


def _plot(
    title: str,
    caption: str,
    series: Sequence[Series],
    axes: tuple[str, str],
    under: Callable[[Axes], None] | None = None,
    markers: bool = False,
    wide: bool = True,
) -> Plot | None:
    """``series`` as percentages (``wide``: both axes) over what ``under`` draws; None without any."""
    if not series:
        return None

    def draw(ax: Axes) -> None:
        if under is not None:
            under(ax)
        for s in series:
            dash = (0, (5, 3)) if s.dashed else "-"
            marker = MARKERS[s.colour] if markers else None
            ax.plot(s.x, s.y, color=SERIES[s.colour], linestyle=dash, marker=marker)
        ax.set_xlabel(axes[0])
        ax.set_ylabel(axes[1])
        ax.set_ylim(0, 102)
        if wide:
            ax.set_xlim(0, 102)

    return Plot(title, caption, series, markers, _svg(title, draw))


def _svg(title: str, draw: Callable[[Axes], None]) -> str:
    """An ``<svg>`` element without size, ids of its own, scripts or references to anything outside."""
    try:
        import matplotlib
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise ResourceError(MISSING) from None
    out = io.StringIO()
    settings: Any = {**SETTINGS, "svg.hashsalt": title}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=INCHES)
        FigureCanvasSVG(figure)
        draw(figure.subplots(gridspec_kw=MARGINS))
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=nothing)
    return _inline(out.getvalue(), title)


def _inline(svg: str, title: str) -> str:
    body = svg[svg.index("<svg") :]
    box = re.search(r'viewBox="[^"]*"', body)
    inner = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", body[body.index(">") + 1 :], flags=re.DOTALL)
    prefix = re.sub(r"\W+", "-", title.lower())
    inner = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{prefix}-", inner)
    inner = inner.replace("xlink:href", "href")
    inner = re.sub("|".join(VARIABLES), lambda m: VARIABLES[m[0]], inner)
    inner = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", inner)
    return f'<svg {box[0] if box else ""} role="img" aria-label="{html.escape(title)}">{inner}'
