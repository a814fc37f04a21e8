from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.rerank.made import N_OWN
from xmc.mix import ENOUGH
from xmc.rerank.fitting import Fitted, fit_reranker, scores
from xmc.rerank.head import RerankHead
from xmc.rerank.inputs import RerankInputs

N_DOCS, N_CANDIDATES, N_NEAR, N_WINDOWS, N_RIGHT = 400, 12, 6, 4, 2


@dataclass
class Problem:
    """Documents whose first ``N_RIGHT`` candidates are right, before they are shuffled; nothing tells them.

    The first stage gives all candidates the same log odds but for noise.
    """

    seed: int = 0
    n_docs: int = N_DOCS

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        n, c, k = self.n_docs, N_CANDIDATES, N_NEAR
        order = self.rng.random((n, c)).argsort(axis=1)
        self.right = order < N_RIGHT
        self.log_odds = self._noise(n, c, size=0.3) - 1.6  # N_RIGHT of N_CANDIDATES
        self.own = self._noise(n, c, N_OWN + 2)
        self.near = np.concatenate([self.rng.uniform(0.1, 0.9, (n, k, 1)), self._noise(n, k, 2)], axis=2)
        self.carried = np.zeros((n, c, k))
        self.pairs = self._noise(n, c, k, 3, size=0.2)
        self.windows = self._noise(n, c, N_WINDOWS, size=0.1)

    def _noise(self, *shape: int, size: float = 1.0) -> np.ndarray:
        return self.rng.normal(0, size, shape)

    def told_by_neighbours(self) -> Problem:
        """The three nearest carry the right candidates, the others as many that are wrong."""
        far = self.near[:, :, 0].argsort(axis=1).argsort(axis=1) < N_NEAR // 2
        is_lure = self.right[:, ::-1] & ~self.right
        self.carried += self.right[:, :, None] & ~far[:, None]
        self.carried += is_lure[:, :, None] & far[:, None]
        return self

    def told_by_windows(self) -> Problem:
        """One window is like a right candidate, while all are equally like a wrong one; the means agree."""
        one = np.arange(N_WINDOWS) == self.rng.integers(0, N_WINDOWS, (self.n_docs, N_CANDIDATES, 1))
        self.windows += np.where(self.right[:, :, None], np.where(one, 0.8, 0.0), 0.2)
        return self

    def told_by_first_stage(self, margin: float) -> Problem:
        """The first stage's log odds are as they should be, right ones ``margin`` above the others."""
        self.log_odds += np.where(self.right, margin, -margin) / 2
        return self

    def inputs(self) -> RerankInputs:
        place = torch.arange(self.right.size).reshape(self.right.shape)
        parts = self.own, self.log_odds, self.carried, self.pairs, self.near, self.windows
        floats = (torch.from_numpy(np.asarray(part, np.float32)) for part in parts)
        return RerankInputs(place, *floats, torch.ones(len(place), N_WINDOWS, dtype=torch.bool))

    def fit(self, seed: int = 0) -> Fitted | None:
        return fit_reranker(self.inputs(), torch.from_numpy(self.right), seed)


def precision(log_odds: Tensor, problem: Problem) -> float:
    """Share of right ones among the best ``N_RIGHT`` of each document."""
    best = log_odds.argsort(dim=1, descending=True)[:, :N_RIGHT]
    return float(torch.from_numpy(problem.right).gather(1, best).float().mean())


@pytest.fixture(scope="module")
def by_neighbours() -> Fitted | None:
    return Problem().told_by_neighbours().fit()


def test_what_only_neighbours_tell_is_learned_and_is_lost_without_retrieval(by_neighbours):
    new = Problem(seed=1).told_by_neighbours()
    inputs = new.inputs()
    with_them = precision(scores(by_neighbours.head, inputs), new)
    silent = inputs._replace(carried=torch.zeros_like(inputs.carried))
    without = precision(scores(by_neighbours.head, silent), new)
    first = precision(inputs.log_odds, new)
    assert first < 0.3
    assert with_them > 0.9
    assert without < 0.3


