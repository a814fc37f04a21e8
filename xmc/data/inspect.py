"""``xmc inspect``: what data files hold, and what is odd in them and between them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xmc.data import detect, files
from xmc.data.formats import labels_of
from xmc.data.inspect_documents import DocumentsFound, inspect_documents
from xmc.data.inspect_labels import LabelsFound, inspect_labels
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.paths import Given, given
from xmc.data.records import raising
from xmc.data.table import has_header
from xmc.data.tally import Findings
from xmc.errors import InputError

_LABEL_NAME = re.compile(r"label|lbl|vocab|subject|concept|thesaur|descriptor", re.IGNORECASE)
_ONLY_LABELS = ("skos", "eurlex", "annif")


@dataclass
class Shared:
    """Documents of one file that also stand in an earlier one: leakage, where they are train and test."""

    first: Path
    second: Path
    findings: Findings

    def lines(self) -> list[str]:
        """One line for each kind of what they share."""
        return [f"{self.second} and {self.first}: {line}" for line in self.findings.lines()]

    def to_json(self) -> dict[str, Any]:
        """Both paths, and count and examples of each kind."""
        return {"first": str(self.first), "second": str(self.second), **self.findings.to_json()}


@dataclass
class Inspection:
    """What some files hold, in the order in which they were given."""

    files: list[DocumentsFound | LabelsFound] = field(default_factory=list)
    shared: list[Shared] = field(default_factory=list)

    @property
    def documents(self) -> list[DocumentsFound]:
        """The files of documents."""
        return [found for found in self.files if isinstance(found, DocumentsFound)]

    def see(self, given: Given, options: ReadOptions) -> list[LabelSet]:
        """Add what a path holds; returns the vocabularies among it."""
        vocabularies, documents = [], []
        for part in given.parts:
            if holds_labels(part, options):
                labels_found, labels = inspect_labels(part, options)
                self.files.append(labels_found)
                vocabularies.append(labels)
            else:
                documents.append(part)
        if documents:
            found, shared = inspect_documents(given.path, documents, options, self.documents)
            self.files.append(found)
            self.shared += [Shared(first, given.path, findings) for first, findings in shared]
        return vocabularies

    def lines(self) -> list[str]:
        """Text for people."""
        parts: list[DocumentsFound | LabelsFound | Shared] = [*self.files, *self.shared]
        return [line for part in parts for line in part.lines()]

    def to_json(self) -> dict[str, Any]:
        """The same as plain values, for `json.dumps`."""
        return {
            "files": [found.to_json() for found in self.files],
            "shared": [each.to_json() for each in self.shared],
        }


def inspect(paths: Sequence[str | Path], options: ReadOptions | None = None) -> Inspection:
    """Read files of labels and documents once each, keeping counts and hashes but no text.

    A folder without a format of its own is one file of documents, but for the vocabularies in it; what
    matches a pattern is told one by one. Documents are compared with all vocabularies among the files, and
    with the labels that their own format defines. Raises InputError for what cannot be read.
    """
    options = options or ReadOptions()
    options.validate()
    inspection = Inspection()
    vocabularies: list[LabelSet] = []
    for path in paths:
        report = ReadReport()
        for each in given([path], options, report):
            vocabularies += inspection.see(each, options)
        inspection.files[-1].report.merge(report)
    earlier: set[str] = set()
    for found in inspection.documents:
        found.compare_with(vocabularies or _own_labels(found, options))
        found.compare_uses(earlier)
        earlier.update(found.frequency)
    return inspection


def _own_labels(found: DocumentsFound, options: ReadOptions) -> list[LabelSet]:
    try:
        labels = labels_of(found.path, options, ReadReport())
    except InputError:  # matrices without labels, raw text without its label file
        return []
    return [] if labels is None else [labels]


# --- labels or documents


def holds_labels(path: Path, options: ReadOptions) -> bool:
    """Whether a file is a vocabulary: told by its format, by its fields, and only then by its name."""
    documents = _format(detect.document_format, path, options)
    labels = _format(detect.label_format, path, options)
    if documents is None and labels is None:
        detect.document_format(path, options)  # raises what is wrong with it
    if documents is None or labels is None:
        return documents is None
    if documents.module != labels.module:
        return labels.module in _ONLY_LABELS
    if documents.module in ("xmc_repo", "pecos"):
        return documents.module == "pecos" and path.name.startswith("Y")
    return _record_is_label(documents, path, options)


def _format(
    detector: Callable[[Path, ReadOptions], detect.Format], path: Path, options: ReadOptions
) -> detect.Format | None:
    files.check_readable(path)
    try:
        return detector(path, options)
    except InputError:
        return None


def _record_is_label(found: detect.Format, path: Path, options: ReadOptions) -> bool:
    probe = detect.Probe(path, options)
    if found.module == "xmc_raw":
        return "target_ind" not in probe.json_keys and _LABEL_NAME.search(path.name) is not None
    if found.module == "table" and not has_header(probe.first):
        return True
    module = found.load()
    try:
        document = next(raising(module.read_documents(path, options, ReadReport())), None)
        if document is not None and document.labels is not None:
            return False
        label = next(module.read_labels(path, options, ReadReport()), None)
    except InputError:  # a table without the column that documents, or labels, need; read again it says more
        return "title" not in probe.first and "text" not in probe.first
    if label is not None and (label.alt or label.description or label.broader or label.retired):
        return True
    return _LABEL_NAME.search(path.name) is not None
