"""An evaluation as one HTML page that needs nothing else: no script, no network, no font of its own.

Whatever comes from a file (labels, texts, ids, paths) is shown as text; a policy in the page itself forbids
scripts and requests, should anything slip through.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xmc.data.text import shorten
from xmc.evaluate.bins import MEANING, bin_of
from xmc.evaluate.comparison import Comparison
from xmc.evaluate.evaluation import PER_LABEL_K, Evaluation
from xmc.evaluate.plots import DASHES, Plot, Series, plots
from xmc.evaluate.style import STYLE
from xmc.evaluate.summary import (
    BY_BIN,
    DEFINITIONS,
    HEADLINE,
    NOTHING,
    Table,
    difference_cells,
    percent,
    printable,
    spoken,
    tables,
)
from xmc.evaluate.worst import DocumentView, document_views, most_missed, most_mistaken, worst_documents

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
N_DOCUMENTS, N_LABELS, N_FELL = 20, 20, 10
NAME_LENGTH, EXCERPT = 120, 300
# The markers of `plots` as paths.
MARKS = (
    "M12 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "M12 2h8v8h-8z",
    "M16 1l5 9h-10z",
    "M16 1l5 5l-5 5l-5-5z",
)
TILES = ("P@1", "P@5", "nDCG@5", "PSP@5", "R@10", "R@100", "micro_f1_best", "macro_f1@5")


@dataclass(frozen=True)
class Findings:
    """What a page shows: a run, the comparison with another one, and the beginnings of documents by row."""

    run: Evaluation
    comparison: Comparison | None = None
    excerpts: Mapping[int, str] = field(default_factory=dict)


def documents_shown(run: Evaluation, comparison: Comparison | None = None) -> list[int]:
    """Rows of the documents whose texts `page` shows."""
    fell = [] if comparison is None else comparison.fell(N_FELL)
    return [*worst_documents(run.matches, N_DOCUMENTS), *fell]


def page(f: Findings) -> str:
    """The whole page."""
    sections = [s for s in _sections(f) if s[2]]
    links = "".join(f'<a href="#{key}">{_html(title)}</a>' for key, title, _ in sections)
    body = [
        f'<section><h2 id="{key}">{_html(title)}</h2>\n{content}</section>'
        for key, title, content in sections
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>Evaluation</title><style>{STYLE}</style></head><body>"
    )
    top = f"<header><h1>Evaluation</h1>{_sources(f)}{_tiles(f.run)}<nav>{links}</nav></header>"
    return "\n".join([head, top, "<main>", *body, "</main></body></html>"]) + "\n"


def _sections(f: Findings) -> Iterator[tuple[str, str, str]]:
    """Key, title and content of each part; empty content is left out."""
    yield "compared", "Against the other run", _comparison(f)
    yield "bins", "By training frequency of the label", _bins(f.run)
    yield "plots", "Curves", _plots(f)
    yield "fell", "Documents that this run does worse than the other", _fell(f)
    yield "documents", "Worst documents", _documents(f)
    yield "labels", "Worst labels", _labels(f.run)
    yield "all", "All numbers", _everything(f)


def _html(text: str) -> str:
    return html.escape(printable(text))


def _sources(f: Findings) -> str:
    paths = dict(f.run.sources)
    if f.comparison is not None and "pred" in f.comparison.other.sources:
        paths["against"] = f.comparison.other.sources["pred"]
    rows = "".join(f"<dt>{name}</dt><dd>{_html(path)}</dd>" for name, path in paths.items())
    return f"<dl>{rows}</dl>" if rows else ""


def _tiles(e: Evaluation) -> str:
    shown = [n for n in TILES if n in e.metrics]
    tiles = [
        f"<li><span>{_html(spoken(n))}</span><strong>{percent(e.value(n))}</strong>"
        f'<span class="unit">{_range(e, n) or "%"}</span></li>'
        for n in shown
    ]
    n_docs = f"{e.matches.n_docs:,} documents, {len(e.matches.gold_docs):,} gold labels"
    sure = f"; below each value its {100 * e.settings.confidence:g} % interval" if e.intervals else ""
    return f'<p class="note">{n_docs}. Percentages{sure}.</p><ul class="tiles">{"".join(tiles)}</ul>'


def _range(e: Evaluation, name: str) -> str:
    if name not in e.intervals:
        return ""
    low, high = e.intervals[name].low, e.intervals[name].high
    return f"{100 * low:.1f}–{100 * high:.1f}"


def _bins(e: Evaluation) -> str:
    """Metrics down, bins across, so that it fits a phone."""
    if not e.bins:
        return ""
    names = [n for n in BY_BIN if n in e.metrics]
    head = ["", _small("all", f"{len(e.labels.gold):,} labels")]
    head += [_small(b, f"{n:,} labels") for b, (n, _) in e.bins.items()]
    gold = [f"{len(e.matches.gold_docs):,}", *(f"{n:,}" for _, n in e.bins.values())]
    rows = [["gold labels", *gold]]
    for n in names:
        cells = [_small(percent(e.value(m)), _range(e, m)) for m in (n, *(f"{n}[{b}]" for b in e.bins))]
        rows.append([_html(spoken(n)), *cells])
    meaning = "; ".join(f"{b}: {MEANING[b]}" for b in e.bins)
    note = f'<p class="note">{_html(meaning)}. The labels of a bin compete with all labels.</p>'
    return note + _table(head, rows)


def _small(text: str, below: str) -> str:
    """A cell of two lines."""
    return f"{_html(text)}<small>{_html(below)}</small>" if below else _html(text)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML; the first of a row says in words what the others are about."""
    top = f"<thead>{_row('th', head)}</thead>" if any(head) else ""
    body = "".join(_row("td", row) for row in rows)
    return f'<div class="scroll" tabindex="0"><table>{top}<tbody>{body}</tbody></table></div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _comparison(f: Findings) -> str:
    c = f.comparison
    if c is None:
        return ""
    s, names = f.run.settings, [n for n in HEADLINE if n in c.differences]
    names += [f"{n}[{b}]" for b in f.run.bins for n in ("nDCG@5", "R@100") if f"{n}[{b}]" in c.differences]
    rows = [_comparison_row(f.run, c, n) for n in names]
    better, same, worse = c.moved
    note = "This run minus the other one on the same documents, in percentage points"
    head = ["", "this", "difference"]
    if s.resamples:
        note += (
            f", with the {100 * s.confidence:g} % interval of {s.resamples:,} paired bootstrap samples. p is "
            "twice the share of samples that say the opposite; of twenty metrics that do not differ one is "
            "below 0.05 by chance"
        )
        head += [""]
    note += f". By nDCG@5 this run does {better:,} documents better, {same:,} alike and {worse:,} worse."
    table = _table(head, rows)
    return f'<p class="note">{note}</p>{table}'


