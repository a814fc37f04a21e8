import numpy as np
import pytest
from worked_case import FREQUENCY, GOLD, PRED, gold_matrix, ranked_of

from xmc.evaluate.curves import by_frequency, precision_recall, recall_at, recall_by_bin
from xmc.evaluate.evaluation import EvalSettings, evaluate


@pytest.fixture
def evaluation():
    return evaluate(gold_matrix(GOLD, 6), ranked_of(PRED), FREQUENCY, 1000, EvalSettings(resamples=0))


def test_precision_and_recall_at_every_threshold(matches):
    # Scores .9 (hit), .8 .8 (a miss, a hit), .7 .7 (a miss, a hit), .6, .2: six gold labels. After the last
    # hit recall does not grow, and the first threshold that reaches it is shown.
    found = precision_recall(matches)
    assert found.recall == pytest.approx(np.array([1, 2, 3]) / 6)
    assert found.precision == pytest.approx([1, 2 / 3, 3 / 5])


def test_without_a_hit_there_is_no_curve():
    e = evaluate(gold_matrix([[0]], 2), ranked_of([[(1, 0.5)]]))
    assert not len(precision_recall(e.matches).recall)


def test_recall_grows_to_the_longest_list(evaluation, matches):
    found = recall_at(matches, 3)
    assert found.k.tolist() == [1, 2, 3]
    assert found.recall == pytest.approx([1 / 9, (1 / 3 + 1) / 3, (2 / 3 + 1) / 3])
    assert found.recall[-1] == pytest.approx(evaluation.value("R@3"))


def test_recall_by_bin_is_that_of_the_metrics(evaluation):
    found = recall_by_bin(evaluation)
    assert set(found) == {"", "frequent", "few", "zero"}
    for name, curve in found.items():
        suffix = f"[{name}]" if name else ""
        assert curve.recall[curve.k.tolist().index(3)] == pytest.approx(evaluation.value(f"R@3{suffix}"))


def test_labels_by_frequency(evaluation):
    found = by_frequency(evaluation)
    # Gold: c, d (no documents), b twice (10: from 8), a (60: from 32), f (50: from 32).
    assert found.low.tolist() == [0, 8, 32]
    assert found.share == pytest.approx([2 / 6, 2 / 6, 2 / 6])
    assert found.recall == pytest.approx([1 / 2, 1 / 2, 1 / 2])
    assert found.precision == pytest.approx([1 / 2, 1, 1 / 3])


def test_without_training_documents_there_are_no_groups(gold, ranked):
    assert by_frequency(evaluate(gold, ranked)) is None
