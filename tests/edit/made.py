"""A small model of words alone, and what it suggests, for tests that change it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.cases.corpus_t import docs_file, index, labels_file, synthetic
from xmc.data.labels import LabelSet
from xmc.data.records import Label
from xmc.edit.fold import refolded
from xmc.model import Model
from xmc.tag.tagger import Tagger

N_LABELS, N_DOCS = 40, 90
ALL_LABELS, ALL_DOCS = synthetic(N_LABELS + 5, N_DOCS + 10, seed=3)
LABELS, NEW_LABELS = ALL_LABELS[:N_LABELS], ALL_LABELS[N_LABELS:]


def among(ids: set[str], docs: list) -> list:
    """The documents with only the labels that are in ``ids``."""
    return [(i, text, [label for label in found if label in ids]) for i, text, found in docs]


DOCS = among({i for i, _ in LABELS}, ALL_DOCS[:N_DOCS])
NEW_DOCS = among({i for i, _ in LABELS}, ALL_DOCS[N_DOCS:])


def made(folder: Path, *more: str, labels=LABELS, docs=DOCS) -> Path:
    """A model directory."""
    paths = [docs_file(folder / "docs.jsonl", docs)] if docs else []
    more = more or ("preset=fast",)
    return index(folder / "model", labels_file(folder / "labels.jsonl", labels), *paths, more=more)


def label_set(labels=NEW_LABELS) -> LabelSet:
    return LabelSet.from_records(Label(i, t) for i, t in labels)


def suggested(model: Model, texts: list[str], top_k: int = 1000) -> list[dict[str, float]]:
    """Every suggestion for each text, with its score."""
    return [{s.id: s.score for s in found} for found in Tagger(model).tag(texts, top_k)]


def vectors(model: Model) -> np.ndarray:
    """(n_labels, dim + 1) the labels' vectors; zero rows where there is none."""
    rows = np.arange(len(model.labels))
    known = model.index.has(rows)
    out = np.zeros((len(rows), model.index.dim), np.float32)
    out[known] = model.index.vectors(rows[known])
    return out


def folded_anew(model: Model) -> np.ndarray:
    """The same, all of them folded from the texts and the documents in memory, as building does."""
    return vectors(refolded(model, np.arange(len(model.labels)), model))
