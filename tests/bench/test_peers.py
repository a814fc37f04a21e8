"""The peers that need nothing but scikit-learn, from documents to suggestions that `xmc eval` reads."""

import gzip
import importlib.util
import json
import os
import subprocess
import sys
import zipfile
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
    (folder / "labels.tsv").write_text("".join(f"{topic}\t{topic}\n" for topic in TOPICS))
    return folder


def run(monkeypatch, script, *arguments):
    monkeypatch.syspath_prepend(str(PEERS))
    monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
    spec = importlib.util.spec_from_file_location("__main__", PEERS / script)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def given(tmp_path, *arguments):
    """What `documents.py` hands to the peers."""
    command = [sys.executable, PEERS / "documents.py", *arguments, "-o", tmp_path / "given"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return tmp_path / "given"


def test_documents_in_and_suggestions_out(monkeypatch, corpora, tmp_path):
    pytest.importorskip("sklearn")
    train, dev, out = corpora / "train.jsonl.gz", corpora / "dev.jsonl.gz", tmp_path / "out.jsonl"
    folder = given(tmp_path, "--docs", train, "--labels", corpora / "labels.tsv", "--judged", dev)
    model = tmp_path / "model"
    run(monkeypatch, "linear.py", "build", "--docs", folder / "train.jsonl", "-o", model)
    run(monkeypatch, "linear.py", "tag", "--model", model, "--docs", folder / "judged.jsonl", "-o", out)
    found = evaluate_files(dev, out, train)
    assert found.value("P@1") == 1
    assert found.counts["documents without a prediction line (misses)"] == 0


def test_a_row_of_a_peer(corpora, tmp_path):
    pytest.importorskip("sklearn")
    python = tmp_path / "environments" / "linear" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    command = [sys.executable, PEERS / "run.py", "tfidf-neighbours", corpora, "-o", tmp_path / "out"]
    command += ["--environments", tmp_path / "environments"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert (line["system"], line["target"], line["metrics"]["P@1"][0]) == (
        "tfidf-neighbours",
        str(corpora),
        100,
    )
    assert list(line["stages"]) == ["documents", "build", "tag", "eval"]


def test_settings_are_tuned_on_training_documents_and_not_tried_twice(corpora, tmp_path):
    pytest.importorskip("sklearn")
    folder = given(
        tmp_path,
        "--docs",
        corpora / "train.jsonl.gz",
        "--labels",
        corpora / "labels.tsv",
        "--judged",
        corpora / "dev.jsonl.gz",
    )
    python = tmp_path / "environments" / "linear" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/ran\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    command = [sys.executable, PEERS / "tune.py", "tfidf-neighbours", folder, "-o", tmp_path / "out"]
    command += ["--environments", tmp_path / "environments", "ngrams=1,2"]
    for _ in range(2):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    tuned = [json.loads(line) for line in (tmp_path / "out" / "tuned.jsonl").read_text().splitlines()]
    assert [line["settings"] for line in tuned] == [["--ngrams", "1"], ["--ngrams", "2"]]
    assert all(line["P@1"] == 100 and line["build_cpu_s"] > 0 for line in tuned)
    assert len((tmp_path / "ran").read_text().splitlines()) == 4
    held_out = [
        json.loads(line)["id"] for line in (tmp_path / "out" / "judged.jsonl").read_text().splitlines()
    ]
    assert held_out[:2] == ["train4", "train9"]
    refused = subprocess.run([*command[:-1], "ngrams="], check=False, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "wanted NAME=VALUE" in refused.stderr


def test_titles_empty_texts_and_folders_are_given_as_xmc_reads_them(monkeypatch, tmp_path):
    (tmp_path / "train").mkdir()
    documents = [
        {"id": "d1", "title": "Wings", "text": "of air", "labels": ["L1", "L2"]},
        {"id": "d2", "text": None, "labels": ["L2"]},
    ]
    for n, each in enumerate(documents):
        (tmp_path / "train" / f"{n}.jsonl").write_text(json.dumps(each) + "\n")
    (tmp_path / "dev.csv").write_text("id,title,text,labels\nd3,Boats,at sea,L1\n")
    (tmp_path / "labels.tsv").write_text("L1\tair\nL2\tsea\n")
    (tmp_path / "filter.txt").write_text("0 1\n")
    named = ("--docs", "train", "--judged", "dev.csv", "--labels", "labels.tsv", "--filter", "filter.txt")
    folder = given(tmp_path, *(a if a.startswith("--") else tmp_path / a for a in named))
    monkeypatch.syspath_prepend(str(PEERS))
    from common import lines_of, read

    found = read(str(folder / "train.jsonl"))
    assert (found.ids, found.texts, found.labels) == (["d1", "d2"], ["Wings\nof air", ""], [["L1"], ["L2"]])
    assert read(str(folder / "judged.jsonl")).texts == ["Boats\nat sea"]
    assert read(str(folder / "judged.jsonl")).labels == [[]]
    assert [(label["id"], label["text"]) for label in lines_of(str(folder / "labels.jsonl"))] == [
        ("L1", "air"),
        ("L2", "sea"),
    ]


def test_rows_of_features_keep_their_numbers(monkeypatch, tmp_path, capsys):
    (tmp_path / "train.txt").write_text("3 2 3\n0,2 0:1 1:0.5\n 1:2\n1 \n")
    folder = given(tmp_path, "--docs", tmp_path / "train.txt", "--judged", tmp_path / "train.txt")
    monkeypatch.syspath_prepend(str(PEERS))
    from common import read, texts_of

    found = read(str(folder / "train.jsonl"))
    assert found.ids == ["1", "2", "3"]
    assert found.labels == [["0", "2"], [], ["1"]]
    assert found.features.toarray().tolist() == [[1, 0.5], [0, 2], [0, 0]]
    with pytest.raises(SystemExit, match="2"):
        texts_of(found)
    assert "rows of features; this peer wants texts" in capsys.readouterr().err


def fake_python(path, *cases):
    """Stands for the interpreter that makes an environment; ``cases``: of what it is asked besides."""
    made = 'if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; exit; fi\n'
    path.write_text("#!/bin/sh\n" + made + "".join(f"{case}\n" for case in cases))
    path.chmod(0o755)
    return os.environ | {"PYTHON": str(path), "ENVIRONMENTS": str(path.parent / "environments")}


def test_what_stands_alone_is_installed_without_what_it_asks_for(tmp_path):
    said = tmp_path / "said"
    settings = fake_python(tmp_path / "python", f'echo "$@" >> {said}')
    for peer in ("linear", "pecos"):
        subprocess.run(["bash", PEERS / "setup.sh", peer], env=settings, check=True)
    installed = [line.split("--quiet ")[1] for line in said.read_text().splitlines()]
    assert installed == [
        f"--requirement {PEERS}/requirements/linear.txt",
        f"--requirement {PEERS}/requirements/pecos.txt",
        f"--no-deps --requirement {PEERS}/requirements/pecos.alone.txt",
    ]


@pytest.mark.parametrize("answers", [True, False])
def test_data_of_nltk_lie_in_the_environment_also_without_its_server(tmp_path, answers):
    carried = tmp_path / "carrier.whl"
    with zipfile.ZipFile(carried, "w") as wheel:
        wheel.writestr("llama_index/core/_static/nltk_cache/tokenizers/punkt_tab/README", "from the wheel")
    settings = fake_python(
        tmp_path / "python",
        f'if [ "$1" = -c ]; then exit {0 if answers else 1}; fi',
        f'if [ "$3" = download ]; then cp {carried} "$7"; fi',
        f'if [ "$2" = zipfile ]; then exec {sys.executable} "$@"; fi',
    )
    done = subprocess.run(
        ["bash", PEERS / "setup.sh", "annif"], env=settings, check=True, capture_output=True, text=True
    )
    data = tmp_path / "environments" / "annif" / "nltk_data" / "tokenizers" / "punkt_tab" / "README"
    assert data.exists() == ("taken out of a wheel" in done.stderr) == (not answers)
