from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xmc.calibrate import N_BINS, frequency_bin
from xmc.errors import SettingError
from xmc.thresholds import (
    best_threshold_f1_at_k,
    best_threshold_micro_f1,
    conformal_threshold,
    lowest_rate,
    threshold_for_precision,
    thresholds_macro_f1,
)

N_LABELS = 8
FREQUENCY = np.array([0, 0, 3, 3, 20, 20, 60, 60])


@dataclass
class Case:
    """Pairs of documents and labels, and how many gold labels are no pairs."""

    probabilities: np.ndarray
    right: np.ndarray
    of_doc: np.ndarray
    rows: np.ndarray
    n_gold: np.ndarray
    n_gold_of_label: np.ndarray


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 100_000)))
    n_docs, levels = draw(st.integers(1, 6)), draw(st.sampled_from([3, 8, 1000]))
    is_pair, is_gold = rng.random((2, n_docs, N_LABELS)) < np.array([0.6, 0.4])[:, None, None]
    of_doc, rows = np.nonzero(is_pair)
    shuffled = rng.permutation(len(rows))
    of_doc, rows = of_doc[shuffled], rows[shuffled]
    probabilities = (rng.integers(1, levels, len(rows)) / levels).astype(np.float32)
    right = is_gold[of_doc, rows]
    return Case(probabilities, right, of_doc, rows, is_gold.sum(axis=1), is_gold.sum(axis=0))


def micro_f1(case: Case, threshold: float) -> float:
    passing = case.probabilities >= threshold
    return 2 * (case.right & passing).sum() / max(passing.sum() + case.n_gold.sum(), 1)


def f1_at_k(case: Case, threshold: float, k: int) -> float:
    values = []
    for doc in np.flatnonzero(case.n_gold):
        pairs = np.flatnonzero(case.of_doc == doc)
        first = pairs[np.argsort(-case.probabilities[pairs], kind="stable")][:k]
        kept = first[case.probabilities[first] >= threshold]
        values.append(2 * case.right[kept].sum() / (len(kept) + case.n_gold[doc]))
    return float(np.mean(values)) if values else 0.0


def macro_f1(case: Case, thresholds: np.ndarray) -> float:
    passing = case.probabilities >= thresholds[frequency_bin(FREQUENCY)][case.rows]
    values = []
    for label in np.flatnonzero(case.n_gold_of_label):
        of_label = passing & (case.rows == label)
        values.append(2 * case.right[of_label].sum() / (of_label.sum() + case.n_gold_of_label[label]))
    return float(np.mean(values)) if values else 0.0


def every_threshold(case: Case) -> np.ndarray:
    return np.append(np.unique(case.probabilities), 1.0)


def is_best(quality: Callable[[float], float], found: float, case: Case) -> bool:
    """The best value, and no higher threshold with another set of pairs has it too."""
    values = {float(t): quality(float(t)) for t in every_threshold(case)}
    best = max(values.values())
    highest = max(t for t, value in values.items() if value > best - 1e-9)
    passing = case.probabilities >= np.float32(found)
    same = passing.tolist() == (case.probabilities >= highest).tolist()
    return quality(found) == pytest.approx(best) and same


@given(cases())
def test_micro_f1_is_the_best_of_all_thresholds(case):
    found = best_threshold_micro_f1(case.probabilities, case.right, case.n_gold)
    assert is_best(lambda t: micro_f1(case, t), found, case)


@given(cases(), st.integers(1, 5))
def test_f1_at_k_is_the_best_of_all_thresholds(case, k):
    found = best_threshold_f1_at_k(case.probabilities, case.right, case.of_doc, case.n_gold, k)
    assert f1_at_k(case, found, k) == pytest.approx(max(f1_at_k(case, t, k) for t in every_threshold(case)))


