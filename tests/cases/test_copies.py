"""Documents that are copies of remembered ones: what these have is suggested, however few there are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from xmc.build import build_model
from xmc.settings import BuildSettings, EncoderSettings
from xmc.tag.tagger import Tagger

SAMPLE = Path(__file__).parents[2] / "benchmarks/data/tib-core-en"


def read(name: str, n: int | None = None) -> list[dict]:
    with gzip.open(SAMPLE / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line, _ in zip(lines, range(n or 10**9), strict=False)]


def write(path: Path, items: list[dict]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


@pytest.mark.parametrize("n_docs", [60, 220, 900])
def test_a_copy_gets_the_labels_of_the_document(n_docs, tmp_path):
    docs = read("train", n_docs)
    used = {label for doc in docs for label in doc["labels"]}
    labels = [label for i, label in enumerate(read("labels")) if label["id"] in used or not i % 300]
    paths = write(tmp_path / "labels.jsonl", labels), write(tmp_path / "docs.jsonl", docs)
    settings = BuildSettings(encoder=EncoderSettings(dense="none"))
    build_model(paths[0], [paths[1]], None, tmp_path / "model", settings)
    some = docs[:40]
    found = Tagger.load(tmp_path / "model").tag([doc["text"] for doc in some], top_k=10)
    wanted = [set(doc["labels"]) for doc in some]
    first = [row[0].id in gold for row, gold in zip(found, wanted, strict=True)]
    n_missed = sum(len(gold - {each.id for each in row}) for row, gold in zip(found, wanted, strict=True))
    assert sum(first) >= 36
    assert n_missed <= 0.1 * sum(map(len, wanted))
