from dataclasses import replace

import numpy as np
import pytest
from worked_case import GOLD, PRED, gold_matrix, ranked_of

from xmc.evaluate.comparison import compared, p_value, verdict
from xmc.evaluate.evaluation import EvalSettings, evaluate
from xmc.evaluate.intervals import Difference
from xmc.evaluate.page import Findings, page
from xmc.evaluate.report import record
from xmc.evaluate.summary import comparison_table

SETTINGS = EvalSettings(ks=(1, 3), resamples=200)


def run(pred, gold=GOLD, settings=SETTINGS):
    return evaluate(gold_matrix(gold, 6), ranked_of(pred), settings=settings)


def test_documents_that_changed():
    # Document 1: the right label is second (nDCG 0.63), then first; document 2 has no gold labels.
    better = [*PRED[:1], PRED[1][1:], *PRED[2:]]
    c = compared(run(PRED), run(better))
    assert c.fell(5) == [1]
    assert c.change[1] == pytest.approx(1 / np.log2(3) - 1)
    assert np.isnan(c.change[2])
    assert c.moved == (0, 2, 1)
    assert compared(run(better), run(PRED)).fell(5) == []
    assert c.differences["P@1"].value == pytest.approx(-1 / 3)


def test_a_run_against_itself_is_not_told_apart():
    c = compared(run(PRED), run(PRED))
    assert {verdict(name, d, SETTINGS) for name, d in c.differences.items()} == {"not told apart"}
    assert {p_value(d, 200) for d in c.differences.values()} == {1.0}


def test_many_documents_tell_a_difference():
    right, wrong = [[(0, 0.9)]] * 100, [[(0, 0.9)]] * 80 + [[(1, 0.9)]] * 20
    c = compared(run(right, [[0]] * 100), run(wrong, [[0]] * 100))
    assert verdict("P@1", c.differences["P@1"], SETTINGS) == "better"
    assert verdict("miss_rate", c.differences["miss_rate"], SETTINGS) == "better"  # lower is better
    assert p_value(c.differences["P@1"], 200) == 1 / 200


@pytest.mark.parametrize("n", [0, 1, 10])
def test_few_resamples_or_none_call_no_difference_real(n):
    right, wrong = [[(0, 0.9)]] * 100, [[(0, 0.9)]] * 80 + [[(1, 0.9)]] * 20
    this, other = (run(pred, [[0]] * 100, replace(SETTINGS, resamples=n)) for pred in (right, wrong))
    c = compared(this, other)
    assert c.differences["P@1"].value == pytest.approx(0.2)
    assert verdict("P@1", c.differences["P@1"], this.settings) == ("not told apart" if n else "")


def test_without_resamples_a_report_has_the_differences_alone():
    settings = replace(SETTINGS, resamples=0)
    this, other = run(PRED, settings=settings), run([*PRED[:1], PRED[1][1:], *PRED[2:]], settings=settings)
    c = compared(this, other)
    shown = comparison_table(this, c)
    assert (shown.title, shown.head) == ("this run against the other", ["", "this", "other", "difference"])
    assert shown.rows[0] == ["P@1", "33.33", "66.67", "-33.33"]
    held = record(this, c)["against"]["differences"]["P@1"]
    assert held == {"value": pytest.approx(-100 / 3), "low": None, "high": None, "p": None}
    drawn = page(Findings(this, c))
    assert "bootstrap" not in drawn.split("Against the other run")[-1].split("</section>")[0]
    assert "not told apart" not in drawn
    assert "nan" not in drawn


def test_p_is_two_sided_and_never_below_what_the_samples_can_tell():
    assert p_value(Difference(0.1, -0.1, 0.3, 0.9), 1000) == pytest.approx(0.2)
    assert p_value(Difference(0.1, 0.0, 0.3, 1.0), 1000) == 0.001
