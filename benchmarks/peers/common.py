"""What every peer shares: documents in, TF-IDF features, suggestions out; with scikit-learn, without xmc.

Documents and labels are what `documents.py` makes of a data set.
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

TOP_K = 100
Option = int | float | str


@dataclass
class Documents:
    """Ids, texts or features (n_docs, n_features), and label ids of each."""

    ids: list[str]
    texts: list[str] | None
    features: sp.csr_matrix | None
    labels: list[list[str]]


def read(path: str) -> Documents:
    """The documents of one file, with the features in the .npz beside it where they have no text."""
    found = lines_of(path)
    features = Path(path).with_suffix(".npz")
    rows = sp.csr_matrix(sp.load_npz(features)) if features.exists() else None
    texts = [d["text"] for d in found] if rows is None else None
    return Documents([d["id"] for d in found], texts, rows, [d["labels"] for d in found])


def lines_of(path: str) -> list[dict[str, Any]]:
    """The records of a file of JSON lines, as labels are too (`id`, `text`, `alt`, `broader`)."""
    with Path(path).open("rb") as file:
        return [json.loads(line) for line in file]


def texts_of(documents: Documents) -> list[str]:
    """The documents' texts, for a peer that can do nothing with rows of features."""
    if documents.texts is None:
        print("error: the documents are rows of features; this peer wants texts", file=sys.stderr)
        sys.exit(2)
    return documents.texts


# Options of building that every peer has which learns from words: the training documents that a feature must
# occur in, and the words of the longest feature.
FEATURES: dict[str, Option] = {"min_df": 2, "ngrams": 1}


class Features:
    """Unit rows of TF-IDF: words and word n-grams, or given features, weighted likewise."""

    def __init__(self, documents: Documents, options: argparse.Namespace) -> None:
        from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer

        if documents.texts is None:
            self.made = TfidfTransformer(sublinear_tf=True)
        else:
            words = {"min_df": options.min_df, "ngram_range": (1, options.ngrams)}
            self.made = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **words)
        self.made.fit(self._input(documents))

    def of(self, documents: Documents) -> sp.csr_matrix:
        """(n_docs, n_features) float32."""
        return sp.csr_matrix(self.made.transform(self._input(documents)), dtype=np.float32)

    @staticmethod
    def _input(documents: Documents) -> Any:
        return documents.features if documents.texts is None else documents.texts


def label_matrix(labels: Sequence[Sequence[str]]) -> tuple[sp.csr_matrix, list[str]]:
    """(n_docs, n_labels) of the labels that occur, and their ids by column."""
    names = sorted({label for each in labels for label in each})
    column = {name: n for n, name in enumerate(names)}
    indices = [column[label] for each in labels for label in each]
    indptr = np.cumsum([0, *map(len, labels)])
    ones = np.ones(len(indices), dtype=np.float32)
    return sp.csr_matrix((ones, indices, indptr), shape=(len(labels), len(names))), names


def best(scores: np.ndarray, k: int = TOP_K) -> list[tuple[int, float]]:
    """The ``k`` best columns of one row of scores, best first; equal ones in the order of columns."""
    order = np.argsort(-scores, kind="stable")[:k]
    return [(int(column), float(scores[column])) for column in order]


Ranked = list[tuple[int, float]]


def write(path: str, ids: Sequence[str], names: Sequence[str], ranked: Iterable[Ranked]) -> None:
    """Suggestions as `xmc eval` reads them."""
    with Path(path).open("w", encoding="utf-8") as out:
        for doc_id, pairs in zip(ids, ranked, strict=True):
            found = [{"id": names[column], "score": score} for column, score in pairs]
            out.write(json.dumps({"id": doc_id, "suggestions": found}, ensure_ascii=False) + "\n")


def save(folder: Path, **parts: Any) -> None:
    """Keep the parts of a model; pickle, as these are this machine's own files of one benchmark run."""
    with (folder / "parts.pickle").open("wb") as file:
        pickle.dump(parts, file)


def load(folder: Path) -> dict[str, Any]:
    """What `save` kept."""
    with (folder / "parts.pickle").open("rb") as file:
        return pickle.load(file)


def main(build: Callable[..., None], tag: Callable[..., Iterable[Ranked]], **options: Option) -> None:
    """``build --docs F -o MODEL`` and ``tag --model MODEL --docs F -o OUT``.

    ``options``: those of build, with defaults, whose types they have. ``build(documents, folder, options)``
    leaves a model in ``folder``, ``tag(documents, folder, parts)`` gives the ranked columns of each document;
    ``parts`` must hold the label ids as ``names``.
    """
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("build", "tag"):
        command = commands.add_parser(name)
        command.add_argument("--docs", required=True)
        command.add_argument("-o", "--out", required=True)
        for option, default in options.items() if name == "build" else ():
            command.add_argument(f"--{option}", type=type(default), default=default)
    commands.choices["tag"].add_argument("--model", required=True)
    args = parser.parse_args()
    documents = read(args.docs)
    if args.command == "build":
        Path(args.out).mkdir(parents=True, exist_ok=True)
        build(documents, Path(args.out), args)
    else:
        parts = load(Path(args.model))
        write(args.out, documents.ids, parts["names"], tag(documents, Path(args.model), parts))
