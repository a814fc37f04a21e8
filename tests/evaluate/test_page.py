"""The HTML report: what it shows, that nothing from a file acts in it, and how it looks in a real browser."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from browser import look, needs_browser

from xmc.evaluate.comparison import compared
from xmc.evaluate.evaluation import EvalSettings, LabelNames, evaluate
from xmc.evaluate.page import Findings, documents_shown, page
from xmc.evaluate.ranked import Ranked

SETTINGS = EvalSettings(ks=(1, 5, 10), resamples=50)
N_DOCS, N_LABELS = 120, 60
HOSTILE = (
    "<script>hostile = 1</script>",
    '"><img src=x onerror="hostile = 1">',
    "Donaudampfschifffahrtsgesellschaftskapitän" * 4,
    "قانون العمل",
    "a\u202eb\x1b[31m",
    "</style></svg><b>bold</b>",
)


def scores(seed):
    """A run whose scores are probabilities of a sort, better for labels with many documents."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.permutation(N_LABELS)[:20] for _ in range(N_DOCS)])
    values = np.sort(rng.random((N_DOCS, 20)), axis=1)[:, ::-1]
    return Ranked.build(np.arange(N_DOCS + 1) * 20, rows.ravel(), values.ravel())


def gold():
    rng = np.random.default_rng(0)
    return sp.csr_matrix(rng.random((N_DOCS, N_LABELS)) < np.linspace(0.3, 0.01, N_LABELS))


def run(seed=1):
    frequency = np.round(np.geomspace(900, 0.4, N_LABELS)).astype(int)
    e = evaluate(gold(), scores(seed), frequency, 2000, SETTINGS)
    texts = [HOSTILE[n % len(HOSTILE)] if n < 30 else f"label {n}" for n in range(N_LABELS)]
    names = LabelNames([f"L{n}" for n in range(N_LABELS)], texts)
    ids = [HOSTILE[n % len(HOSTILE)] + str(n) for n in range(N_DOCS)]
    sources = {"pred": "/runs/" + "long-name-" * 30 + ".jsonl", "gold": "<i>gold</i>.jsonl"}
    return replace(e, names=names, doc_ids=ids, sources=sources, notes=("1 document had <b>markup</b>",))


@pytest.fixture(scope="module")
def findings():
    this = run()
    comparison = compared(this, run(2))
    rows = documents_shown(this, comparison)
    return Findings(this, comparison, {row: HOSTILE[row % len(HOSTILE)] + " text" * 40 for row in rows})


@pytest.fixture(scope="module")
def whole(findings):
    return page(findings)


def test_every_part_is_there(whole):
    titles = re.findall(r"<h2[^>]*>(.*?)</h2>", whole)
    assert titles == [
        "Against the other run",
        "By training frequency of the label",
        "Curves",
        "Documents that this run does worse than the other",
        "Worst documents",
        "Worst labels",
        "All numbers",
    ]
    assert whole.count("<figure>") == 4
    assert whole.count("<article>") == 20 + 10


def test_without_training_documents_and_another_run_their_parts_are_left_out():
    e = evaluate(gold(), scores(1), settings=EvalSettings(ks=(1, 5), resamples=0))
    shown = page(Findings(e))
    assert "Against the other run" not in shown
    assert "By training frequency" not in shown
    assert "By frequency of the label" not in shown
    assert shown.count("<figure>") == 3


def test_a_run_without_anything():
    e = evaluate(sp.csr_matrix((2, 3)), Ranked.build([0, 0, 0], [], []), np.zeros(3, int), 0, SETTINGS)
    shown = page(Findings(e))
    assert "<figure>" not in shown
    assert "nan" not in shown


def test_what_comes_from_files_is_text(whole):
    assert "<script" not in whole
    assert "<img" not in whole
    assert "<b>bold" not in whole
    assert "<b>markup" not in whole
    assert "\u202e" not in whole
    assert "&lt;script&gt;" in whole


def test_the_page_names_nothing_to_fetch(whole):
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", whole)
    assert "url(" not in whole.replace("url(#", "")
    assert "@import" not in whole
    assert "default-src &#x27;none&#x27;" in whole or "default-src 'none'" in whole


def test_every_id_is_given_once_and_every_reference_leads_to_one(whole):
    ids = re.findall(r'\bid="([^"]+)"', whole)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', whole)) <= set(ids)


def test_the_same_run_gives_the_same_page(findings, whole):
    assert page(findings) == whole


def test_plots_take_their_colours_from_the_style_sheet(whole):
    drawings = re.findall(r"<figure>.*?</figure>", whole, re.DOTALL)
    for drawing in drawings:
        assert not re.search(r"#[0-9a-f]{6}\b", drawing)
        assert "var(--s0)" in drawing
        assert "var(--ink)" in drawing


@needs_browser
@pytest.mark.parametrize("width", [360, 1280])
def test_in_a_browser_it_fits_and_is_silent(whole, tmp_path, width):
    seen = look(tmp_path, whole, width)
    assert seen.width <= width
    assert seen.over == []
    assert seen.requests == []
    assert seen.console == []
    assert not seen.scripted
    assert "<script>hostile = 1</script>" in seen.text


@needs_browser
def test_the_browser_would_notice(tmp_path):
    bad = "<script>hostile = 1; console.error('x')</script><img src='http://example.invalid/x.png'>"
    seen = look(tmp_path, f"<!doctype html><body>{bad}<div style='width:500px'>wide</div>", 360)
    assert seen.width > 360
    assert seen.over == ["DIV."]
    assert seen.requests == ["http://example.invalid/x.png"]
    assert any("x" in line for line in seen.console)
    assert seen.scripted
