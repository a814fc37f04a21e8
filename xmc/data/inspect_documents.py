"""What a file of documents holds: counts, lengths, label frequencies, repeats and odd characters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from xmc.data.detect import document_format
from xmc.data.gold import gold_rows
from xmc.data.labels import LabelSet
from xmc.data.oddities import oddities
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch, raising
from xmc.data.tally import Findings, Hashes, Lengths, hashes
from xmc.data.text import is_blank

FREQUENT = 50
_BATCH = 1024
_NO_DIGITS = re.compile(r"\d+")
# A title shorter than this without its digits ("No", "Vol.") says too little to call two documents alike.
_LEAST_TITLE = 8
# By what documents of a file, or of two, can be alike.
KEYS = {
    "ids": "ids",
    "texts": "texts",
    "titles": "titles once digits are removed",
    "features": "rows of features",
}


@dataclass
class DocumentsFound:
    """The counts of one file or folder of documents.

    sizes: lengths of each document, as characters and words of a text or as given features.
    seen: hashes of its ids, texts and titles, for comparing files.
    repeats: documents whose id, text or title stands before in the same file.
    """

    path: Path
    format: str
    n_docs: int = 0
    n_without_labels: int = 0
    has_labels: bool = False
    labels_per_doc: Lengths = field(default_factory=Lengths)
    frequency: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, Lengths] = field(default_factory=dict)
    seen: dict[str, Hashes] = field(default_factory=lambda: {what: Hashes() for what in KEYS})
    repeats: Findings = field(default_factory=Findings)
    odd: Findings = field(default_factory=Findings)
    report: ReadReport = field(default_factory=ReadReport)
    vocabulary: dict[str, Any] = field(default_factory=dict)
    new_labels: dict[str, Any] = field(default_factory=dict)

    def bins(self) -> dict[str, int]:
        """Labels used in at least 50 documents, and in fewer."""
        counts = list(self.frequency.values())
        frequent = sum(n >= FREQUENT for n in counts)
        return {"frequent": frequent, "few": len(counts) - frequent}

    def compare_with(self, labels: Sequence[LabelSet]) -> None:
        """Count the labels that a vocabulary has and these documents never use, and the reverse."""
        if not labels or not self.has_labels:
            return
        used = list(self.frequency)
        known = np.zeros(len(used), dtype=bool)
        for vocabulary in labels:
            known |= gold_rows(vocabulary, used) >= 0
        unknown = [label_id for label_id, is_known in zip(used, known, strict=True) if not is_known]
        self.vocabulary = {
            "n_labels": sum(map(len, labels)),
            "zero": sum(map(len, labels)) - int(known.sum()),
            "unknown": len(unknown),
            "unknown_uses": sum(self.frequency[label_id] for label_id in unknown),
            "unknown_examples": unknown[:5],
        }

    def compare_uses(self, earlier: set[str]) -> None:
        """Count the labels that documents of earlier files never use: those to be found without training."""
        if earlier and self.frequency:
            new = [label_id for label_id in self.frequency if label_id not in earlier]
            share = sum(self.frequency[label_id] for label_id in new) / self.frequency.total()
            self.new_labels = {"labels": len(new), "share_of_uses": round(share, 4)}

    def to_json(self) -> dict[str, Any]:
        """All counts, as plain values."""
        return {
            "path": str(self.path),
            "kind": "documents",
            "format": self.format,
            "n_docs": self.n_docs,
            "labels": {
                "documents_without": self.n_without_labels if self.has_labels else self.n_docs,
                "per_document": self.labels_per_doc.summary(),
                "used": len(self.frequency),
                **self.bins(),
                **self.vocabulary,
                "new": self.new_labels,
            },
            **{what: lengths.summary() for what, lengths in self.sizes.items()},
            "repeats": self.repeats.to_json(),
            "odd": self.odd.to_json(),
            "reading": dict(self.report.counts),
        }

    def lines(self) -> list[str]:
        """The same for people."""
        lines = [f"{self.path}: {self.n_docs:,} documents ({self.format})"]
        lines += [f"{what}: {_shown(lengths)}" for what, lengths in self.sizes.items()]
        lines += self._label_lines() if self.has_labels else ["no gold labels"]
        lines += [*self.repeats.lines(), *self.odd.lines(), *self.report.lines()]
        return lines[:1] + [f"  {line}" for line in lines[1:]]

    def _label_lines(self) -> list[str]:
        bins = self.bins()
        counts = f"{bins['frequent']:,} frequent ({FREQUENT} documents and more), {bins['few']:,} few"
        lines = [
            f"labels a document: {_shown(self.labels_per_doc)}; {self.n_without_labels:,} documents without",
            f"labels: {len(self.frequency):,} used, {counts}",
        ]
        if self.vocabulary:
            n, zero = self.vocabulary["n_labels"], self.vocabulary["zero"]
            lines[-1] += f", {zero:,} zero (of {n:,} in the vocabulary)"
        if self.new_labels:
            n, share = self.new_labels["labels"], self.new_labels["share_of_uses"]
            lines.append(f"labels that no earlier file uses: {n:,}, in {share:.1%} of the uses")
        if self.vocabulary.get("unknown"):
            unknown, uses = self.vocabulary["unknown"], self.vocabulary["unknown_uses"]
            examples = ", ".join(self.vocabulary["unknown_examples"])
            lines.append(f"labels outside the vocabulary: {unknown:,}, in {uses:,} uses ({examples})")
        return lines


def _shown(lengths: Lengths) -> str:
    summary = lengths.summary()
    if not summary:
        return "none"
    names = {"median": "median", "mean": "mean", "p90": "90 % up to", "p99": "99 % up to", "max": "most"}
    return ", ".join(f"{text} {summary[name]:,}" for name, text in names.items())


def inspect_documents(
    path: Path, parts: Sequence[Path], options: ReadOptions, before: Sequence[DocumentsFound] = ()
) -> tuple[DocumentsFound, list[tuple[Path, Findings]]]:
    """Read the files of documents that stand behind ``path`` to their end.

    Returns: their counts, and what they share with each of those read before.
    """
    formats = [document_format(part, options) for part in parts]
    found = DocumentsFound(path, ", ".join(dict.fromkeys(each.name for each in formats)))
    shared = [(other.path, Findings()) for other in before]
    for each, part in zip(formats, parts, strict=True):
        for batch in _raw_batches(each.load(), part, options, found.report):
            _count_labels(found, batch)
            _compare(found, batch, before, [findings for _, findings in shared])
            found.n_docs += len(batch)
    return found, [(other, findings) for other, findings in shared if findings.counts]


def _compare(
    found: DocumentsFound, batch: DocumentBatch, before: Sequence[DocumentsFound], shared: Sequence[Findings]
) -> None:
    """Find the documents that are like one of the same file, or of those before."""
    for what, values, kept in _keys(found, batch):
        names = [batch.ids[i] or batch.places[i] for i in kept]
        for other, findings in zip(before, shared, strict=True):
            findings.add_where(f"shared {KEYS[what]}", other.seen[what].has(values), names)
        found.repeats.add_where(f"repeated {KEYS[what]}", found.seen[what].add(values), names)


def _raw_batches(
    module: Any, path: Path, options: ReadOptions, report: ReadReport
) -> Iterator[DocumentBatch]:
    """Batches as the file has them, before a corpus cleans and numbers them."""
    if hasattr(module, "read_batches"):
        yield from module.read_batches(path, _BATCH, options, report)
        return
    documents = raising(module.read_documents(path, options, report))
    while group := list(islice(documents, _BATCH)):
        ids, texts, labels, places = (list(column) for column in zip(*group, strict=True))
        gold = None if all(each is None for each in labels) else [each or [] for each in labels]
        yield DocumentBatch(ids, texts, None, gold, places)


def _count_labels(found: DocumentsFound, batch: DocumentBatch) -> None:
    if batch.labels is None:
        found.n_without_labels += len(batch)
        return
    found.has_labels = True
    found.n_without_labels += sum(not gold for gold in batch.labels)
    found.labels_per_doc.add(len(set(gold)) for gold in batch.labels)
    for gold, place in zip(batch.labels, batch.places, strict=True):
        found.frequency.update(set(gold))
        if len(set(gold)) < len(gold):
            found.odd.add("documents with a gold label more than once", place)


Keys = Iterator[tuple[str, np.ndarray, Sequence[int]]]


def _keys(found: DocumentsFound, batch: DocumentBatch) -> Keys:
    """By what documents can be alike: (what, hashes (n,), positions (n,) in the batch)."""
    with_id = [i for i, doc_id in enumerate(batch.ids) if doc_id]
    yield "ids", hashes([batch.ids[i] for i in with_id]), with_id
    if batch.features is not None:
        yield from _feature_keys(found, batch.features)
    elif batch.texts is not None:
        yield from _text_keys(found, batch)


def _feature_keys(found: DocumentsFound, features: csr_matrix) -> Keys:
    sizes = np.diff(features.indptr)
    found.sizes.setdefault("features", Lengths()).add(sizes.tolist())
    filled = np.flatnonzero(sizes).tolist()
    rows = [slice(features.indptr[i], features.indptr[i + 1]) for i in filled]
    yield (
        "features",
        hashes([features.indices[r].tobytes() + features.data[r].tobytes() for r in rows]),
        filled,
    )


def _text_keys(found: DocumentsFound, batch: DocumentBatch) -> Keys:
    texts = batch.texts or []
    words = [text.split() for text in texts]
    found.sizes.setdefault("characters", Lengths()).add(map(len, texts))
    found.sizes.setdefault("words", Lengths()).add(map(len, words))
    for doc_id, text, place in zip(batch.ids, texts, batch.places, strict=True):
        for kind in oddities(text):
            found.odd.add(f"documents with {kind}", doc_id or place)
        if is_blank(text):
            found.odd.add("documents without text", doc_id or place)
    filled = [i for i, text in enumerate(texts) if not is_blank(text)]
    yield "texts", hashes([" ".join(words[i]) for i in filled]), filled
    titles = {i: _title(texts[i]) for i in filled}
    long = [i for i, title in titles.items() if len(title) >= _LEAST_TITLE]
    yield "titles", hashes([titles[i] for i in long]), long


def _title(text: str) -> str:
    """The first line that is not empty, without digits, case and repeated blanks."""
    return " ".join(_NO_DIGITS.sub("", text.lstrip().partition("\n")[0]).casefold().split())
