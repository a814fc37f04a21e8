"""The peers that need nothing but scikit-learn, from documents to suggestions that `xmc eval` reads."""

import gzip
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from xmc.evaluate.run import evaluate_files

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
pytestmark = pytest.mark.skipif(not PEERS.is_dir(), reason="not a checkout")
TOPICS = {"air": "flight airport wing", "sea": "fish boat harbour", "law": "court judge verdict"}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("peers"), np.random.default_rng(0)
    for name, n in (("train", 90), ("dev", 12)):
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as out:
            for i in range(n):
                topic = list(TOPICS)[i % 3]
                text = " ".join(rng.choice(TOPICS[topic].split(), 6))
                out.write(json.dumps({"id": f"{name}{i}", "text": text, "labels": [topic]}) + "\n")
    return folder


def run(monkeypatch, script, *arguments):
    monkeypatch.syspath_prepend(str(PEERS))
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    spec = importlib.util.spec_from_file_location("__main__", PEERS / script)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("script", ["linear.py", "neighbours.py"])
def test_documents_in_and_suggestions_out(monkeypatch, corpora, tmp_path, script):
    pytest.importorskip("sklearn")
    run(monkeypatch, script, "build", "--docs", corpora / "train.jsonl.gz", "-o", tmp_path / "model")
    out = tmp_path / "out.jsonl"
    run(
        monkeypatch,
        script,
        "tag",
        "--model",
        tmp_path / "model",
        "--docs",
        corpora / "dev.jsonl.gz",
        "-o",
        out,
    )
    found = evaluate_files(corpora / "dev.jsonl.gz", out, corpora / "train.jsonl.gz")
    assert found.value("P@1") == 1
    assert found.counts["documents without a prediction line (misses)"] == 0


def test_rows_of_features_keep_their_numbers(monkeypatch, tmp_path):
    (tmp_path / "train.txt").write_text("3 2 3\n0,2 0:1 1:0.5\n 1:2\n1 \n")
    monkeypatch.syspath_prepend(str(PEERS))
    from common import read

    found = read(str(tmp_path / "train.txt"))
    assert found.ids == ["1", "2", "3"]
    assert found.labels == [["0", "2"], [], ["1"]]
    assert found.features.toarray().tolist() == [[1, 0.5], [0, 2], [0, 0]]
