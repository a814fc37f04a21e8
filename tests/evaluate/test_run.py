"""Evaluation from files, as `xmc eval` does it: what is counted, what is refused, and the options."""

import json

import numpy as np
import pytest
from slow_reference import score
from worked_case import GOLD, PRED

from xmc.data.options import ReadOptions
from xmc.errors import InputError
from xmc.evaluate.evaluation import EvalSettings
from xmc.evaluate.report import label_csv, text
from xmc.evaluate.run import Truth, evaluate_files

QUICK = EvalSettings(ks=(1, 3, 5), resamples=0)
NAMES = "abcdef"


def jsonl(path, records):
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return path


def documents(path, gold, prefix="d"):
    records = [
        {"id": f"{prefix}{i}", "text": "t", "labels": [NAMES[n] for n in labels]}
        for i, labels in enumerate(gold)
    ]
    return jsonl(path, records)


def predictions(path, pred, skip=()):
    records = [
        {"id": f"d{i}", "suggestions": [{"id": NAMES[n], "score": s} for n, s in suggestions]}
        for i, suggestions in enumerate(pred)
        if i not in skip
    ]
    return jsonl(path, records)


def vocabulary(path, names):
    return jsonl(path, [{"id": name, "text": f"label {name}"} for name in names])


@pytest.fixture
def files(tmp_path):
    return {
        "gold": documents(tmp_path / "gold.jsonl", GOLD),
        "pred": predictions(tmp_path / "pred.jsonl", PRED, skip=(3,)),
        "train": documents(tmp_path / "train.jsonl", [[0]] * 60 + [[1, 4]] * 5 + [[5, 1]] * 5 + [[]], "t"),
        "settings": QUICK,
    }


def test_the_worked_case_from_files(files):
    e = evaluate_files(**files)
    rows = {label_id: row for row, label_id in enumerate(e.names.ids)}
    frequency = [60, 10, 0, 0, 5, 5]
    slow = score(GOLD, PRED, frequency, 71, ks=QUICK.ks)
    assert e.values == {name: pytest.approx(value, abs=1e-6, nan_ok=True) for name, value in slow.items()}
    assert [int(e.train_frequency[rows[name]]) for name in NAMES] == frequency
    assert e.counts["documents without a prediction line (misses)"] == 1
    assert e.counts["training documents"] == 71
    assert e.counts["labels with a training document"] == 4
    assert e.counts["gold documents that are also training documents, by id (leakage)"] == 0
    assert e.sources["gold"].endswith("gold.jsonl")


def test_the_vocabulary_changes_no_metric_where_it_is_complete(files, tmp_path):
    labels = vocabulary(tmp_path / "labels.jsonl", "fxedcbayz")
    e = evaluate_files(**files, labels=labels)
    assert e.values == pytest.approx(evaluate_files(**files).values, nan_ok=True)
    assert e.bins["zero"][0] == 5  # c, d and the three that occur nowhere
    assert "label a" in label_csv(e)


def test_predictions_for_other_documents_are_left_out_and_counted(files, tmp_path):
    extra = {"id": "elsewhere", "suggestions": [{"id": "a", "score": 9}, {"id": "new", "score": 8}]}
    with open(files["pred"], "a", encoding="utf-8") as out:
        out.write(json.dumps(extra) + "\n")
    e = evaluate_files(**files)
    assert e.counts["predictions for documents that are not in gold (left out)"] == 1
    assert e.counts["suggestions"] == 7


def test_leakage_is_counted(files, tmp_path):
    files["train"] = documents(tmp_path / "t.jsonl", [[0], [1], [2], [], [4]])
    assert (
        evaluate_files(**files).counts["gold documents that are also training documents, by id (leakage)"]
        == 4
    )


def test_without_train_it_says_what_is_missing(files):
    del files["train"]
    e = evaluate_files(**files)
    assert "without --train there are no propensity-scored metrics" in text(e)
    assert "P@1" in e.metrics
    assert "PSP@1" not in e.metrics


def test_a_gold_label_outside_the_vocabulary(files, tmp_path):
    labels = vocabulary(tmp_path / "labels.jsonl", "abcef")  # d is gold for document 3 and suggested for 0
    with pytest.raises(
        InputError, match=r"1 gold label outside vocabulary .*'d' at .*gold.jsonl:4.*unknown_label=skip"
    ):
        evaluate_files(**files, labels=labels)
    skipped = evaluate_files(**files, labels=labels, options=ReadOptions(on_unknown_label="skip"))
    assert skipped.value("R@3") == pytest.approx((2 / 3 + 1 + 0 / 1) / 3)
    assert skipped.counts["gold labels"] == 5
    assert skipped.counts["suggestions outside the vocabulary (misses)"] == 1
    assert skipped.value("P@3") == pytest.approx((2 / 3 + 1 / 3 + 0) / 3)  # the unknown d keeps its place
    assert "1 gold label outside vocabulary" in text(skipped)
    added = evaluate_files(**files, labels=labels, options=ReadOptions(on_unknown_label="add"))
    assert added.counts["gold labels"] == 6
    assert added.values == pytest.approx(evaluate_files(**files).values, nan_ok=True)


