"""`benchmarks/suite.sh`: which rows it makes, and that it goes on where it stopped."""

import os
import subprocess
from pathlib import Path

import pytest

SUITE = Path(__file__).resolve().parents[2] / "benchmarks" / "suite.sh"
pytestmark = pytest.mark.skipif(not SUITE.is_file(), reason="not a checkout")


def run(folder, *names, failing="nothing"):
    """Rows that were begun, and the exit code; `python` only notes what it is asked, and fails for some."""
    noted = folder / "noted"
    noted.write_text("")
    (folder / "bin").mkdir(exist_ok=True)
    python = folder / "bin" / "python"
    fails = f'case "$*" in *{failing}*) exit 3;; esac'
    makes = 'while [ $# -gt 1 ]; do [ "$1" = -o ] && mkdir -p "$2"; shift; done; exit 0'
    python.write_text(f'#!/bin/sh\necho "$@" >> {noted}\n{fails}\n{makes}\n')
    python.chmod(0o755)
    paths = os.environ | {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", SUITE, folder / "data", folder / "out", *names], env=paths, check=False)
    return [line.split() for line in noted.read_text().splitlines()], done.returncode


def test_a_row_that_failed_is_made_by_the_next_run_and_no_other(tmp_path):
    first, code = run(tmp_path, "debtags", "reuters21578", failing="pecos-xr-linear*debtags")
    assert code == 1
    assert len(first) == 2 * 14 + 1
    again, code = run(tmp_path, "debtags", "reuters21578")
    assert code == 0
    assert [line[1:3] for line in again[:-1]] == [["pecos-xr-linear", "debtags"]]
    assert again[-1][0].endswith("pairs.py")
    assert len(run(tmp_path, "debtags", "reuters21578")[0]) == 1


def test_bags_of_words_have_no_rows_of_what_reads_texts(tmp_path):
    rows, _ = run(tmp_path, "bibtex")
    asked = " ".join(word for line in rows for word in line)
    assert "preset=fast" in asked
    assert "tfidf-linear-svc" in asked
    for text_only in ("preset=default", "annif", "sentence"):
        assert text_only not in asked


def test_names_alone_are_indexed_and_all_data_sets_have_rows(tmp_path):
    rows, _ = run(tmp_path)
    of = [line for line in rows if "pkg-names-1m" in line]
    assert len(of) == 1
    assert {"preset=fast", "bench.system=index"} <= set(of[0])
    named = {line[3] if line[1] == "xmc" else line[2] for line in rows[:-1]}
    assert {"eurlex57k", "yso-titles-en", "wordnet-hypernyms", "delicious", "tib-core-en"} <= named
