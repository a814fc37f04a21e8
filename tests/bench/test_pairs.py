"""Rows of a suite compared by pairs, as `benchmarks/suite.sh` leaves them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="not a checkout")


def documents(path, n):
    lines = [{"id": f"{path.stem}{i}", "text": "t", "labels": [f"L{i % 2}"]} for i in range(n)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def row(out, name, system, ndcg, right):
    """A row's line and its suggestions for ten documents, of which the first ``right`` are right."""
    (out / name).mkdir(parents=True)
    found = [
        {"id": f"dev{i}", "suggestions": [{"id": f"L{(i + (i >= right)) % 2}", "score": 1}]}
        for i in range(10)
    ]
    (out / name / "predictions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in found))
    line = {
        "target": "debtags",
        "split": "dev",
        "system": system,
        "settings": ["eval.resamples=200"],
        "seed": 0,
    }
    line |= {"time": name, "metrics": {"nDCG@5": [ndcg]}}
    (out / f"{name}.json").write_text(json.dumps(line))


def test_our_best_row_is_compared_with_each_peer(tmp_path):
    data, out = tmp_path / "data" / "debtags", tmp_path / "out" / "debtags"
    data.mkdir(parents=True)
    documents(data / "train.jsonl", 4)
    documents(data / "dev.jsonl", 10)
    (data / "labels.tsv").write_text("L0\tair\nL1\tsea\n")
    row(out, "train", "xmc train", 100, 10)
    row(out, "index", "xmc index", 90, 9)
    row(out, "peer", "peer", 20, 2)
    (out / "failed.json").write_text("")
    command = [sys.executable, BENCHMARKS / "pairs.py", tmp_path / "data", tmp_path / "out"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (pair,) = map(json.loads, (tmp_path / "out" / "pairs.jsonl").read_text().splitlines())
    assert pair["ours"] == ["debtags", "dev", "xmc train", "eval.resamples=200", "train"]
    assert pair["peer"] == ["debtags", "dev", "peer", "eval.resamples=200", "peer"]
    value, low, high = pair["differences"]["nDCG@5"]
    assert value == pytest.approx(80)
    assert 30 < low < value < high
    assert pair["resamples"] == 200