def _comparison_row(e: Evaluation, c: Comparison, name: str) -> list[str]:
    value, *tested = (cell.replace("-", "−") for cell in difference_cells(e, c, name))
    cells = [_html(spoken(name)), _small(percent(e.value(name)), f"other {percent(c.other.value(name))}")]
    if not tested:
        return [*cells, value]
    low, high, p, said = tested
    kind = {"better": "good", "worse": "bad"}.get(said, "unit")
    sure = f'<span class="{kind}">{said}</span><small>p {p.replace("<=", "≤")}</small>'
    return [*cells, _small(value, f"{low} to {high}"), sure]


def _fell(f: Findings) -> str:
    c = f.comparison
    rows = [] if c is None else c.fell(N_FELL)
    if c is None or not rows:
        return ""
    views = document_views(f.run.matches, rows)
    before = {v.row: v.quality for v in document_views(c.other.matches, rows)}
    cards = "".join(_card(f, v, before[v.row]) for v in views)
    return f'<p class="note">The largest loss of nDCG@5 first.</p><div class="cards">{cards}</div>'


def _plots(f: Findings) -> str:
    runs = [f.run] if f.comparison is None else [f.run, f.comparison.other]
    return f'<div class="plots">{"".join(_figure(p) for p in plots(runs))}</div>'


def _figure(p: Plot) -> str:
    legend = "".join(f"<li>{_swatch(s, p)}{_html(s.name)}</li>" for s in p.series)
    return (
        f'<figure><h3>{_html(p.title)}</h3>{p.svg}<ul class="legend">{legend}</ul>'
        f"<figcaption>{_html(p.caption)}</figcaption></figure>"
    )


def _swatch(s: Series, p: Plot) -> str:
    """A piece of the line, with its marker."""
    colour = f"var(--s{s.colour})"
    dash = f' stroke-dasharray="{DASHES[s.dashed]}"' if s.dashed else ""
    line = f'<path d="M0 6H32" fill="none" stroke="{colour}" stroke-width="2.5"{dash}/>'
    marker = f'<path d="{MARKS[s.colour]}" fill="{colour}"/>' if p.markers else ""
    return f'<svg viewBox="0 0 32 12" aria-hidden="true">{line}{marker}</svg>'