@given(cases())
@settings(deadline=None)
def test_macro_f1_is_the_best_of_all_thresholds_in_each_bin(case):
    found = thresholds_macro_f1(case.probabilities, case.right, case.rows, FREQUENCY, case.n_gold_of_label)
    assert found.shape == (N_BINS,)
    for b in range(N_BINS):
        others = [np.where(np.arange(N_BINS) == b, t, found) for t in every_threshold(case)]
        assert macro_f1(case, found) == pytest.approx(max(macro_f1(case, t) for t in [found, *others]))


def test_a_bin_without_a_right_pair_gets_the_threshold_for_all_labels():
    probabilities, right = np.array([0.9, 0.8, 0.6, 0.3]), np.array([True, True, False, False])
    rows, of_label = np.array([6, 7, 0, 6]), np.bincount([6, 7], minlength=N_LABELS)
    found = thresholds_macro_f1(probabilities, right, rows, FREQUENCY, of_label)
    assert found == pytest.approx([0.7, 0.7, 0.7, 0.55])


@given(cases(), st.floats(0.01, 1))
def test_precision_is_kept_by_the_lowest_threshold_that_can(case, precision):
    def reached(threshold: float) -> float:
        passing = case.probabilities >= threshold
        return case.right[passing].mean() if passing.any() else 0.0

    enough = [t for t in every_threshold(case) if reached(t) >= precision]
    if enough:
        found = threshold_for_precision(case.probabilities, case.right, precision)
        assert (case.probabilities >= found).tolist() == (case.probabilities >= min(enough)).tolist()
    else:
        with pytest.raises(SettingError, match=r"precision=.* allow .* at most"):
            threshold_for_precision(case.probabilities, case.right, precision)


def test_the_highest_precision_is_named_and_can_be_asked_for():
    probabilities, right = np.array([0.9, 0.9, 0.9, 0.4]), np.array([True, True, False, False])
    with pytest.raises(SettingError, match=r"precision=0\.9: the held-out documents allow 0\.6666 at most"):
        threshold_for_precision(probabilities, right, 0.9)
    assert threshold_for_precision(probabilities, right, 0.6666) == pytest.approx(0.65)


@pytest.mark.parametrize("value", [0.0, -1.0, 1.5, float("nan")])
def test_a_precision_out_of_range_is_refused(value):
    with pytest.raises(SettingError, match="precision="):
        threshold_for_precision(np.array([0.5]), np.array([True]), value)


def test_k_below_one_is_refused():
    with pytest.raises(SettingError, match="k=0"):
        best_threshold_f1_at_k(np.zeros(0), np.zeros(0, bool), np.zeros(0, int), np.zeros(0, int), 0)


def test_thresholds_lie_midway():
    probabilities, right = np.array([0.9, 0.5, 0.1]), np.array([True, True, False])
    assert best_threshold_micro_f1(probabilities, right, np.array([2])) == pytest.approx(0.3)
    assert best_threshold_micro_f1(probabilities, ~right, np.array([1])) == pytest.approx(0.05)
    assert best_threshold_micro_f1(probabilities, right & False, np.array([1])) == pytest.approx(0.95)


def test_neighbours_in_float32_are_told_apart():
    low = np.float32(0.3)
    high = np.nextafter(low, np.float32(1))
    found = best_threshold_micro_f1(np.array([high, low]), np.array([True, False]), np.array([1]))
    assert low < np.float32(found) <= high


def test_of_equal_probabilities_all_pass_or_none():
    probabilities, right = np.array([0.9, 0.6, 0.6, 0.6, 0.6]), np.array([True, True, False, False, False])
    assert best_threshold_micro_f1(probabilities, right, np.array([2])) == pytest.approx(0.75)


def test_gold_labels_that_are_no_candidates_count():
    probabilities, right = np.array([0.9, 0.6, 0.5, 0.4]), np.array([True, False, False, True])
    assert best_threshold_micro_f1(probabilities, right, np.array([2])) == pytest.approx(0.75)
    assert best_threshold_micro_f1(probabilities, right, np.array([20])) == pytest.approx(0.2)


