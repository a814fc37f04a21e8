"""Case: config values that look like syntax. Paths and texts pass through unharmed, whatever is in them."""

import json
from pathlib import Path

import pytest

from xmc.cli import main

FOLDERS = [
    "a=b,c#1",
    "@x y",
    "${oc.env:HOME}",
    "[1]",
    "top_k=5",
    "ships|boats 50%",
    "قانون",
    "'q\"",
    "a\\b",
    "???",
]


@pytest.mark.parametrize("name", FOLDERS)
def test_paths_with_any_character(name, tmp_path, monkeypatch, capsys):
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    labels, docs, out = "@l x=1.jsonl", f"@x {name}.jsonl", f"o {name}.jsonl"
    Path(labels).write_text('{"id": "L=1,#@", "text": "ships|boats 50%"}\n', encoding="utf-8")
    Path(docs).write_text('{"id": "d", "text": "ships and boats", "labels": ["L=1,#@"]}\n', encoding="utf-8")
    labels, docs, out = (str(folder / f) for f in (labels, docs, out))
    assert main(["inspect", labels, docs]) == 0
    assert main(["index", "--labels", labels, "--docs", docs, "-o", f"m {name}", "preset=fast"]) == 0
    assert main(["tag", "--model", f"m {name}", "--docs", docs, "-o", out]) == 0
    found = json.loads(Path(out).read_text(encoding="utf-8"))
    assert found["suggestions"][0]["id"] == "L=1,#@"
    assert found["suggestions"][0]["text"] == "ships|boats 50%"
    assert main(["eval", "--gold", docs, "--pred", out, "--labels", labels, "eval.resamples=0"]) == 0


def test_a_file_in_this_folder_named_like_a_setting(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("encoding=x.tsv").write_text("L1\tair transport\n")
    assert main(["inspect", "encoding=x.tsv"]) == 0
    assert main(["inspect", "./encoding=x.tsv"]) == 0
    assert main(["inspect", "encoding=x.csv"]) == 2
    assert "encoding=x.csv" in capsys.readouterr().err