def test_whose_labels_are_whose_is_learned(by_neighbours):
    """As many neighbours carry right ones as wrong ones; how near they are tells which."""
    new = Problem(seed=1).told_by_neighbours()
    inputs = new.inputs()
    others = inputs._replace(carried=inputs.carried.flip(0))
    assert precision(scores(by_neighbours.head, others), new) < 0.4
    order = inputs.near[:, :, 0].argsort(dim=1)
    at = order[:, None, :].expand(-1, N_CANDIDATES, -1)
    by_rank = inputs.carried.gather(2, at)  # the flags of the nearest go to the farthest
    turned = torch.empty_like(by_rank).scatter_(2, at, by_rank.flip(2))
    assert precision(scores(by_neighbours.head, inputs._replace(carried=turned)), new) < 0.3


def test_what_only_windows_tell_is_learned_and_is_lost_without_them():
    fitted, new = Problem().told_by_windows().fit(), Problem(seed=1).told_by_windows()
    inputs = new.inputs()
    assert precision(inputs.log_odds, new) < 0.3
    assert precision(scores(fitted.head, inputs), new) > 0.9
    none = inputs._replace(is_window=torch.zeros_like(inputs.is_window))
    assert precision(scores(fitted.head, none), new) < 0.3


def test_unseen_scores_are_about_as_good_as_those_of_new_documents(by_neighbours):
    problem, new = Problem().told_by_neighbours(), Problem(seed=1).told_by_neighbours()
    on_new = precision(scores(by_neighbours.head, new.inputs()), new)
    assert precision(by_neighbours.unseen, problem) == pytest.approx(on_new, abs=0.1)


def loss(log_odds: Tensor, problem: Problem) -> float:
    right = torch.from_numpy(problem.right).float()
    return float(torch.nn.functional.binary_cross_entropy_with_logits(log_odds, right))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("margin", [0.0, 40.0])
def test_where_there_is_nothing_to_learn_it_is_not_kept_or_harms_nothing(margin, seed):
    """Pure noise, and a first stage that is perfect already."""
    fitted = Problem(seed, n_docs=200).told_by_first_stage(margin).fit()
    if fitted is None:
        return
    new = Problem(seed + 10).told_by_first_stage(margin)
    again = scores(fitted.head, new.inputs())
    assert loss(again, new) < loss(new.inputs().log_odds, new) + 0.02
    assert precision(again, new) > precision(new.inputs().log_odds, new) - 0.03


def test_too_few_right_candidates_or_documents_fit_nothing():
    problem = Problem().told_by_neighbours()
    inputs, right = problem.inputs(), torch.from_numpy(problem.right).clone()
    few = right & (right.flatten().cumsum(0).reshape(right.shape) < ENOUGH)
    assert int(few.sum()) == ENOUGH - 1
    assert fit_reranker(inputs, few, 0) is None
    rows = torch.arange(5)
    everything = torch.ones(5, N_CANDIDATES, dtype=torch.bool)
    assert fit_reranker(inputs.take(rows), everything, 0) is None
    nobody = torch.arange(0)
    assert fit_reranker(inputs.take(nobody), right[nobody], 0) is None


@pytest.fixture(scope="module")
def small() -> Problem:
    return Problem(n_docs=120).told_by_neighbours().told_by_windows().told_by_first_stage(1.0)


def test_the_same_again_is_the_same_to_the_bit_and_follows_from_the_seed(small):
    one = small.fit(seed=3)
    torch.manual_seed(17)  # the caller's state has no part in it
    same, other = small.fit(seed=3), small.fit(seed=4)
    for name, value in one.head.state_dict().items():
        assert torch.equal(value, same.head.state_dict()[name]), name
    assert torch.equal(one.unseen, same.unseen)
    assert not torch.equal(one.unseen, other.unseen)