def test_without_pairs_a_threshold_is_halfway():
    none, nobody = np.zeros(0), np.zeros(0, int)
    assert best_threshold_micro_f1(none, none > 0, np.array([1])) == 0.5
    assert best_threshold_f1_at_k(none, none > 0, nobody, np.array([1]), 5) == 0.5
    found = thresholds_macro_f1(none, none > 0, nobody, FREQUENCY, np.zeros(N_LABELS, int))
    assert found.tolist() == [0.5] * N_BINS
    with pytest.raises(SettingError, match="allow 0 at most"):
        threshold_for_precision(none, none > 0, 0.5)


def bound(case: Case, threshold: float) -> float:
    """(n / (n + 1)) times the mean miss rate, plus 1 / (n + 1)."""
    docs = np.flatnonzero(case.n_gold)
    passing = case.right & (case.probabilities >= threshold)
    losses = [1 - passing[case.of_doc == doc].sum() / case.n_gold[doc] for doc in docs]
    return (sum(losses) + 1) / (len(docs) + 1)


@given(cases(), st.floats(0.05, 0.95))
def test_the_conformal_threshold_is_the_highest_with_the_bound(case, rate):
    enough = [t for t in every_threshold(case)[:-1] if bound(case, t) <= rate + 1e-9]
    args = (case.probabilities, case.right, case.of_doc, case.n_gold)
    if enough:
        assert conformal_threshold(*args, rate) == max(enough)
    else:
        with pytest.raises(SettingError, match=r"rate=.* allow .* at least"):
            conformal_threshold(*args, rate)


@given(cases())
def test_the_lowest_rate_is_that_of_all_candidates(case):
    assert lowest_rate(case.right, case.of_doc, case.n_gold) == pytest.approx(bound(case, 0.0))


def test_the_lowest_rate_is_named_and_can_be_asked_for():
    probabilities, right = np.array([0.9, 0.5, 0.4]), np.array([True, False, True])
    args = (probabilities, right, np.array([0, 0, 1]), np.array([1, 1, 0]))
    with pytest.raises(SettingError, match=r"rate=0\.1: the candidates of 2 .* allow 0\.3334 at least"):
        conformal_threshold(*args, 0.1)
    assert conformal_threshold(*args, 0.3334) == pytest.approx(0.4)


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0, float("nan")])
def test_a_rate_out_of_range_is_refused(rate):
    with pytest.raises(SettingError, match="rate="):
        conformal_threshold(np.array([0.5]), np.array([True]), np.array([0]), np.array([1]), rate)


def test_without_gold_labels_no_rate_is_promised():
    none, nobody = np.zeros(0), np.zeros(0, int)
    assert lowest_rate(none > 0, nobody, np.array([0, 0])) == 1.0
    with pytest.raises(SettingError, match="0 held-out documents allow 1 at least"):
        conformal_threshold(none, none > 0, nobody, np.array([0, 0]), 0.5)


def sample(rng: np.random.Generator, n_docs: int) -> Case:
    """Documents with one to four gold labels, one in twenty of them no candidate, and wrong candidates."""
    of_doc, rows = np.divmod(np.arange(n_docs * 12), 12)
    n_gold = rng.integers(1, 5, n_docs)
    gold = rows < n_gold[of_doc]
    kept = ~gold | (rng.random(len(rows)) < 0.95)
    probabilities = rng.beta(np.where(gold, 3, 1), 2).astype(np.float32)
    return Case(probabilities[kept], gold[kept], of_doc[kept], rows[kept], n_gold, np.zeros(0))


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_new_documents_miss_as_much_as_was_promised(rate):
    rng, n = np.random.default_rng(0), 60
    missed = []
    for _ in range(400):
        held, new = sample(rng, n), sample(rng, 100)
        threshold = conformal_threshold(held.probabilities, held.right, held.of_doc, held.n_gold, rate)
        found = new.right & (new.probabilities >= threshold)
        missed.append(1 - np.mean(np.bincount(new.of_doc, found, 100) / new.n_gold))
    tolerance = 3 * np.std(missed) / np.sqrt(len(missed))
    assert np.mean(missed) <= rate + tolerance
    assert np.mean(missed) >= rate - 2 / (n + 1) - tolerance
