from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from xmc.train import losses
from xmc.train.losses import (
    FLOOR,
    HARDEST,
    LOSSES,
    MARGIN,
    SCALE,
    adaptive_margin,
    binary_cross_entropy,
    decoupled_softmax,
    propensity_bce,
    soft_threshold,
    soft_top_k,
)

QUICK = settings(max_examples=40, deadline=None)
Case = tuple[Tensor, Tensor, Tensor]


def with_propensities(logits: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
    """Those that follow from the weights."""
    return propensity_bce(logits, gold, weight, 1 + weight.log())


def with_prototypes(logits: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
    """Those that follow from the weights."""
    return adaptive_margin(logits, gold, weight, torch.stack([weight.cos(), weight.sin()], dim=1))


def soft_top_1(logits: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
    return soft_top_k(logits, gold, weight, 1)


NAMED = {
    "bce": binary_cross_entropy,
    "propensity_bce": with_propensities,
    "decoupled_softmax": decoupled_softmax,
    "soft_top_1": soft_top_1,
    "soft_top_k": soft_top_k,
    "adaptive_margin": with_prototypes,
}
each_loss = pytest.mark.parametrize("loss", NAMED.values(), ids=NAMED)
each_smooth_loss = pytest.mark.parametrize("loss", list(NAMED.values())[:-1], ids=list(NAMED)[:-1])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Few documents and labels: any are gold, none and all of a document's among them."""
    shape = draw(st.integers(1, 5)), draw(st.integers(1, 6))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    logits = torch.randn(shape, generator=generator, dtype=torch.float64) * draw(
        st.sampled_from([0.1, 1.0, 10.0])
    )
    gold = torch.rand(shape, generator=generator) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    return logits, gold, 1 + 9 * torch.rand(shape[1], generator=generator, dtype=torch.float64)


def by_hand_bce(logits: Tensor, gold: Tensor, weight: Tensor) -> float:
    total = 0.0
    for doc, of_doc in enumerate(logits.tolist()):
        for label, logit in enumerate(of_doc):
            missed, wrong = math.log1p(math.exp(-logit)), math.log1p(math.exp(logit))
            total += missed if gold[doc, label] else float(weight[label]) * wrong
    return total / len(logits)


def by_hand_decoupled(logits: Tensor, gold: Tensor, weight: Tensor) -> float:
    total = 0.0
    for of_doc, is_gold in zip(logits.tolist(), gold.tolist(), strict=True):
        columns = range(len(of_doc))
        wrong = sum(float(weight[j]) * math.exp(of_doc[j]) for j in columns if not is_gold[j])
        mine = [math.exp(of_doc[i]) for i in columns if is_gold[i]]
        total -= sum(math.log(score / (score + wrong)) for score in mine)
    return total / len(logits)


def slopes(loss: Callable[..., Tensor], logits: Tensor, gold: Tensor, weight: Tensor) -> Tensor:
    leaf = logits.clone().requires_grad_()
    loss(leaf, gold, weight).backward()
    assert leaf.grad is not None
    return leaf.grad


@QUICK
@given(cases())
def test_binary_cross_entropy_by_hand(case):
    assert binary_cross_entropy(*case).item() == pytest.approx(by_hand_bce(*case))


@QUICK
@given(cases())
def test_decoupled_softmax_by_hand(case):
    assert decoupled_softmax(*case).item() == pytest.approx(by_hand_decoupled(*case))


def test_each_loss_is_tested():
    assert {name.replace("top_1", "top_k") for name in NAMED} == set(LOSSES)


@QUICK
@given(cases())
def test_propensities_by_hand(case):
    logits, gold, weight = case
    inverse = 1 + weight.log()
    total = 0.0
    for doc, of_doc in enumerate(logits.tolist()):
        for label, logit in enumerate(of_doc):
            missed, wrong = math.log1p(math.exp(-logit)), math.log1p(math.exp(logit))
            factor = 2 * float(inverse[label]) - 1
            total += factor * missed if gold[doc, label] else float(weight[label]) * wrong
    assert propensity_bce(logits, gold, weight, inverse).item() == pytest.approx(total / len(logits))


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("is_right", [True, False])
def test_the_factor_makes_up_for_right_labels_that_were_not_noted(p, is_right):
    """A right label is noted with probability p. Then counting 0 or 1 a wrong sign gives in expectation,
    up to what does not depend on the sign, as many as all right labels would.
    """
    noted = torch.tensor([[p if is_right else 0.0]], dtype=torch.float64)
    found = []
    for sign in (1.0, -1.0):
        logit, inverse, one = torch.full((1, 1), 1e3 * sign), torch.tensor([1 / p]), torch.ones(1)
        if_noted = propensity_bce(logit, torch.ones(1, 1, dtype=torch.bool), one, inverse) / 1e3
        if_not = propensity_bce(logit, torch.zeros(1, 1, dtype=torch.bool), one, inverse) / 1e3
        found.append(float(noted * if_noted + (1 - noted) * if_not))
    assert found[1] - found[0] == pytest.approx(1 if is_right else -1)


def by_hand_threshold(scores: list[float], weight: list[float], k: float) -> float:
    low, high = -1e3, 1e3
    for _ in range(200):
        middle = (low + high) / 2
        shares = sum(w / (1 + math.exp(min(700, middle - s))) for s, w in zip(scores, weight, strict=True))
        low, high = (middle, high) if shares > k else (low, middle)
    return low


@QUICK
@given(cases(), st.integers(1, 4))
def test_soft_top_k_by_hand(case, k):
    logits, gold, weight = case
    total = 0.0
    for of_doc, is_gold in zip(logits.tolist(), gold.tolist(), strict=True):
        wrong = [j for j in range(len(of_doc)) if not is_gold[j]]
        weights = [float(weight[j]) for j in wrong]
        if sum(weights) > k:
            threshold = by_hand_threshold([of_doc[j] for j in wrong], weights, k)
            total += sum(math.log1p(math.exp(threshold - s)) for s in itertools.compress(of_doc, is_gold))
    assert soft_top_k(logits, gold, weight, k).item() == pytest.approx(total / len(logits), abs=1e-9)


def test_the_threshold_of_equal_scores():
    """Ten labels share two places: each has a fifth, so the threshold lies log 4 above them."""
    found = soft_threshold(torch.full((1, 10), 3.0), torch.ones(10), 2)
    assert found.item() == pytest.approx(3 + math.log(4), rel=1e-5)


def test_the_threshold_lies_between_the_best_and_the_rest():
    scores = torch.tensor([[20.0, -10.0, 30.0, 10.0, -torch.inf]], dtype=torch.float64)
    assert soft_threshold(scores, torch.ones(5, dtype=torch.float64), 2).item() == pytest.approx(15, abs=1e-3)


def test_a_threshold_between_scores_far_apart_is_a_number_and_has_a_slope():
    scores = torch.tensor([[1e4, -1e4, 1e4, 3e3]], requires_grad=True)
    found = soft_threshold(scores, torch.ones(4), 2)
    assert 3e3 < found.item() < 1e4
    found.backward()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_sum_up_to_k(dtype):
    generator = torch.Generator().manual_seed(0)
    scores = 5 * torch.randn(20, 500, generator=generator, dtype=dtype)
    weight = 1 + 3 * torch.rand(500, generator=generator, dtype=dtype)
    shares = torch.sigmoid(scores - soft_threshold(scores, weight, 5)[:, None]) @ weight
    assert torch.allclose(shares, torch.full((20,), 5, dtype=dtype), rtol=1e-3)


def test_documents_with_no_more_wrong_labels_than_places_teach_nothing():
    logits = torch.randn(3, 6, requires_grad=True)
    gold = torch.zeros(3, 6, dtype=torch.bool)
    gold[:, 0] = True
    loss = soft_top_k(logits, gold, torch.ones(6), 5)
    loss.backward()
    assert loss.item() == 0
    assert not logits.grad.any()


def by_hand_margin(logits: Tensor, gold: Tensor, weight: Tensor, prototypes: Tensor) -> float:
    """Over all triplets, of which there are fewer than the hardest that count."""
    total = 0.0
    for scores, is_gold in zip(logits.tolist(), gold.tolist(), strict=True):
        for i, j in itertools.product(range(len(scores)), repeat=2):
            if is_gold[i] and not is_gold[j]:
                alike = float(torch.cosine_similarity(prototypes[i], prototypes[j], dim=0))
                margin = SCALE * max(FLOOR, min(MARGIN, MARGIN * (1 - alike)))
                total += float(weight[j]) * max(0.0, scores[j] - scores[i] + margin)
    return total / HARDEST / len(logits)


@QUICK
@given(cases())
def test_adaptive_margin_by_hand(case):
    prototypes = torch.randn(len(case[2]), 3, dtype=torch.float64)
    found = adaptive_margin(*case, prototypes).item()
    assert found == pytest.approx(by_hand_margin(*case, prototypes))


@pytest.mark.parametrize(("angle", "wanted"), [(0, FLOOR), (60, 0.15), (90, MARGIN), (180, MARGIN)])
def test_the_more_alike_two_labels_the_smaller_the_margin(angle, wanted):
    """A gold and a wrong label with the same score: what is missing is the whole margin."""
    turned = [math.cos(math.radians(angle)), math.sin(math.radians(angle))]
    prototypes = torch.tensor([[1.0, 0.0], turned]) * torch.tensor([[3.0], [0.5]])
    found = adaptive_margin(torch.zeros(1, 2), torch.tensor([[True, False]]), torch.ones(2), prototypes)
    assert found.item() * HARDEST / SCALE == pytest.approx(wanted, abs=1e-6)


def test_only_the_hardest_wrong_labels_count_for_the_margin(monkeypatch):
    monkeypatch.setattr(losses, "HARDEST", 2)
    logits = torch.tensor([[0.0, 9.0, 1.0, 8.0, 7.0]], requires_grad=True)
    gold = torch.tensor([[True, False, False, False, False]])
    adaptive_margin(logits, gold, torch.ones(5), torch.eye(5)).backward()
    assert logits.grad.tolist() == [[-1, 0.5, 0, 0.5, 0]]


@each_smooth_loss
@settings(max_examples=20, deadline=None)
@given(case=cases())
def test_gradients_agree_with_finite_differences(loss, case):
    logits, gold, weight = case
    assert torch.autograd.gradcheck(lambda x: loss(x, gold, weight), logits.requires_grad_())


@each_loss
@QUICK
@given(case=cases())
def test_gold_labels_are_pulled_up_and_wrong_ones_pushed_down(loss, case):
    found, gold = slopes(loss, *case), case[1]
    assert (found[gold] <= 0).all()
    assert (found[~gold] >= 0).all()


@each_loss
@QUICK
@given(case=cases())
def test_gold_labels_do_not_compete(loss, case):
    logits, gold, weight = case
    before = slopes(loss, *case)
    for doc, label in gold.nonzero().tolist():
        moved = logits.clone()
        moved[doc, label] += 3
        after = slopes(loss, moved, gold, weight)
        others = gold.clone()
        others[doc, label] = False
        assert torch.equal(after[others], before[others])


@each_loss
@QUICK
@given(case=cases())
def test_the_order_of_documents_and_labels_does_not_matter(loss, case):
    logits, gold, weight = case
    turned = loss(logits.flip(0, 1), gold.flip(0, 1), weight.flip(0))
    assert turned.item() == pytest.approx(loss(*case).item())


@each_smooth_loss
@QUICK
@given(case=cases())
def test_a_weight_stands_for_as_many_equal_columns(loss, case):
    logits, _, _ = case
    gold = torch.zeros_like(logits, dtype=torch.bool)
    gold[:, 0] = True
    counts = torch.arange(1, logits.shape[1] + 1)
    counts[0] = 1
    whole = (part.repeat_interleave(counts, dim=1) for part in (logits, gold))
    expected = loss(*whole, torch.ones(int(counts.sum()), dtype=torch.float64))
    assert loss(logits, gold, counts.double()).item() == pytest.approx(expected.item())


def samples(n_wrong: int, n_drawn: int) -> tuple[list[list[int]], Tensor]:
    """Each sample of columns that holds the gold first one, all equally likely, and its weights."""
    drawn = itertools.combinations(range(1, n_wrong + 1), n_drawn)
    weight = torch.full((n_drawn + 1,), n_wrong / n_drawn, dtype=torch.float64)
    weight[0] = 1
    return [[0, *columns] for columns in drawn], weight


@pytest.mark.parametrize("n_drawn", [1, 2, 5])
def test_samples_give_in_expectation_the_cross_entropy_of_all_labels(n_drawn):
    logits = torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gold = torch.zeros(3, 6, dtype=torch.bool)
    gold[:2, 0] = True
    chosen, weight = samples(5, n_drawn)
    losses = [binary_cross_entropy(logits[:, c], gold[:, c], weight).item() for c in chosen]
    whole = binary_cross_entropy(logits, gold, torch.ones(6, dtype=torch.float64))
    assert sum(losses) / len(losses) == pytest.approx(whole.item())


@pytest.mark.parametrize("n_drawn", [1, 2, 5])
def test_samples_give_in_expectation_the_softmax_s_sum_over_all_labels(n_drawn):
    """The sum within the logarithm is without bias; its logarithm then is never too high."""
    logits = torch.randn(1, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gold = torch.arange(6)[None] == 0
    chosen, weight = samples(5, n_drawn)
    losses = [decoupled_softmax(logits[:, c], gold[:, c], weight).item() for c in chosen]
    whole = decoupled_softmax(logits, gold, torch.ones(6, dtype=torch.float64)).item()
    assert sum(math.expm1(each) for each in losses) / len(losses) == pytest.approx(math.expm1(whole))
    assert sum(losses) / len(losses) <= whole + 1e-12


@pytest.mark.parametrize("loss", [binary_cross_entropy, decoupled_softmax])
def test_scores_far_apart_overflow_nothing(loss):
    logits, gold = torch.tensor([[1e4, -1e4, 0.0]]), torch.tensor([[False, True, False]])
    assert loss(logits, gold, torch.ones(3)).item() == pytest.approx(2e4, rel=1e-3)
    assert slopes(loss, logits, gold, torch.ones(3)).tolist()[0][:2] == pytest.approx([1, -1])


@each_loss
@pytest.mark.parametrize("far", [1e4, -1e4])
def test_scores_of_any_length_give_numbers(loss, far):
    logits = torch.tensor([[far, -far, 0.0, -torch.inf, 2 * far]])
    gold = torch.tensor([[False, True, False, False, False]])
    assert math.isfinite(loss(logits, gold, torch.full((5,), 4.0)).item())
    assert slopes(loss, logits, gold, torch.full((5,), 4.0)).isfinite().all()


@each_loss
def test_a_label_that_counts_as_nothing_is_no_negative(loss):
    """As those with the text of a gold label."""
    logits, gold, weight = torch.randn(3, 9), torch.rand(3, 9) < 0.2, torch.ones(9)
    unsure = ~gold & (torch.rand(3, 9) < 0.3)
    left = logits.masked_fill(unsure, -torch.inf)
    found = slopes(loss, left, gold, weight)
    assert found.isfinite().all()
    assert not found[unsure].any()
    one = slopes(loss, left[:1, ~unsure[0]], gold[:1, ~unsure[0]], weight[~unsure[0]])
    assert torch.allclose(found[:1, ~unsure[0]] * 3, one, atol=1e-5)


@pytest.mark.parametrize("is_gold", [True, False], ids=["all gold", "no gold label"])
@pytest.mark.parametrize("loss", [decoupled_softmax, soft_top_1, with_prototypes])
def test_a_document_without_pairs_to_compare_teaches_nothing(loss, is_gold):
    logits, gold = torch.randn(2, 3), torch.full((2, 3), is_gold)
    assert loss(logits, gold, torch.ones(3)).item() == 0
    assert slopes(loss, logits, gold, torch.ones(3)).eq(0).all()


@each_loss
def test_no_labels_are_no_loss(loss):
    assert loss(torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.bool), torch.ones(0)).item() == 0
