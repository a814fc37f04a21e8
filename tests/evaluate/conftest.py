import pytest
from worked_case import GOLD, PRED, gold_matrix, ranked_of

from xmc.evaluate.ranked import Matches


@pytest.fixture
def gold():
    return gold_matrix(GOLD, 6)


@pytest.fixture
def ranked():
    return ranked_of(PRED)


@pytest.fixture
def matches(gold, ranked):
    return Matches.build(gold, ranked)
