import numpy as np
import pytest
from worked_case import GOLD, PRED, gold_matrix, ranked_of

from xmc.evaluate.evaluation import EvalSettings, evaluate
from xmc.evaluate.page import Findings
from xmc.evaluate.ranked import Matches
from xmc.evaluate.reliability import calibrated
from xmc.evaluate.report import record, text, write


def matches(gold, pred, n_labels=8):
    return Matches.build(gold_matrix(gold, n_labels), ranked_of(pred))


def test_the_error_is_the_distance_of_score_and_share_right():
    found = calibrated(matches([[0], [1]], [[(0, 0.75), (1, 0.25)], [(0, 0.75), (1, 0.25)]]))
    assert found.error == pytest.approx(0.25)
    assert found.curve.mean_probability.tolist() == [0.25, 0.75]
    assert found.curve.share_right.tolist() == [0.5, 0.5]
    assert found.curve.n_pairs.tolist() == [2, 2]


def test_only_the_best_five_of_a_document_count():
    pred = [(label, 0.9 - label / 10) for label in range(7)]
    assert calibrated(matches([[0]], [pred])).curve.n_pairs.sum() == 5


def test_a_document_without_gold_labels_counts_as_wrong():
    assert calibrated(matches([[]], [[(0, 0.6)]])).error == pytest.approx(0.6)


@pytest.mark.parametrize("pred", [[[]], [[(0, 1.5)]], [[(0, 0.5), (1, -0.1)]]])
def test_without_suggestions_or_probabilities_there_is_none(pred):
    assert calibrated(matches([[0]], pred)) is None


def test_scores_drawn_as_they_say_have_a_small_error():
    rng = np.random.default_rng(0)
    p = np.sort(rng.random((4000, 3)), axis=1)[:, ::-1]
    right = rng.random(p.shape) < p
    gold = [np.flatnonzero(each).tolist() for each in right]
    found = calibrated(matches(gold, [list(enumerate(each)) for each in p.tolist()]))
    assert found.error < 0.02
    assert len(found.curve.n_pairs) == 15


def test_miss_rate_and_set_size():
    e = evaluate(
        gold_matrix([[0, 1], [2], []], 4), ranked_of([[(0, 0.9), (3, 0.2)], [], [(1, 0.5)]]), settings=NONE
    )
    assert e.value("miss_rate") == pytest.approx(0.75)
    assert e.set_size == 1


NONE = EvalSettings(resamples=0)


def test_the_reports_show_it(tmp_path):
    e = evaluate(gold_matrix(GOLD, 6), ranked_of(PRED), settings=NONE)
    shown = text(e)
    for what in ("miss rate", "suggestions a document", "calibration error of the best 5"):
        assert what in shown
    write(Findings(e), tmp_path)
    assert "reliability of the best 5 suggestions" in (tmp_path / "report.html").read_text(encoding="utf-8")
    found = record(e)
    assert found["calibration"]["error"] == pytest.approx(100 * e.calibration.error)
    assert sum(n for *_, n in found["calibration"]["bins"]) == len(e.matches.docs)
    assert found["suggestions_per_document"] == e.set_size


def test_scores_that_are_no_probabilities_have_no_calibration():
    e = evaluate(gold_matrix([[0]], 4), ranked_of([[(0, 3.0)]]), settings=NONE)
    assert "calibration" not in text(e)
    assert record(e)["calibration"] is None
