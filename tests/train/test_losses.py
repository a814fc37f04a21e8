from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from xmc.train.losses import LOSSES, binary_cross_entropy, decoupled_softmax

QUICK = settings(max_examples=40, deadline=None)
Case = tuple[Tensor, Tensor, Tensor]
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


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


@each_loss
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


@each_loss
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


@each_loss
def test_scores_far_apart_overflow_nothing(loss):
    logits, gold = torch.tensor([[1e4, -1e4, 0.0]]), torch.tensor([[False, True, False]])
    assert loss(logits, gold, torch.ones(3)).item() == pytest.approx(2e4, rel=1e-3)
    assert slopes(loss, logits, gold, torch.ones(3)).tolist()[0][:2] == pytest.approx([1, -1])


@pytest.mark.parametrize("is_gold", [True, False], ids=["all gold", "no gold label"])
def test_a_document_without_pairs_to_compare_teaches_the_softmax_nothing(is_gold):
    logits, gold = torch.randn(2, 3), torch.full((2, 3), is_gold)
    assert decoupled_softmax(logits, gold, torch.ones(3)).item() == 0
    assert slopes(decoupled_softmax, logits, gold, torch.ones(3)).eq(0).all()


@each_loss
def test_no_labels_are_no_loss(loss):
    assert loss(torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.bool), torch.ones(0)).item() == 0
