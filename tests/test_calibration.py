from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from xmc.artifacts import load_array, load_csr, load_json, save_array, save_csr, save_json
from xmc.calibrate import expected_calibration_error, frequency_bin
from xmc.calibration import DEPTH, Calibration, HeldOutSample
from xmc.errors import ArtifactError, SettingError
from xmc.rules import Rule, threshold_of

N_LABELS = 40
FREQUENCY = np.arange(N_LABELS) % 4 * 20  # 0, 20, 40 and 60 documents
# Log odds of labels by frequency are off by so much.
OFF = np.array([2.0, 0.0, 0.0, -1.0])


class Made:
    """Documents with 20 candidates each, whose log odds are off by bin, and gold labels that are none."""

    def __init__(self, n_docs: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        ranked = np.argsort(rng.random((n_docs, N_LABELS)), axis=1)[:, :20]
        self.rows = np.sort(ranked, axis=1).ravel()
        self.of_doc = np.repeat(np.arange(n_docs), 20)
        odds = rng.normal(-2.5, 2.5, len(self.rows))
        self.right = rng.random(len(odds)) < 1 / (1 + np.exp(-odds))
        self.scores = (odds + OFF[frequency_bin(FREQUENCY[self.rows])]).astype(np.float32)
        gold = np.zeros((n_docs, N_LABELS), np.float32)
        gold[self.of_doc, self.rows] = self.right
        missed = rng.random((n_docs, N_LABELS)) < 0.02
        missed[self.of_doc, self.rows] = False
        self.gold = sp.csr_matrix(np.maximum(gold, missed))

    def fit(self, seed: int = 0) -> Calibration | None:
        return Calibration.fit((self.of_doc, self.rows, self.scores), self.gold, FREQUENCY, seed)

    def probabilities(self, calibration: Calibration) -> np.ndarray:
        return calibration.calibrator(self.scores, FREQUENCY[self.rows])


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return Made(400, 0).fit()


@pytest.mark.parametrize("frequency", [0, 60])
def test_probabilities_of_new_documents_are_about_right_in_each_bin(calibration, frequency):
    new = Made(2000, 1)
    mine = FREQUENCY[new.rows] == frequency
    raw = 1 / (1 + np.exp(-new.scores[mine]))
    found = expected_calibration_error(new.probabilities(calibration)[mine], new.right[mine])
    assert found < expected_calibration_error(raw, new.right[mine]) / 2


def test_labels_without_documents_have_a_curve_of_their_own(calibration):
    unseen, frequent = calibration.calibrator(np.zeros(2), np.array([0, 100]))
    assert unseen < 0.25 < 0.5 < frequent


def test_a_document_of_the_sample_had_no_part_in_its_probabilities():
    made = Made(400, 0)
    one, other = made.fit(seed=0), made.fit(seed=1)
    assert (one.calibrator.curves[0].probabilities == other.calibrator.curves[0].probabilities).all()
    assert (one.sample.probabilities != other.sample.probabilities).nnz > 0
    of_all = sp.csr_matrix((made.probabilities(one), (made.of_doc, made.rows)), made.gold.shape)
    assert (one.sample.probabilities != of_all).nnz > 0.9 * of_all.nnz
    again = made.fit(seed=0)
    assert (one.sample.probabilities != again.sample.probabilities).nnz == 0


def test_too_few_right_pairs_or_no_wrong_one():
    made = Made(400, 0)
    few = Made(8, 0)
    assert few.right.sum() < 50
    assert few.fit() is None
    assert Made(0, 0).fit() is None
    everything = sp.csr_matrix(np.ones((400, N_LABELS), np.float32))
    assert Calibration.fit((made.of_doc, made.rows, made.scores), everything, FREQUENCY, 0) is None


def test_few_documents_still_leave_folds_to_fit_on():
    made = Made(30, 0)
    assert made.right.sum() >= 50
    p = made.fit().sample.probabilities.data
    assert ((p > 0) & (p < 1)).all()


def test_the_sample_keeps_the_best_of_each_document():
    n = DEPTH + 50
    of_doc, rows = np.repeat([0, 1], n), np.tile(np.arange(n), 2)
    scores = np.tile(np.linspace(-9, 2, n), 2)
    right = (np.arange(2 * n) % 2 == 0) & (scores > -4)
    gold = sp.csr_matrix((right.astype(np.float32), (of_doc, rows)), (2, n))
    sample = Calibration.fit((of_doc, rows, scores), gold, np.full(n, 5), 0).sample
    assert np.diff(sample.probabilities.indptr).tolist() == [DEPTH, DEPTH]
    assert sample.probabilities.indices.min() == n - DEPTH


def test_hidden_labels_bend_the_curves_and_are_not_in_the_sample():
    made, hidden = Made(300, 2), np.arange(N_LABELS) % 8 == 0
    pairs = made.of_doc, made.rows, made.scores
    whole = Calibration.fit(pairs, made.gold, FREQUENCY, 0)
    part = Calibration.fit(pairs, made.gold, FREQUENCY, 0, hidden)
    assert part.calibrator.to_json() == whole.calibrator.to_json()
    for name in ("probabilities", "gold"):
        kept, every = getattr(part.sample, name).toarray(), getattr(whole.sample, name).toarray()
        assert every[:, hidden].any()
        assert not kept[:, hidden].any()
        assert (kept[:, ~hidden] == every[:, ~hidden]).all()


def brute_force(sample: HeldOutSample, top_k: int, allowed: np.ndarray) -> list[tuple[float, int, bool, int]]:
    """Probability, document, whether right and label of what a document gets at most."""
    found = []
    for doc in range(sample.gold.shape[0]):
        p, gold = sample.probabilities[doc].toarray().ravel(), sample.gold[doc].toarray().ravel()
        best = sorted((-p[r], r) for r in np.flatnonzero((p > 0) & allowed))[:top_k]
        found += [(float(-q), doc, bool(gold[r]), int(r)) for q, r in best]
    return found


def best_f1(pairs: list[tuple[float, int, bool, int]], n_gold: float) -> float:
    """The best micro F1 of all thresholds."""
    values = [0.0]
    for cut in {p for p, *_ in pairs}:
        passing = [right for p, _, right, _ in pairs if p >= cut]
        values.append(2 * sum(passing) / (len(passing) + n_gold))
    return max(values)


ALL, EVEN = np.ones(N_LABELS, bool), np.arange(N_LABELS) % 2 == 0


@pytest.mark.parametrize("allowed", [ALL, EVEN])
@pytest.mark.parametrize("top_k", [3, 200])
def test_micro_f1_is_the_best_for_what_is_written(top_k, allowed):
    sample = Made(60, 3).fit().sample
    pairs, n_gold = brute_force(sample, top_k, allowed), float(sample.gold[:, allowed].sum())
    cut = np.float32(sample.threshold(Rule("micro_f1"), top_k, None if allowed is ALL else allowed))
    passing = [right for p, _, right, _ in pairs if np.float32(p) >= cut]
    assert 2 * sum(passing) / (len(passing) + n_gold) == pytest.approx(best_f1(pairs, n_gold))


@pytest.mark.parametrize("top_k", [3, 200])
def test_precision_and_miss_rate_hold_for_what_is_written(top_k):
    sample = Made(60, 3).fit().sample
    pairs = brute_force(sample, top_k, ALL)
    cut = np.float32(sample.threshold(threshold_of("precision=0.8"), top_k))
    passing = [right for p, _, right, _ in pairs if np.float32(p) >= cut]
    assert np.mean(passing) >= 0.8
    lower = max((p for p, *_ in pairs if np.float32(p) < cut), default=0)
    assert np.mean([right for p, _, right, _ in pairs if p >= lower]) < 0.8
    cut = np.float32(sample.threshold(threshold_of("miss_rate=0.6"), top_k))
    n_gold = np.asarray(sample.gold.sum(axis=1)).ravel()
    found = np.bincount([d for p, d, right, _ in pairs if right and np.float32(p) >= cut], minlength=60)
    assert np.mean(1 - found[n_gold > 0] / n_gold[n_gold > 0]) <= 0.6


def test_f1_at_k_and_macro_f1(calibration):
    assert all(0 < calibration.sample.threshold(Rule("f1", k), 10) < 1 for k in (1, 3, 50))
    bins = calibration.sample.threshold(Rule("macro_f1"), 10)
    assert len(bins) == 4
    assert all(0 < value < 1 for value in bins)


def test_a_promise_that_cannot_be_kept_names_the_nearest_that_can(calibration):
    with pytest.raises(SettingError, match=r"miss_rate=0\.01: .* allow 0\.\d+ at least; .* a larger top_k$"):
        calibration.sample.threshold(threshold_of("miss_rate=0.01"), 2)
    with pytest.raises(SettingError, match=r"allow 0\.\d+ at least; ask for that or more$") as caught:
        calibration.sample.threshold(threshold_of("miss_rate=0.01"), DEPTH)
    least = str(caught.value).split("allow ")[1].split()[0]
    assert calibration.sample.threshold(threshold_of(f"miss_rate={least}"), DEPTH) > 0


def test_labels_of_which_none_is_right_give_no_threshold(calibration):
    with pytest.raises(SettingError, match=r"threshold=micro_f1: no held-out document .*; give a number"):
        calibration.sample.threshold(Rule("micro_f1"), 10, np.zeros(N_LABELS, bool))


@pytest.mark.parametrize("top_k", [4, 200])
def test_new_documents_miss_as_much_as_was_promised(top_k):
    """Over many samples; where a document gets at most ``top_k`` labels, too."""
    rate, missed = 0.5, []
    for seed in range(30):
        calibration, new = Made(120, 2 * seed).fit(), Made(200, 2 * seed + 1)
        cut = calibration.sample.threshold(Rule("miss_rate", rate), top_k)
        p = new.probabilities(calibration)
        order = np.lexsort((-p, new.of_doc))
        place = np.empty(len(order), int)
        place[order] = np.arange(len(order)) % 20
        found = new.right & (p >= np.float32(cut)) & (place < top_k)
        n_gold = np.asarray(new.gold.sum(axis=1)).ravel()
        share = np.bincount(new.of_doc, found, 200)[n_gold > 0] / n_gold[n_gold > 0]
        missed.append(1 - share.mean())
    tolerance = 3 * np.std(missed) / np.sqrt(len(missed))
    assert rate - 0.02 - tolerance <= np.mean(missed) <= rate + tolerance


def saved(calibration: Calibration, folder: Path) -> Path:
    calibration.save(folder / "calibration")
    return folder / "calibration"


def test_saved_and_loaded_it_is_the_same(calibration, tmp_path):
    again = Calibration.load(saved(calibration, tmp_path), N_LABELS)
    scores, frequency = np.linspace(-9, 9, 50), np.arange(50) * 2
    assert (again.calibrator(scores, frequency) == calibration.calibrator(scores, frequency)).all()
    for text in ("micro_f1", "macro_f1", "f1@2", "precision=0.7", "miss_rate=0.4"):
        rule = threshold_of(text)
        assert again.sample.threshold(rule, 10) == calibration.sample.threshold(rule, 10)
    (tmp_path / "more").mkdir()
    for file in saved(again, tmp_path / "more").iterdir():
        assert file.read_bytes() == (tmp_path / "calibration" / file.name).read_bytes()


def csr(file: str, change: Callable[[sp.csr_matrix], sp.csr_matrix]) -> Callable[[Path], None]:
    return lambda folder: save_csr(folder / file, change(load_csr(folder / file)))


def array(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    path = "frequency.npy"
    return lambda folder: save_array(folder / path, change(load_array(folder / path, mmap=False)))


def with_first(value: float) -> Callable[[sp.csr_matrix], sp.csr_matrix]:
    def change(matrix: sp.csr_matrix) -> sp.csr_matrix:
        matrix.data[0] = value
        return matrix

    return change


def falling(folder: Path) -> None:
    curves = load_json(folder / "curves.json")
    curves[0]["probabilities"].reverse()
    save_json(folder / "curves.json", curves)


DAMAGES = {
    "no number": ("probabilities.npz", csr("probabilities.npz", with_first(np.nan))),
    "one": ("probabilities.npz", csr("probabilities.npz", with_first(1.0))),
    "zero": ("probabilities.npz", csr("probabilities.npz", with_first(0.0))),
    "negative": ("probabilities.npz", csr("probabilities.npz", with_first(-0.5))),
    "wide": ("probabilities.npz", csr("probabilities.npz", lambda m: m.astype(np.float64))),
    "fewer labels": ("probabilities.npz", csr("probabilities.npz", lambda m: m[:, :-1])),
    "fewer documents": ("gold.npz", csr("gold.npz", lambda m: m[:-1])),
    "gold of two": ("gold.npz", csr("gold.npz", with_first(2.0))),
    "gold of other labels": ("gold.npz", csr("gold.npz", lambda m: m[:, :-1])),
    "counts below zero": ("frequency.npy", array(lambda a: a - 1)),
    "too few counts": ("frequency.npy", array(lambda a: a[:-1])),
    "counts in two columns": ("frequency.npy", array(lambda a: a.reshape(-1, 2))),
    "counts that are no whole numbers": ("frequency.npy", array(lambda a: a * np.nan)),
    "falling": ("curves.json", falling),
    "no curves": ("curves.json", lambda folder: save_json(folder / "curves.json", [])),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_name(calibration, tmp_path, damage):
    file, change = DAMAGES[damage]
    folder = saved(calibration, tmp_path)
    change(folder)
    with pytest.raises(ArtifactError, match=rf"{file}: .*rebuild the model") as caught:
        Calibration.load(folder, N_LABELS)
    assert "\n" not in str(caught.value)


def test_a_label_twice_is_refused(calibration, tmp_path):
    folder = saved(calibration, tmp_path)
    found = load_csr(folder / "gold.npz")
    row = int(np.flatnonzero(np.diff(found.indptr) > 1)[0])
    indices = found.indices.copy()
    indices[found.indptr[row] + 1] = indices[found.indptr[row]]
    with open(folder / "gold.npz", "wb") as out:
        parts = {
            "data": found.data,
            "indices": indices,
            "indptr": found.indptr,
            "shape": np.array(found.shape),
        }
        np.savez(out, format=np.array(b"csr"), **parts)
    with pytest.raises(ArtifactError, match=r"gold\.npz: holds labels twice or in no order"):
        Calibration.load(folder, N_LABELS)
