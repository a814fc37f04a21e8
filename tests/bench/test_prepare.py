"""`scripts/prepare_data.py`: published files into what is measured, and checked."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.test_layout import PUBLISHED, put

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "prepare_data.py"
pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason="not a checkout")


def prepare(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_raw_text_of_the_repository_becomes_json_lines(tmp_path):
    done = prepare("-", put(tmp_path / "down", PUBLISHED["raw text of the repository"]), tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "1 train, 1 test" in done.stdout
    assert lines(tmp_path / "out" / "train.jsonl.gz") == [
        {"id": "0001", "text": "Ballet shoes", "labels": ["0590", "0007"]}
    ]
    assert lines(tmp_path / "out" / "labels.jsonl.gz")[0] == {"id": "0590", "text": "Girls Ballet Tutu"}
    assert (tmp_path / "out" / "filter-test.txt").read_text() == "0 0\n"
    assert {path.name for path in tmp_path.iterdir()} == {"down", "out"}
    again = prepare("-", tmp_path / "down", tmp_path / "out")
    assert again.returncode == 2
    assert "exists; wanted a new folder" in again.stderr


def test_other_counts_leave_no_folder_and_features_are_only_checked(tmp_path):
    down = put(tmp_path / "down", PUBLISHED["features of the repository"])
    kept = put(tmp_path / "out.part", {"notes.txt": "a user's own"})
    wrong = prepare("bibtex", down, tmp_path / "out")
    assert wrong.returncode == 2
    assert "found 2 train documents, published are 4,880" in wrong.stderr
    assert prepare("-", down, tmp_path / "out").returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"down", "out.part"}
    assert (kept / "notes.txt").is_file()