def test_filter_pairs_leave_gold_and_suggestions_before_ranking(files, tmp_path):
    labels = vocabulary(tmp_path / "labels.jsonl", NAMES)
    pairs = tmp_path / "filter.txt"
    pairs.write_text("0 2\n0 3\n1 5\n")  # document 0: c (gold and first), d (second); document 1: f (neither)
    e = evaluate_files(**files, labels=labels, filter_pairs=pairs)
    gold = [[0, 1], *GOLD[1:]]
    pred = [[(0, 0.7)], *PRED[1:]]
    slow = score(gold, pred, [60, 10, 0, 0, 5, 5], 71, ks=QUICK.ks)
    assert e.values == {name: pytest.approx(value, abs=1e-6, nan_ok=True) for name, value in slow.items()}
    assert e.counts["gold labels removed by the filter"] == 1
    assert e.counts["suggestions removed by the filter"] == 2


def test_filter_pairs_that_name_nothing_are_refused(files, tmp_path):
    labels = vocabulary(tmp_path / "labels.jsonl", NAMES)
    pairs = tmp_path / "filter.txt"
    pairs.write_text("0 2\n4 0\n")
    with pytest.raises(InputError, match=r"filter.txt: pair 2 is \(4, 0\); wanted rows of 4 documents"):
        evaluate_files(**files, labels=labels, filter_pairs=pairs)
    pairs.write_text("0 6\n")
    with pytest.raises(InputError, match=r"pair 1 is .*; wanted rows of 6 labels"):
        evaluate_files(**files, labels=labels, filter_pairs=pairs)
    with pytest.raises(InputError, match="name the vocabulary with --labels"):
        evaluate_files(**files, filter_pairs=pairs)


def test_gold_without_labels_is_refused(files, tmp_path):
    files["gold"] = jsonl(tmp_path / "g.jsonl", [{"id": "d0", "text": "t"}])
    with pytest.raises(InputError, match=r"g.jsonl:1: the documents have no labels"):
        evaluate_files(**files)


def test_settings_and_options_are_checked_before_anything_is_read(files):
    with pytest.raises(InputError, match="ks="):
        evaluate_files("nowhere", "nowhere", settings=EvalSettings(ks=(0,)))
    with pytest.raises(InputError, match="on_duplicate=both"):
        evaluate_files("nowhere", "nowhere", options=ReadOptions(on_duplicate="both"))


def test_the_sparse_format_defines_its_labels_and_takes_a_plain_score_matrix(tmp_path):
    gold = tmp_path / "test.txt"
    gold.write_text("3 5 4\n0,2 0:1.0\n3 1:1.0 2:0.5\n 4:1.0\n")
    pred = tmp_path / "scores.npz"
    np.savez(
        pred,
        data=np.array([0.9, 0.1, 0.8, 0.5]),
        indices=np.array([2, 1, 3, 0]),
        indptr=np.array([0, 2, 3, 4]),
        shape=np.array([3, 4]),
        format=np.array(b"csr"),
    )
    pairs = tmp_path / "filter.txt"
    pairs.write_text("1 3\n")
    e = evaluate_files(gold, pred, train=gold, settings=QUICK)
    assert e.value("P@1") == 1
    assert e.value("R@5") == pytest.approx((1 / 2 + 1) / 2)
    assert e.counts["documents without gold labels (left out of averages over documents)"] == 1
    assert not any("leakage" in what for what in e.counts)  # numbered rows of two files are not the same
    filtered = evaluate_files(gold, pred, filter_pairs=pairs, settings=QUICK)
    assert filtered.counts["gold labels"] == 2
    assert filtered.counts["suggestions"] == 3


def test_gold_read_once_measures_any_number_of_runs(files, tmp_path):
    other = predictions(tmp_path / "other.jsonl", [[(1, 0.9)], [(1, 0.8)], [(0, 0.1)], [(5, 0.4)]])
    truth = Truth.read(files["gold"], files["train"])
    for pred in (files["pred"], other, files["pred"]):
        alone = evaluate_files(**{**files, "pred": pred})
        assert truth.measure(pred, QUICK).values == pytest.approx(alone.values, nan_ok=True)
    assert truth.measure(other, QUICK).doc_ids == ["d0", "d1", "d2", "d3"]


def test_excerpts_are_the_beginnings_of_texts(tmp_path):
    texts = ["first\n  line", "x" * 50, "third", "cafe\u0301 " * 5]
    gold = jsonl(
        tmp_path / "g.jsonl", [{"id": f"d{n}", "text": t, "labels": ["a"]} for n, t in enumerate(texts)]
    )
    found = Truth.read(gold).excerpts([3, 0, 1, 0], 4)
    assert found == {0: "firs...", 1: "xxxx...", 3: "caf..."}
