"""`xmc bench` from end to end on real documents: the row, the results file, and going on where it stopped."""

import gzip
import hashlib
import json
import shutil
from itertools import islice
from pathlib import Path

import pytest

from xmc.artifacts.staging import Staging
from xmc.cli import main

SAMPLE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "tib-core-en"
pytestmark = pytest.mark.skipif(not SAMPLE.is_dir(), reason="not a checkout")


def some(name, n, folder):
    with gzip.open(SAMPLE / name, "rb") as file, gzip.open(folder / name, "wb") as out:
        out.writelines(islice(file, n))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """80 documents, and the labels that occur in them."""
    folder = tmp_path_factory.mktemp("few")
    some("train.jsonl.gz", 60, folder)
    some("dev.jsonl.gz", 20, folder)
    used = set()
    for name in ("train", "dev"):
        with gzip.open(folder / f"{name}.jsonl.gz", "rb") as file:
            used.update(label for line in file for label in json.loads(line)["labels"])
    with (
        gzip.open(SAMPLE / "labels.jsonl.gz", "rb") as file,
        gzip.open(folder / "labels.jsonl.gz", "wb") as out,
    ):
        out.writelines(line for line in file if json.loads(line)["id"] in used)
    return folder


def test_a_row_and_the_same_again(folder, tmp_path, capsys):
    results = tmp_path / "results.jsonl"
    command = ["bench", str(folder), "-o", str(tmp_path / "out"), "--results", str(results)]
    command += ["preset=fast", "bench.system=index", "eval.resamples=20", "threads=1"]
    assert main(command) == 0
    line = json.loads(capsys.readouterr().out)
    assert json.loads(results.read_text(encoding="utf-8")) == line
    assert (line["data"], line["split"], line["system"]) == (folder.name, "dev", "xmc index")
    assert line["settings"] == command[-4:]
    assert line["target"] == str(folder)
    assert (line["documents"], line["training_documents"]) == (20, 60)
    value, low, high = line["metrics"]["nDCG@5"]
    assert low <= value <= high
    assert "R@50[zero]" in line["metrics"]
    for cost in line["stages"].values():
        assert cost["cpu_s"] > 0
        assert cost["peak_kib"] > 10_000
    assert line["model_bytes"] > 10_000
    assert line["versions"]["xmc"]
    assert line["files"]["dev"] == hashlib.sha256((folder / "dev.jsonl.gz").read_bytes()).hexdigest()
    assert set(line["files"]) == {"train", "dev", "labels"}

    # A stage that was cut off took up its own work: what it cost in all is not known.
    (tmp_path / "out" / "tag.cost.json").rename(tmp_path / "out" / "tag.begun")
    made = (tmp_path / "out" / "model" / "manifest.json").stat().st_mtime_ns
    assert main([*command, "--report"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (tmp_path / "out" / "report" / "report.html").is_file()
    assert again["metrics"] == line["metrics"]
    assert again["stages"]["build"] == line["stages"]["build"]
    assert again["stages"]["tag"] == {"cpu_s": None, "wall_s": None, "peak_kib": None, "resumed": True}
    assert again["tag_cpu_ms_per_document"] is again["documents_per_second"] is None
    assert again["stages"]["eval"] != line["stages"]["eval"]
    assert (tmp_path / "out" / "model" / "manifest.json").stat().st_mtime_ns == made


def test_names_alone_where_no_document_is_tagged(folder, tmp_path, capsys):
    names = tmp_path / "names"
    names.mkdir()
    for name in ("dev", "labels"):
        shutil.copy(folder / f"{name}.jsonl.gz", names)
    command = [
        "bench",
        str(names),
        "-o",
        str(tmp_path / "out"),
        "preset=fast",
        "eval.resamples=20",
        "threads=1",
    ]
    assert main([*command, "bench.system=index"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["documents"], line["training_documents"]) == (20, 0)
    assert line["metrics"]["R@100"][0] > 0
    assert main([*command, "bench.system=train"]) == 2
    assert "no training documents" in capsys.readouterr().err


def test_a_folder_with_other_files_is_left_alone(folder, tmp_path, capsys):
    (tmp_path / "eval.json").write_text("a user's own")
    assert main(["bench", str(folder), "-o", str(tmp_path), "preset=fast"]) == 2
    assert "holds other files; -o wants a folder, new or of an earlier run" in capsys.readouterr().err
    assert (tmp_path / "eval.json").read_text() == "a user's own"
    assert {path.name for path in tmp_path.iterdir()} == {"eval.json"}


def test_what_is_wrong_is_said_before_anything_is_built(folder, tmp_path, capsys):
    named = tmp_path / "data" / "reuters21578"
    shutil.copytree(folder, named)
    out = tmp_path / "out"
    assert main(["bench", "reuters21578", "--data", str(tmp_path / "data"), "-o", str(out)]) == 2
    assert "found 60 train documents, published are 9,603" in capsys.readouterr().err
    assert not (out / "model").exists()
    assert main(["bench", "-o", str(out)]) == 2
    assert "0 data sets given" in capsys.readouterr().err
    assert main(["bench", str(folder), "-o", str(out), "bench.system=magic"]) == 2
    assert "bench.system=magic: wanted one of train, index" in capsys.readouterr().err


def test_a_second_benchmark_in_one_folder_is_refused(folder, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    with Staging(tmp_path / "out").locked():
        assert main(["bench", str(folder), "-o", str(tmp_path / "out")]) == 3
    assert "another xmc process is writing it" in capsys.readouterr().err
    assert not any((tmp_path / "out").iterdir())
