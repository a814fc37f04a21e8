from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from xmc.train.batches import LabelSampler, batch_size, epoch_order

QUICK = settings(max_examples=100, deadline=None)
NO_HARD = np.zeros(0, np.int64)
Case = tuple[LabelSampler, sp.csr_matrix, np.ndarray]


def gold_of(labels: np.ndarray, n_labels: int) -> sp.csr_matrix:
    """Two documents with all of ``labels`` each."""
    indices = np.concatenate([labels, labels])
    indptr = np.array([0, len(labels), 2 * len(labels)])
    return sp.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), (2, n_labels))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Some of up to 60 labels to choose among, some of those gold, and some hard, a few twice."""
    n_labels = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    rows = np.flatnonzero(rng.random(n_labels) < draw(st.sampled_from([0.5, 1.0])))
    gold = rows[rng.random(len(rows)) < draw(st.sampled_from([0.0, 0.1, 1.0]))]
    hard = rng.choice(rows, 10) if len(rows) and draw(st.booleans()) else NO_HARD
    return LabelSampler(rows, n_labels, draw(st.integers(1, 70)), 7), gold_of(gold, n_labels), hard


@given(st.lists(st.integers(0, 1000), unique=True, max_size=50), st.integers(0, 99), st.integers(0, 99))
def test_an_epoch_takes_each_document_once_and_always_in_the_same_order(docs, seed, epoch):
    order = epoch_order(np.array(docs, np.int64), seed, epoch)
    assert sorted(order) == sorted(docs)
    assert (epoch_order(np.array(docs, np.int64), seed, epoch) == order).all()


def test_each_epoch_and_seed_has_its_own_order_and_leaves_the_documents_alone():
    docs = np.arange(100)
    orders = {tuple(epoch_order(docs, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9
    assert (docs == np.arange(100)).all()


@given(st.integers(0, 10**8), st.integers(0, 10**8))
def test_batches_are_bounded_and_grow_with_the_documents(a, b):
    few, many = batch_size(min(a, b)), batch_size(max(a, b))
    assert 128 <= few <= many <= 1024
    assert few.bit_count() == many.bit_count() == 1


@pytest.mark.parametrize(("n_docs", "wanted"), [(0, 128), (1, 128), (45_000, 256), (10**6, 1024)])
def test_batches_of_some_corpora(n_docs, wanted):
    assert batch_size(n_docs) == wanted


@QUICK
@given(cases())
def test_a_sample_holds_the_gold_and_the_hard_labels_and_none_twice(case):
    sampler, gold, hard = case
    found = sampler.sample(gold, hard, 3)
    assert (np.diff(found.rows) > 0).all()
    assert set(found.rows) <= set(sampler.rows)
    assert set(gold.indices) | set(hard) <= set(found.rows)


@QUICK
@given(cases())
def test_the_weights_make_up_for_the_labels_that_were_left_out(case):
    sampler, gold, hard = case
    found = sampler.sample(gold, hard, 3)
    sure = np.isin(found.rows, np.concatenate([gold.indices, hard]))
    assert found.weight.dtype == np.float32
    assert (found.weight[sure] == 1).all()
    assert (found.weight >= 1).all()
    assert len(np.unique(found.weight[~sure])) <= 1
    if sampler.takes_all or not sure.all():  # else nothing is there to stand for those left out
        assert found.weight.sum() == pytest.approx(len(sampler.rows), rel=1e-5)


@QUICK
@given(cases())
def test_a_sample_is_as_large_as_the_limit_allows(case):
    sampler, gold, hard = case
    found, sure = sampler.sample(gold, hard, 3), len(set(gold.indices) | set(hard))
    if not sampler.takes_all:
        assert sure <= len(found.rows) <= max(sampler.limit, sure + sampler.limit // 4)


@QUICK
@given(cases())
def test_the_same_step_has_the_same_sample_whatever_went_before(case):
    sampler, gold, hard = case
    fresh = LabelSampler(sampler.rows, gold.shape[1], sampler.limit, sampler.seed).sample(gold, hard, 3)
    sampler.sample(gold_of(sampler.rows[::2], gold.shape[1]), NO_HARD, 2)
    again = sampler.sample(gold, hard, 3)
    assert again.rows.tolist() == fresh.rows.tolist()
    assert again.weight.tolist() == fresh.weight.tolist()


def test_each_step_and_seed_has_its_own_sample():
    gold, rows = gold_of(np.array([2, 5]), 100), np.arange(100)
    found = {
        tuple(LabelSampler(rows, 100, 20, seed).sample(gold, NO_HARD, step).rows)
        for seed in range(3)
        for step in range(3)
    }
    assert len(found) == 9


def test_few_labels_are_all_taken():
    rows = np.array([1, 4, 8])
    sampler = LabelSampler(rows, 10, 3, 0)
    found = sampler.sample(gold_of(np.array([4]), 10), NO_HARD, 0)
    assert sampler.takes_all
    assert found.rows.tolist() == rows.tolist()
    assert found.weight.tolist() == [1, 1, 1]
    assert not LabelSampler(rows, 10, 2, 0).takes_all


def test_wrong_labels_are_still_drawn_where_gold_ones_fill_the_limit():
    found = LabelSampler(np.arange(100), 100, 20, 0).sample(gold_of(np.arange(30), 100), NO_HARD, 0)
    assert len(found.rows) > 30


def test_over_the_steps_each_label_counts_once():
    sampler, gold = LabelSampler(np.arange(40), 50, 12, 0), gold_of(np.array([3, 17]), 50)
    total = np.zeros(50)
    for step in range(3000):
        found = sampler.sample(gold, np.array([20]), step)
        total[found.rows] += found.weight
    assert total[[3, 17, 20]].tolist() == [3000] * 3
    assert total[:40] / 3000 == pytest.approx(np.ones(40), abs=0.15)
    assert not total[40:].any()
