import numpy as np
import pytest
from worked_case import FREQUENCY, GOLD, PRED, A, B, C, D, F, gold_matrix, ranked_of

from xmc.evaluate.evaluation import EvalSettings, evaluate
from xmc.evaluate.worst import document_views, most_missed, most_mistaken, quality, worst_documents


def test_the_worst_documents_come_first_and_those_without_gold_not_at_all(matches):
    assert worst_documents(matches, 10) == [3, 1, 0]
    assert worst_documents(matches, 1) == [3]
    assert np.isnan(quality(matches)[2])


def test_equally_bad_documents_come_by_how_sure_they_are():
    e = evaluate(gold_matrix([[0], [0], [0]], 2), ranked_of([[(1, 0.5)], [(1, 0.9)], [(0, 0.9)]]))
    assert worst_documents(e.matches, 5) == [1, 0]


def test_a_document_shows_where_its_gold_labels_stand(matches):
    first, last = document_views(matches, [0, 3])
    assert first.gold == [(C, 0), (A, 2), (B, -1)]
    assert [(label, right) for label, _, right in first.suggested] == [(C, True), (D, False), (A, True)]
    assert last.gold == [(D, -1), (F, -1)]
    assert last.suggested == []
    assert last.quality == 0


@pytest.fixture
def evaluation():
    return evaluate(gold_matrix(GOLD, 6), ranked_of(PRED), FREQUENCY, 1000, EvalSettings(resamples=0))


def test_labels_by_misses_and_by_mistakes(evaluation):
    assert most_missed(evaluation, 10) == [B, D, F]
    assert most_mistaken(evaluation, 2) == [A, D]
