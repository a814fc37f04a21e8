"""Calibrated scores and threshold rules through the tagger and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cases.corpus_t import docs_file, forged, ids, index, labels_file, synthetic, tag, xmc
from xmc.artifacts import load_csr, save_csr
from xmc.calibrate import frequency_bin
from xmc.data.records import DocumentBatch
from xmc.errors import SettingError
from xmc.evaluate.run import evaluate_files
from xmc.tag.suggestions import TagOptions
from xmc.tag.tagger import Tagger, probability

LABELS, DOCS = synthetic(60, 700)
HELD = DOCS[500:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("calibrated")
    index(made / "model", labels_file(made / "l.jsonl", LABELS), docs_file(made / "d.jsonl", DOCS[:500]))
    docs_file(made / "new.jsonl", HELD)
    return made


@pytest.fixture(scope="module")
def tagger(folder) -> Tagger:
    return Tagger.load(folder / "model")


@pytest.fixture(scope="module")
def uncalibrated(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("few")
    return index(made / "m", labels_file(made / "l.jsonl", LABELS), docs_file(made / "d.jsonl", DOCS[:40]))


TEXTS = [text for _, text, _ in HELD]


def scores(found: list) -> list[np.ndarray]:
    return [np.array([s.score for s in each]) for each in found]


def test_scores_are_calibrated_and_fall_with_the_rank(tagger):
    found = tagger.tag(TEXTS, top_k=60)
    assert all((np.diff(each) <= 0).all() for each in scores(found))
    calibrator, row = tagger.weights.calibration.calibrator, {label: i for i, (label, _) in enumerate(LABELS)}
    frequency = tagger.frequency[[row[s.id] for s in found[0]]]
    possible = [calibrator(np.linspace(-30, 30, 3), np.full(3, f))[[0, 2]] for f in frequency]
    assert all(low <= s.score <= high for s, (low, high) in zip(found[0], possible, strict=True))


def test_equal_probabilities_stand_by_log_odds(tagger, monkeypatch):
    monkeypatch.setattr(tagger, "_probabilities", lambda odds, rows: np.full(len(odds), 0.5, np.float32))
    tied = tagger.tag(TEXTS[:20], top_k=60)
    monkeypatch.setattr(tagger, "_probabilities", lambda odds, rows: probability(odds))
    by_odds = tagger.tag(TEXTS[:20], top_k=60)
    assert [[s.id for s in each] for each in tied] == [[s.id for s in each] for each in by_odds]


@pytest.mark.parametrize("rule", ["micro_f1", "f1@2", "precision=0.8", "miss_rate=0.2"])
def test_what_is_written_is_what_passes_the_threshold(tagger, rule):
    options = tagger.options(threshold=rule)
    assert options.rule == rule
    assert options.top_k == (200 if "miss" in rule else 10)
    found = tagger.tag(TEXTS, threshold=rule)
    everything = tagger.tag(TEXTS, top_k=options.top_k)
    wanted = [(each >= np.float32(options.threshold)).sum() for each in scores(everything)]
    assert [len(each) for each in found] == wanted


def test_macro_f1_has_a_threshold_for_each_bin(tagger):
    assert len(tagger.options(threshold="macro_f1").threshold) == 4
    bins = frequency_bin(tagger.frequency)
    first, *others = np.unique(bins)
    assert others
    # Far apart, so that each label's own decides.
    options = TagOptions(60, tuple(0.0 if b == first else 2.0 for b in range(4)))
    names = [i for i, _, _ in HELD[:10]]
    found = tagger.tag_batch(DocumentBatch(names, TEXTS[:10], None, None, names), options)
    assert found.n_suggestions > 0
    assert set(bins[found.rows]) == {first}


def test_new_documents_are_as_was_promised(folder, tmp_path):
    """Of 200 documents: within three standard errors or so."""
    model, new = folder / "model", folder / "new.jsonl"
    tag(model, new, tmp_path / "a.jsonl", "threshold=miss_rate=0.2")
    assert evaluate_files(new, tmp_path / "a.jsonl").value("miss_rate") < 0.2 + 0.08
    found = tag(model, new, tmp_path / "b.jsonl", "threshold=precision=0.8")
    gold = {doc: labels for doc, _, labels in HELD}
    right = [label in gold[doc] for doc, each in found.items() for label in ids(each)]
    assert np.mean(right) > 0.8 - 0.1


def test_the_manifest_holds_the_rule_and_its_threshold_and_the_summary_tells_it(folder, tmp_path, capsys):
    out = tmp_path / "out.jsonl"
    tag(folder / "model", folder / "new.jsonl", out, "threshold=precision=0.8")
    assert "threshold=precision=0.8 chose 0." in capsys.readouterr().err
    settings = json.loads((tmp_path / "out.jsonl.run.json").read_text())["settings"]
    options = Tagger.load(folder / "model").options(threshold="precision=0.8")
    assert (settings["rule"], settings["threshold"]) == ("precision=0.8", options.threshold)
    before = out.read_bytes()
    tag(folder / "model", folder / "new.jsonl", out, "threshold=precision=0.8")
    assert out.read_bytes() == before
    for other in ("threshold=micro_f1", f"threshold={options.threshold!r}", "threshold=macro_f1"):
        capsys.readouterr()
        assert xmc("tag", "--model", folder / "model", "--docs", folder / "new.jsonl", "-o", out, other) == 2
        assert "rule was precision=0.8 and is" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_a_subset_of_the_labels_has_a_threshold_of_its_own(folder, tmp_path):
    some = [label for label, _ in LABELS[:10]]
    (tmp_path / "ids.txt").write_text("\n".join(some) + "\n")
    more = ("--only", tmp_path / "ids.txt", "threshold=micro_f1")
    found = tag(folder / "model", folder / "new.jsonl", tmp_path / "out.jsonl", *more)
    assert {label for each in found.values() for label in ids(each)} <= set(some)
    assert any(ids(each) for each in found.values())


def refused(folder: Path, model: Path, out: Path, *more: str) -> int:
    return xmc("tag", "--model", model, "--docs", folder / "new.jsonl", "-o", out, *more)


def test_a_promise_beyond_the_candidates_names_the_nearest(folder, tmp_path, capsys):
    capsys.readouterr()
    assert refused(folder, folder / "model", tmp_path / "o.jsonl", "threshold=miss_rate=0.0001") == 2
    said = capsys.readouterr().err
    assert "miss_rate=0.0001" in said
    assert "at least; ask for that or more\n" in said
    assert said.count("\n") == 1
    assert refused(folder, folder / "model", tmp_path / "o.jsonl", "threshold=miss_rate=0.01", "top_k=1") == 2
    assert "or for a larger top_k" in capsys.readouterr().err


@pytest.mark.parametrize("rule", ["micro_f1", "macro_f1", "f1@3", "precision=0.5", "miss_rate=0.5"])
def test_a_model_of_few_documents_has_no_rule_and_says_why(folder, uncalibrated, tmp_path, capsys, rule):
    capsys.readouterr()
    assert refused(folder, uncalibrated, tmp_path / "out.jsonl", f"threshold={rule}") == 2
    said = capsys.readouterr().err
    assert said.startswith(f"xmc: error: threshold={rule}: the model has no held-out documents")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_model_of_few_documents_has_logistic_scores(uncalibrated):
    tagger = Tagger.load(uncalibrated)
    assert tagger.weights.calibration is None
    odds = np.linspace(-3, 3, 7, dtype=np.float32)
    assert (tagger._probabilities(odds, np.zeros(7, int)) == probability(odds)).all()
    assert tagger.tag(TEXTS[:1], threshold=0.0)


def test_python_refuses_what_the_command_does(tagger):
    with pytest.raises(SettingError, match=r"threshold=precision=3: wanted"):
        tagger.tag(TEXTS[:1], threshold="precision=3")
    with pytest.raises(SettingError, match="top_k=-1"):
        tagger.tag(TEXTS[:1], -1, "micro_f1")


def test_a_hostile_sample_is_refused_in_one_line(folder, tmp_path, capsys):
    def change(model: Path) -> None:
        path = model / "calibration" / "probabilities.npz"
        found = load_csr(path)
        found.data[3] = np.nan
        save_csr(path, found)

    broken = forged(folder / "model", tmp_path / "broken", change)
    capsys.readouterr()
    assert refused(folder, broken, tmp_path / "out.jsonl") == 2
    said = capsys.readouterr().err
    assert "calibration/probabilities.npz: holds no probabilities; rebuild the model" in said
    assert said.count("\n") == 1
