import numpy as np
import pytest
from worked_case import gold_matrix, ranked_of

from xmc.errors import InputError
from xmc.evaluate.evaluation import EvalSettings, compare, evaluate
from xmc.evaluate.intervals import draws, intervals, resample
from xmc.evaluate.metrics import Ratio

N_DOCS, N_LABELS = 60, 12


def run(quality, seed=0, **settings):
    """A run over the same gold labels whose hits get ``quality`` more score."""
    rng = np.random.default_rng(5)
    gold = [np.flatnonzero(row) for row in rng.random((N_DOCS, N_LABELS)) < 0.2]
    noise = np.random.default_rng(seed + 100).random((N_DOCS, N_LABELS))
    pred = [
        [(label, noise[d, label] + quality * (label in labels)) for label in range(N_LABELS)]
        for d, labels in enumerate(gold)
    ]
    frequency = np.arange(N_LABELS) * 9
    return gold, pred, frequency, EvalSettings(resamples=200, **settings)


def measure(gold, pred, frequency, settings):
    return evaluate(gold_matrix(gold, N_LABELS), ranked_of(pred), frequency, 100, settings)


def test_draws_take_as_many_documents_as_there_are_and_follow_the_seed():
    (first,) = draws(50, 20, seed=1)
    (again,) = draws(50, 20, seed=1)
    (other,) = draws(50, 20, seed=2)
    assert first.shape == (20, 50)
    assert np.all(first.sum(axis=1) == 50)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_draw_is_the_metric_over_the_drawn_documents():
    gold, pred, frequency, settings = run(0.3)
    whole = measure(gold, pred, frequency, settings)
    (weights,) = draws(N_DOCS, 3, settings.seed)
    sampled = resample(whole.metrics, N_DOCS, 3, settings.seed)
    for i, weight in enumerate(weights):
        picks = np.repeat(np.arange(N_DOCS), weight.astype(int))
        drawn = measure(
            [gold[d] for d in picks], [pred[d] for d in picks], frequency, EvalSettings(resamples=0)
        )
        for name, value in drawn.values.items():
            if not name.startswith("micro_f1_best"):  # its threshold is found on all documents, then kept
                assert sampled[name][i] == pytest.approx(value, abs=1e-5, nan_ok=True), name


def test_intervals_hold_the_value_and_have_the_width_of_the_mean():
    hits = np.random.default_rng(0).random(400) < 0.3
    metric = Ratio(hits.astype(float), np.ones(400))
    found = intervals({"P@1": metric}, 400, 2000, seed=0)["P@1"]
    half = 1.96 * np.sqrt(metric.value * (1 - metric.value) / 400)
    assert found.low == pytest.approx(metric.value - half, abs=0.01)
    assert found.high == pytest.approx(metric.value + half, abs=0.01)


def test_every_defined_metric_has_an_interval_around_it():
    e = measure(*run(0.3))
    assert set(e.intervals) == {name for name, value in e.values.items() if not np.isnan(value)}
    for name, i in e.intervals.items():
        assert 0 <= i.low <= e.value(name) + 1e-9, name
        assert e.value(name) - 1e-9 <= i.high <= 1, name


def test_macro_f1_lies_in_its_interval_where_most_labels_occur_once():
    # Each document has its own label, found in second place behind one that another document has.
    gold = [[d] for d in range(80)]
    pred = [[((d + 1) % 80, 0.9), (d, 0.8)] for d in range(80)]
    e = evaluate(gold_matrix(gold, 80), ranked_of(pred))
    found = e.intervals["macro_f1@5"]
    assert e.value("macro_f1@5") == pytest.approx(2 / 3)
    assert found.low < 2 / 3 < found.high


def test_no_resamples_or_no_documents_give_no_intervals():
    assert intervals({"P@1": Ratio(np.ones(3), np.ones(3))}, 3, 0, 0) == {}
    assert intervals({"P@1": Ratio(np.zeros(0), np.zeros(0))}, 0, 10, 0) == {}


def test_a_run_against_itself_differs_by_nothing():
    e = measure(*run(0.3))
    for difference in compare(e, e).values():
        assert (difference.value, difference.low, difference.high, difference.wins) == (0, 0, 0, 0.5)


def test_a_better_run_wins_and_pairing_narrows_the_interval():
    good, bad = measure(*run(0.6)), measure(*run(0.2))
    difference = compare(good, bad)["P@1"]
    assert difference.value == pytest.approx(good.value("P@1") - bad.value("P@1"))
    assert difference.low > 0
    assert difference.wins > 0.99
    back = compare(bad, good)["P@1"]
    assert (back.low, back.high) == (pytest.approx(-difference.high), pytest.approx(-difference.low))


def test_runs_over_other_gold_labels_cannot_be_compared():
    gold, pred, frequency, settings = run(0.3)
    e = measure(gold, pred, frequency, settings)
    other = measure([*gold[1:], gold[0]], pred, frequency, settings)
    with pytest.raises(InputError, match="different gold labels"):
        compare(e, other)
    with pytest.raises(InputError, match="different gold labels"):
        compare(e, measure(gold[:-1], pred[:-1], frequency, settings))