def _documents(f: Findings) -> str:
    views = document_views(f.run.matches, worst_documents(f.run.matches, N_DOCUMENTS))
    if not views:
        return ""
    note = (
        "The lowest nDCG@5; among equal ones those whose first suggestion has the highest score. Gold "
        "labels can be incomplete: what counts as a mistake here may be one of theirs."
    )
    cards = "".join(_card(f, v) for v in views)
    return f'<p class="note">{note}</p><div class="cards">{cards}</div>'


def _card(f: Findings, v: DocumentView, before: float | None = None) -> str:
    doc_id = str(v.row + 1) if f.run.doc_ids is None else f.run.doc_ids[v.row]
    was = "" if before is None else f", was {percent(before)}"
    gold = "".join(_line(f.run, row, _place(rank), rank in range(5)) for row, rank in v.gold)
    found = "".join(_line(f.run, row, f"{score:.3g}", right) for row, score, right in v.suggested)
    text = f.excerpts.get(v.row, "")
    return (
        f"<article><h3><bdi>{_html(shorten(doc_id, NAME_LENGTH))}</bdi>"
        f"<span>nDCG@5 {percent(v.quality)}{was}</span></h3>"
        + (f'<p dir="auto">{_html(text)}</p>' if text else "")
        + f"<h4>gold labels, and their place</h4><ul>{gold}</ul>"
        + (f"<h4>suggestions, and their score</h4><ol>{found}</ol>" if found else "<h4>no suggestion</h4>")
        + "</article>"
    )


def _line(e: Evaluation, row: int, figure: str, right: bool) -> str:
    mark = '<span class="good">✓</span>' if right else '<span class="bad">✗</span>'
    return f'<li>{mark}<bdi>{_name(e, row)}</bdi><span class="unit">{figure}</span></li>'


def _place(rank: int) -> str:
    return "not suggested" if rank < 0 else f"{rank + 1}."


def _name(e: Evaluation, row: int) -> str:
    """The label's text, or its id where it has none."""
    if e.names is None:
        return str(row)
    return _html(shorten(e.names.texts[row] or e.names.ids[row], NAME_LENGTH))


def _labels(e: Evaluation) -> str:
    within = f"among the first {PER_LABEL_K}"
    missed = _label_table(e, ("missed", "gold", "suggested"), most_missed(e, N_LABELS))
    wrong = _label_table(e, ("wrong", "suggested", "gold"), most_mistaken(e, N_LABELS))
    parts = [(f"Most often missed {within}", missed), (f"Most often wrong {within}", wrong)]
    return "".join(f"<h3>{title}</h3>{table}" for title, table in parts if table)


def _label_table(e: Evaluation, columns: Sequence[str], rows: Sequence[int]) -> str:
    trained = ["trained on"] if e.train_frequency is not None else []
    table = _table(["label", *trained, *columns], [_label_row(e, row, columns) for row in rows])
    return f'<div class="names">{table}</div>' if rows else ""


def _label_row(e: Evaluation, row: int, columns: Sequence[str]) -> list[str]:
    gold, suggested, right = (int(n[row]) for n in (e.labels.gold, e.labels.suggested, e.labels.hits))
    counts = {"gold": gold, "suggested": suggested, "missed": gold - right, "wrong": suggested - right}
    trained = []
    if e.train_frequency is not None:
        n = int(e.train_frequency[row])
        trained = [_small(f"{n:,}", bin_of(n))]
    label_id = e.names.ids[row] if e.names is not None and e.names.texts[row] else ""
    below = f"<small>{_html(shorten(label_id, 40))}</small>" if label_id else ""
    return [f"<bdi>{_name(e, row)}</bdi>{below}", *trained, *(f"{counts[name]:,}" for name in columns)]


def _everything(f: Findings) -> str:
    parts = [f'<p class="note">{_html(DEFINITIONS)}</p>']
    parts += [_details(t) for t in tables(f.run, everything=True)]
    if f.run.notes:
        notes = "".join(f"<li>{_html(note)}</li>" for note in f.run.notes)
        parts.append(f"<h3>What reading found</h3><ul>{notes}</ul>")
    return "".join(parts)


def _details(t: Table) -> str:
    rows = [[_html(c) or NOTHING for c in row] for row in t.rows]
    head = [_html(c) for c in t.head]
    return f"<details><summary>{_html(t.title)}</summary>{_table(head, rows)}</details>"
