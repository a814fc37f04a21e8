"""Corpus T of the list of cases, and all commands on it in this process."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from xmc.artifacts import ArtifactWriter
from xmc.cli import main

LABELS = [("L1", "air transport"), ("L2", "fisheries"), ("L3", "قانون"), ("L4", "budget, annual")]
DOCS: list[tuple[str, str, list[str]]] = [
    ("d1", "Air transport between the islands", ["L1"]),
    ("d2", "Fisheries and the annual budget", ["L2", "L4"]),
    ("d3", "قانون البحر", ["L3"]),
    ("d4", "The budget of the fleet", ["L4"]),
    ("d5", "Fisheries in the north", ["L2"]),
]


def jsonl(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), encoding="utf-8")
    return path


def labels_file(path: Path, labels: Iterable[tuple[str, str]] = LABELS, **more: Any) -> Path:
    return jsonl(path, ({"id": i, "text": t, **more} for i, t in labels))


def docs_file(path: Path, docs: Iterable[tuple[str, str, list[str]]] = DOCS) -> Path:
    return jsonl(path, ({"id": i, "text": t, "labels": found} for i, t, found in docs))


def xmc(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def index(out: Path, labels: Path | None, *docs: Path, more: Iterable[str] = ("preset=fast",)) -> Path:
    named = [] if labels is None else ["--labels", labels]
    assert xmc("index", *named, *(["--docs", *docs] if docs else []), "-o", out, *more) == 0
    return out


def tag(model: Path, docs: Path, out: Path, *more: object) -> dict[str, dict[str, Any]]:
    """What is written for each document, by id and in order."""
    assert xmc("tag", "--model", model, "--docs", docs, "-o", out, *more) == 0
    lines = out.read_text(encoding="utf-8").split("\n")
    return {found["id"]: found for found in map(json.loads, filter(None, lines))}


def ids(found: dict[str, Any]) -> list[str]:
    return [suggestion["id"] for suggestion in found["suggestions"]]


def forged(model: Path, out: Path, change: Callable[[Path], object]) -> Path:
    """A copy of a model with a change that its manifest vouches for."""
    with ArtifactWriter(out, "model", built_by="xmc index") as writer:
        shutil.copytree(model, writer.path, dirs_exist_ok=True)
        (writer.path / "manifest.json").unlink()
        change(writer.path)
    return out


def data_files(model: Path) -> dict[str, bytes]:
    """The bytes of every file of a model but its manifest, which holds the time of building."""
    files = (p for p in model.rglob("*") if p.is_file() and p.name != "manifest.json")
    return {p.relative_to(model).as_posix(): p.read_bytes() for p in files}


def synthetic(n_labels: int, n_docs: int, seed: int = 0) -> tuple[list[tuple[str, str]], list[Any]]:
    """Labels of a word of their own and a shared one, and documents that hold the words of one to three."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghiklmnoprstuvz", k=7)) for _ in range(n_labels + 40)]
    labels = [(f"L{i}", f"{words[i]} {words[n_labels + i % 10]}") for i in range(n_labels)]
    docs = []
    for i in range(n_docs):
        gold = draw.sample(range(n_labels), draw.randint(1, 3))
        text = [word for row in gold for word in labels[row][1].split()] + draw.choices(
            words[n_labels:], k=12
        )
        draw.shuffle(text)
        docs.append((f"d{i}", " ".join(text), [f"L{row}" for row in gold]))
    return labels, docs
