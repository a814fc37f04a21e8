"""Files in, whatever their format: vocabularies, corpora and filter pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xmc.data.corpus import Corpus
from xmc.data.detect import document_format, label_format
from xmc.data.files import text_lines
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.paths import given
from xmc.data.text import shorten
from xmc.errors import InputError, place


def read_labels(
    path: str | Path,
    options: ReadOptions | None = None,
    report: ReadReport | None = None,
    known: LabelSet | None = None,
) -> LabelSet:
    """Read a vocabulary of any known format; ``known``: labels that it may name as broader ones."""
    path, options = Path(path), options or ReadOptions()
    report = report if report is not None else ReadReport()
    options.validate()
    records = label_format(path, options).load().read_labels(path, options, report)
    labels = LabelSet.from_records(records, report, known)
    if not len(labels):
        raise InputError(f"{path}: holds no label; at least one was wanted")
    return labels


def open_corpus(
    paths: Sequence[str | Path],
    options: ReadOptions | None = None,
    report: ReadReport | None = None,
    keep_faults: bool = False,
    max_characters: int | None = None,
) -> Corpus:
    """Documents of one or more files, folders or patterns, of any known format; arguments as of `Corpus`."""
    return Corpus(paths, options, report, keep_faults, max_characters)


def labels_of(
    path: str | Path, options: ReadOptions | None = None, report: ReadReport | None = None
) -> LabelSet | None:
    """The labels of one document file whose format itself says which there are; None where it does not.

    XMC repository files and PECOS matrices do; their modules' ``read_labels`` take a document file too.
    """
    options = options or ReadOptions()
    report = report if report is not None else ReadReport()
    options.validate()
    parts = [part for each in given([path], options, ReadReport()) for part in each.parts]
    if len(parts) > 1 or not (found := document_format(parts[0], options)).defines_labels:
        return None
    return LabelSet.from_records(found.load().read_labels(parts[0], options, report), report)


def read_filter(path: str | Path, options: ReadOptions | None = None) -> np.ndarray:
    """(n_pairs, 2) int64: document row and label row, from 0, of pairs that are not to be suggested.

    The files are the XMC repository's: two numbers a line. They name what follows from the texts alone, such
    as a product that would be suggested for itself.
    """
    path = Path(path)
    pairs = []
    for number, line in text_lines(path, options or ReadOptions()):
        tokens = line.split()
        if not tokens:
            continue
        if len(tokens) != 2 or not all(token.isascii() and token.isdigit() for token in tokens):
            wanted = "two numbers, the rows of a document and a label, were wanted"
            raise InputError(f"{place(path, number)}: found {shorten(line)!r}; {wanted}")
        pairs.append((int(tokens[0]), int(tokens[1])))
    try:
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)
    except OverflowError:
        raise InputError(f"{path}: a row beyond 2^63; rows of documents and labels were wanted") from None
