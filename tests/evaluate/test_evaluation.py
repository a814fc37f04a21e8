"""All metrics at once: against a slow reference, and what must hold for any run."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_reference import score
from worked_case import FREQUENCY, GOLD, PRED, gold_matrix, ranked_of

from xmc.errors import InputError, SettingError
from xmc.evaluate.evaluation import EvalSettings, evaluate
from xmc.evaluate.ranked import Ranked

N_LABELS = 9
QUICK = EvalSettings(ks=(1, 3, 5, 10), resamples=0)
labels = st.integers(0, N_LABELS - 1)
scores = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 0.50001, 0.75, 1.0]) | st.floats(-2, 2, allow_subnormal=False)
documents = st.tuples(
    st.lists(labels, unique=True, max_size=5),
    st.lists(st.tuples(labels, scores), unique_by=lambda s: s[0], max_size=N_LABELS),
)
runs = st.lists(documents, max_size=8)
frequencies = st.lists(st.sampled_from([0, 1, 49, 50, 400]), min_size=N_LABELS, max_size=N_LABELS)


def measure(run, frequency=None, n_train=1000, settings=QUICK):
    gold, pred = [g for g, _ in run], [p for _, p in run]
    frequency = None if frequency is None else np.array(frequency)
    return evaluate(gold_matrix(gold, N_LABELS), ranked_of(pred), frequency, n_train, settings)


@given(runs, frequencies)
@settings(max_examples=60, deadline=None)
def test_agrees_with_the_slow_reference(run, frequency):
    ours = measure(run, frequency).values
    slow = score([g for g, _ in run], [p for _, p in run], frequency, 1000, ks=QUICK.ks)
    assert set(ours) == set(slow)
    for name, value in slow.items():
        assert ours[name] == pytest.approx(value, abs=1e-6, nan_ok=True), name


@given(runs, frequencies)
@settings(max_examples=25, deadline=None)
def test_values_lie_between_0_and_1_and_recall_grows(run, frequency):
    e = measure(run, frequency)
    assert all(math.isnan(v) or -1e-12 <= v <= 1 + 1e-9 for v in e.values.values())
    for suffix in ("", "[frequent]", "[few]", "[zero]"):
        recall = [e.value(f"R@{k}{suffix}") for k in e.settings.ks]
        assert all(math.isnan(a) or a <= b + 1e-12 for a, b in itertools.pairwise(recall))
        assert not e.value(f"micro_f1_best{suffix}") < e.value(f"micro_f1_at_0.5{suffix}") - 1e-12


@given(runs, frequencies, st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_order_of_documents_does_not_matter(run, frequency, random):
    shuffled = random.sample(run, len(run))
    one, other = measure(run, frequency), measure(shuffled, frequency)
    assert one.thresholds == other.thresholds
    for name, value in one.values.items():
        assert other.value(name) == pytest.approx(value, abs=1e-9, nan_ok=True), name


@given(runs)
@settings(max_examples=25, deadline=None)
def test_a_perfect_ranking_scores_1(run):
    perfect = [(gold, [(label, 2.0 - i) for i, label in enumerate(gold)]) for gold, _ in run]
    e = measure(perfect, [10] * N_LABELS)
    for name in ("R@10", "RP@1", "RP@5", "nDCG@1", "nDCG@5", "PSP@5", "PSnDCG@5", "micro_f1_best"):
        assert math.isnan(e.value(name)) or e.value(name) == pytest.approx(1), name


@given(runs, st.lists(labels, unique=True, max_size=3))
@settings(max_examples=25, deadline=None)
def test_a_document_without_gold_changes_f1_only(run, suggested):
    extra = ([], [(label, 0.9) for label in suggested])
    one, other = measure(run), measure([*run, extra])
    for name, value in one.values.items():
        if "f1" not in name:
            assert other.value(name) == pytest.approx(value, nan_ok=True), name
    assert not other.value("micro_f1@5") > one.value("micro_f1@5")


def test_the_worked_case_through_the_front_door():
    e = evaluate(gold_matrix(GOLD, 6), ranked_of(PRED), FREQUENCY, 1000, QUICK)
    slow = score(GOLD, PRED, FREQUENCY.tolist(), 1000, ks=QUICK.ks)
    assert e.values == {name: pytest.approx(value, abs=1e-6) for name, value in slow.items()}
    assert e.value("P@1") == pytest.approx(1 / 3)
    assert e.value("R@3[zero]") == pytest.approx(1 / 2)
    assert e.value("micro_f1_best") == pytest.approx(6 / 11)
    assert e.thresholds["micro_f1_best"] == 0.7
    assert e.bins == {"frequent": (2, 2), "few": (2, 2), "zero": (2, 2)}
    assert list(e.counts.values()) == [4, 1, 1, 6, 7, 1]


def test_more_labels_do_not_change_a_metric(gold, ranked):
    small = evaluate(gold, ranked, FREQUENCY, 1000, QUICK)
    wide = sp.csr_matrix((gold.data, gold.indices, gold.indptr), shape=(4, 1_100_000))
    frequency = np.zeros(1_100_000, dtype=np.int64)
    frequency[:6] = FREQUENCY
    large = evaluate(wide, ranked, frequency, 1000, QUICK)
    assert large.values == small.values


def test_without_training_frequencies_there_are_no_bins(gold, ranked):
    e = evaluate(gold, ranked, settings=QUICK)
    assert not e.bins
    assert not any("PSP" in name or "[" in name for name in e.metrics)


def test_an_empty_run_has_no_values_and_does_not_fail():
    e = evaluate(sp.csr_matrix((0, 0)), Ranked.build([0], [], []), np.zeros(0, int), 0)
    assert all(math.isnan(v) for v in e.values.values())
    assert e.intervals == {}


def test_frequencies_of_other_labels_are_refused(gold, ranked):
    with pytest.raises(InputError, match="5 training frequencies for 6 labels"):
        evaluate(gold, ranked, FREQUENCY[:5], 10)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ks": (0, 5)}, "ks="),
        ({"ks": ()}, "ks="),
        ({"threshold": math.nan}, "threshold=nan"),
        ({"propensity_b": 0}, "propensity.b=0"),
        ({"propensity_a": -1}, "propensity.a=-1"),
        ({"resamples": -1}, "resamples=-1"),
        ({"confidence": 1}, "confidence=1"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changed, message):
    with pytest.raises(SettingError, match=message):
        EvalSettings(**changed).validate()
