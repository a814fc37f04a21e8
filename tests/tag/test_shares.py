from __future__ import annotations

import numpy as np
import pytest

from xmc.context import NAMES as CONTEXT
from xmc.fit import Weights
from xmc.mix import Mix
from xmc.prototypes import DEFAULT as PROTOTYPE
from xmc.shortlist import NAMES, SOURCES, Candidates
from xmc.tag.shares import Scored, shares
from xmc.tag.suggestions import PARTS

INDPTR = np.array([0, 7, 7, 8, 30])  # one document without candidates, one with a single one


def made(seed: int, scale: float = 1.0) -> tuple[Weights, Scored]:
    draw = np.random.default_rng(seed)
    n = int(INDPTR[-1])
    features = draw.normal(size=(n, len(SOURCES))).astype(np.float32)
    found = Candidates(INDPTR, np.arange(n), features, None)
    final = Mix(NAMES, draw.normal(size=len(NAMES)) * scale)
    weights = Weights(PROTOTYPE, final, (0.7, -2.0), Mix(CONTEXT, draw.normal(size=len(CONTEXT)) * 0.2))
    context = weights.context(found, draw.integers(0, 4, n))
    log_odds = weights.beside(context) + draw.normal(size=n).astype(np.float32)
    return weights, Scored(found, context, log_odds, draw.normal(size=n).astype(np.float32))


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_shares_add_up_to_the_log_odds(scale: float) -> None:
    for seed in range(5):
        weights, scored = made(seed, scale)
        for chosen in (np.arange(30), np.array([3, 7, 29])):
            found = shares(weights, scored, chosen)
            assert found.shape == (len(chosen), len(PARTS))
            assert found.sum(axis=1) == pytest.approx(scored.log_odds[chosen], rel=1e-5, abs=1e-4)


def test_the_reranker_gets_what_it_changed() -> None:
    weights, scored = made(0)
    changed = scored.log_odds - weights.beside(scored.context)
    found = shares(weights, scored, np.arange(30))
    assert found[:, PARTS.index("reranker")] == pytest.approx(changed, abs=1e-5)


def test_the_only_candidate_is_the_average_one() -> None:
    weights, scored = made(1)
    parts = dict(zip(PARTS, shares(weights, scored, np.array([7]))[0], strict=True))
    assert parts["average"] == pytest.approx(weights.beside(scored.context)[7], abs=1e-4)
    for name in ("prototype", "trained", "words", "neighbours", "frequency"):
        assert parts[name] == pytest.approx(0, abs=1e-6)


def test_the_trained_tower_is_taken_out_of_the_prototype() -> None:
    weights, scored = made(2)
    every = np.arange(30)
    whole = shares(weights, Scored(scored.found, scored.context, scored.log_odds, np.zeros(30)), every)
    half = Scored(scored.found, scored.context, scored.log_odds, scored.found.features[:, 0] / 2)
    split = shares(weights, half, every)
    prototype, trained = PARTS.index("prototype"), PARTS.index("trained")
    assert (whole[:, trained] == 0).all()
    assert split[:, trained] == pytest.approx(whole[:, prototype] / 2, abs=1e-4)
    assert split[:, prototype] == pytest.approx(whole[:, prototype] / 2, abs=1e-4)


def test_a_part_without_weight_has_no_share() -> None:
    weights, scored = made(3)
    final = Mix.of(NAMES, votes=2.0)
    weights = Weights(PROTOTYPE, final, (1.0, 0.0), Mix.of(CONTEXT, score=1.0))
    context = weights.context(scored.found, np.ones(30, np.int64))
    found = shares(
        weights, Scored(scored.found, context, weights.beside(context), scored.trained), np.arange(30)
    )
    parts = dict(zip(PARTS, found.T, strict=True))
    votes = scored.found.features[:7, SOURCES.index("votes")]
    assert parts["neighbours"][:7] == pytest.approx(2 * (votes - votes.mean()), abs=1e-5)
    for name in ("prototype", "trained", "words", "frequency", "reranker"):
        assert parts[name] == pytest.approx(0, abs=1e-6)
