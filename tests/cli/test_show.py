"""scripts/show.py makes suggestions readable."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "show.py"


def lines(records):
    return "".join(json.dumps(r) + "\n" for r in records)


def test_titles_gold_labels_and_suggestions_with_scores(tmp_path):
    labels, gold, pred = tmp_path / "labels.jsonl.gz", tmp_path / "gold.jsonl", tmp_path / "pred.jsonl"
    labels.write_bytes(gzip.compress(lines([{"id": "L1", "text": "air transport"}]).encode()))
    gold.write_text(lines([{"id": "d1", "text": "A title\u2028here\nAbstract", "labels": ["L1", "L9"]}] * 3))
    suggestions = [
        {"id": "L1", "text": "air transport", "score": 0.5},
        {"id": "L2", "text": "x", "score": 0.25},
    ]
    pred.write_text(lines([{"id": "d1", "suggestions": suggestions}] * 3))
    files = ["--labels", str(labels), "--gold", str(gold), "--pred", str(pred)]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *files, "--documents", "1"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
        env={"PYTHONUTF8": "1"},
    )
    assert done.stdout.rstrip().split("\n") == [
        "d1  A title here",
        "    gold       air transport",
        "    gold       L9",
        "        0.500✓ air transport",
        "        0.250  x",
    ]