def test_the_state_of_random_numbers_is_left_alone(small):
    torch.manual_seed(5)
    np.random.seed(5)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    assert small.fit() is not None
    assert torch.equal(torch.get_rng_state(), before)
    assert (np.random.get_state()[1] == numpy_before).all()


def test_inputs_and_right_ones_are_left_as_they_were(small):
    inputs, right = small.inputs(), torch.from_numpy(small.right.copy())
    before = RerankInputs(*(part.clone() for part in inputs))
    fit_reranker(inputs, right, 0)
    assert all(torch.equal(one, other) for one, other in zip(inputs, before, strict=True))
    assert (right.numpy() == small.right).all()


def test_what_is_right_for_a_document_has_no_part_in_its_unseen_scores(small):
    right = torch.from_numpy(small.right)
    before = fit_reranker(small.inputs(), right, 0).unseen
    for doc in (0, 57, 119):
        changed = right.clone()
        changed[doc] = ~changed[doc]
        after = fit_reranker(small.inputs(), changed, 0).unseen
        same = (after == before).all(dim=1)
        assert same[doc]
        assert 0.2 < same.float().mean() <= 0.5  # those of its own fold


def test_a_fitted_head_scores_without_chance(small):
    head = small.fit().head
    assert not head.training
    assert torch.equal(scores(head, small.inputs()), scores(head, small.inputs()))
    assert not scores(head, small.inputs()).requires_grad


def test_a_saved_head_scores_as_before(small, tmp_path):
    """An input that never varies, such as a constant, is among those that a fit meets."""
    inputs, right = small.inputs(), torch.from_numpy(small.right)
    inputs.own[..., 0] = 1
    head = fit_reranker(inputs, right, 0).head
    head.save(tmp_path / "head.safetensors")
    again = RerankHead.load(tmp_path / "head.safetensors", N_OWN + 2, 2)
    assert torch.equal(scores(again, inputs), scores(head, inputs))


def test_empty_places_have_no_part(small):
    inputs, right = small.inputs(), torch.from_numpy(small.right).clone()
    inputs.place[:, -3:] = -1
    right[:, -3:] = False
    one = fit_reranker(inputs, right, 0)
    for part in (inputs.own, inputs.log_odds, inputs.carried, inputs.pairs, inputs.windows):
        part[:, -3:] = 9
    other = fit_reranker(inputs, right, 0)
    for name, value in one.head.state_dict().items():
        assert torch.allclose(value, other.head.state_dict()[name], atol=1e-5), name


def test_documents_without_neighbours_or_windows(small):
    n, c = small.right.shape
    bare = small.inputs()._replace(
        carried=torch.zeros(n, c, 0),
        pairs=torch.zeros(n, c, 0, 3),
        near=torch.zeros(n, 0, 3),
        windows=torch.zeros(n, c, 0),
        is_window=torch.zeros(n, 0, dtype=torch.bool),
    )
    bare.own[..., 1] = torch.from_numpy(small.right) * 2.0 + 0.5 * bare.own[..., 1]
    fitted = fit_reranker(bare, torch.from_numpy(small.right), 0)
    assert fitted.unseen.isfinite().all()


def test_where_one_document_alone_has_candidates():
    """The folds without it see no candidate at all."""
    inputs = Problem(n_docs=6).told_by_neighbours().inputs()
    wide = RerankInputs(*(torch.cat([part] * 5, dim=1) if part.dim() > 2 else part for part in inputs))
    place = torch.full((6, 60), -1)
    place[2] = torch.arange(60)
    inputs = wide._replace(
        place=place, log_odds=torch.zeros(6, 60), near=inputs.near, is_window=inputs.is_window
    )
    fitted = fit_reranker(inputs, place >= 0, 0)
    assert fitted is None or torch.cat([*fitted.head.state_dict().values()]).isfinite().all()


def test_a_fit_that_ran_away_is_not_kept(small):
    inputs = small.inputs()
    inputs.carried[0] = float("nan")
    assert fit_reranker(inputs, torch.from_numpy(small.right), 0) is None
