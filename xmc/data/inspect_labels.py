"""What a vocabulary holds: counts, lengths, labels with one and the same text, odd characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from xmc.data.detect import label_format
from xmc.data.labels import LabelSet
from xmc.data.oddities import oddities
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Label
from xmc.data.tally import Findings, Hashes, Lengths, hashes
from xmc.data.text import is_blank

_GROUP = 1024
_DECIMAL = re.compile(r"0\d+|\d+\.\d+")


@dataclass
class LabelsFound:
    """The counts of one vocabulary."""

    path: Path
    format: str
    n_labels: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    characters: Lengths = field(default_factory=Lengths)
    odd: Findings = field(default_factory=Findings)
    report: ReadReport = field(default_factory=ReadReport)
    _texts: Hashes = field(default_factory=Hashes)

    def see(self, labels: Sequence[Label]) -> None:
        """Count some more labels, as the file has them."""
        self.characters.add(len(label.text) for label in labels)
        for what, having in (
            ("retired", sum(label.retired for label in labels)),
            ("with other names", sum(bool(label.alt) for label in labels)),
            ("with a description", sum(bool(label.description) for label in labels)),
            ("with broader labels", sum(bool(label.broader) for label in labels)),
        ):
            self.counts[what] = self.counts.get(what, 0) + having
        for label in labels:
            self._see_odd(label)
        filled = [label for label in labels if not is_blank(label.text)]
        repeated = self._texts.add(hashes([label.text for label in filled]))
        self.odd.add_where("labels with the text of an earlier one", repeated, [label.id for label in filled])

    def _see_odd(self, label: Label) -> None:
        for part, text in (("ids", label.id), ("texts", label.text)):
            for kind in oddities(text):
                self.odd.add(f"label {part} with {kind}", label.id)
            if text != text.strip() or "\t" in text or "  " in text:
                self.odd.add(f"label {part} with outer, double or tab blanks", label.id)
        if _DECIMAL.fullmatch(label.id):
            self.odd.add("label ids that a spreadsheet would change as numbers", label.id)
        if is_blank(label.text):
            self.odd.add("labels without text", label.id)

    def to_json(self) -> dict[str, Any]:
        """All counts, as plain values."""
        return {
            "path": str(self.path),
            "kind": "labels",
            "format": self.format,
            "n_labels": self.n_labels,
            **{what.replace(" ", "_"): n for what, n in self.counts.items()},
            "characters": self.characters.summary(),
            "odd": self.odd.to_json(),
            "reading": dict(self.report.counts),
        }

    def lines(self) -> list[str]:
        """The same for people."""
        summary = self.characters.summary()
        lines = [f"{self.path}: {self.n_labels:,} labels ({self.format})"]
        lines += [f"  {n:,} {what}" for what, n in self.counts.items() if n]
        if summary:
            lines.append(f"  characters of a text: median {summary['median']:,}, most {summary['max']:,}")
        return lines + [f"  {line}" for line in (*self.odd.lines(), *self.report.lines())]


def inspect_labels(path: Path, options: ReadOptions) -> tuple[LabelsFound, LabelSet]:
    """Read a vocabulary; its counts, and the labels for comparing documents with them."""
    found_format = label_format(path, options)
    found = LabelsFound(path, found_format.name)
    records = found_format.load().read_labels(path, options, found.report)
    labels = LabelSet.from_records(_watched(records, found), found.report)
    found.n_labels = len(labels)
    return found, labels


def _watched(records: Iterator[Label], found: LabelsFound) -> Iterator[Label]:
    while group := list(islice(records, _GROUP)):
        found.see(group)
        yield from group
