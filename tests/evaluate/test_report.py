import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from worked_case import FREQUENCY, GOLD, PRED, gold_matrix, ranked_of

from xmc.errors import InputError, ResourceError
from xmc.evaluate.evaluation import EvalSettings, LabelNames, evaluate
from xmc.evaluate.page import Findings, page
from xmc.evaluate.report import label_csv, markdown, record, text, write

IDS = ["a", "=1+1", "<c>", "d|d", "e", "-f"]
TEXTS = ["air", "@SUM(A1)", "<script>alert(1)</script>", "", "e", "قانون"]


@pytest.fixture
def evaluation():
    settings = EvalSettings(resamples=50)
    e = evaluate(gold_matrix(GOLD, 6), ranked_of(PRED), FREQUENCY, 1000, settings)
    note = "1 document had <b>markup|</b> (x\x1b[31m\u202ey:3)"
    return replace(e, names=LabelNames(IDS, TEXTS), sources={"gold": "/data/<i>|x.jsonl"}, notes=(note,))


def test_the_text_shows_every_count_bin_and_headline(evaluation):
    shown = text(evaluation)
    for expected in (
        "documents without suggestions (misses)",
        "PSnDCG",
        "33.33",
        "zero: no training document",
    ):
        assert expected in shown
    assert "95 % intervals, 50 bootstrap samples" in shown
    assert "best (score >= 0.7)" in shown
    assert "54.55" in shown
    assert all(line == line.rstrip() or line.startswith(" ") for line in shown.splitlines())
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\x1b" in shown


def test_without_training_documents_bins_and_propensities_are_not_shown(gold, ranked):
    shown = text(evaluate(gold, ranked, settings=EvalSettings(resamples=0)))
    assert "PSP" not in shown
    assert "training frequency" not in shown
    assert "interval" not in shown


def test_what_is_not_defined_is_a_dash_and_null():
    e = evaluate(gold_matrix([[]], 2), ranked_of([[]]))
    assert "nan" not in text(e)
    assert "–" in text(e)
    assert record(e)["metrics"]["P@1"] is None


def test_json_has_percentages_and_can_be_read_by_anyone(evaluation, tmp_path):
    write(Findings(evaluation), tmp_path)
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert found["unit"] == "percent"
    assert found["metrics"]["P@1"] == pytest.approx(100 / 3)
    assert found["metrics"]["R@3[zero]"] == pytest.approx(50)
    low, high = found["intervals"]["P@1"]
    assert low <= found["metrics"]["P@1"] <= high
    assert found["bins"]["zero"] == {"meaning": "no training document", "labels": 2, "gold": 2}
    assert found["settings"]["propensity_a"] == 0.55
    assert found["thresholds"]["micro_f1_best"] == 0.7


def test_markdown_and_html_show_names_as_text(evaluation):
    for shown in (markdown(Findings(evaluation)), page(Findings(evaluation))):
        assert "<b>" not in shown
        assert "<i>" not in shown
        assert "&lt;b&gt;" in shown
        assert "\u202e" not in shown
    tables = [line for line in markdown(Findings(evaluation)).splitlines() if line.startswith("|")]
    columns = {line.replace("\\|", "").count("|") for line in tables[:8]}
    assert columns == {3}
    assert "\\|x.jsonl" in markdown(Findings(evaluation))


def test_every_number_of_every_bin_is_in_markdown_and_html(evaluation):
    for shown in (markdown(Findings(evaluation)), page(Findings(evaluation))):
        assert "few: 1 to 49 training documents, by rank" in shown
        assert "PSnDCG@5" in shown  # among the intervals


def test_the_label_table_escapes_formulas_and_counts(evaluation):
    rows = list(csv.DictReader(io.StringIO(label_csv(evaluation), newline="")))
    by_id = {row["id"]: row for row in rows}
    assert next(iter(by_id)) == "'=1+1"  # gold twice: the most frequent comes first
    assert by_id["'=1+1"]["text"] == "'@SUM(A1)"
    assert by_id["'-f"]["text"] == "قانون"
    assert by_id["a"] == {
        "id": "a",
        "text": "air",
        "bin": "frequent",
        "train_documents": "60",
        "gold": "1",
        "suggested@5": "2",
        "hits@5": "1",
        "precision@5": "0.5000",
        "recall@5": "1.0000",
        "f1@5": "0.6667",
    }
    assert by_id["e"]["recall@5"] == ""  # never gold: nothing to recall


def test_labels_that_do_not_occur_are_left_out_of_the_label_table(gold, ranked):
    wide = gold_matrix(GOLD, 1000)
    rows = label_csv(evaluate(wide, ranked, np.zeros(1000, int), 5, EvalSettings(resamples=0))).splitlines()
    assert len(rows) == 1 + 6


def test_writing_again_replaces_and_leaves_nothing_else(evaluation, tmp_path):
    folder = tmp_path / "a" / "report"
    for _ in range(2):
        write(Findings(evaluation), folder)
    assert sorted(p.name for p in folder.iterdir()) == [
        "labels.csv",
        "report.html",
        "report.json",
        "report.md",
    ]


def test_a_file_in_the_place_of_the_directory(evaluation, tmp_path):
    (tmp_path / "report").write_text("mine")
    with pytest.raises(InputError, match="is a file; --report wants a directory"):
        write(Findings(evaluation), tmp_path / "report")
    with pytest.raises(InputError, match="is a file"):
        write(Findings(evaluation), tmp_path / "report" / "below")
    assert (tmp_path / "report").read_text() == "mine"


def test_a_place_that_cannot_be_written(evaluation, tmp_path):
    with pytest.raises(ResourceError, match="the report needs"):
        write(Findings(evaluation), "/proc/xmc-report")
