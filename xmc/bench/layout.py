"""Which file of a folder is which: labels, each split's documents, filter pairs; by publishers' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xmc.bench.datasets import DataSet
from xmc.data.detect import DOCUMENT_FORMATS, LABEL_FORMATS, Probe
from xmc.data.options import ReadOptions
from xmc.errors import InputError

# The names of each role. `*` stands for a data set's own name; a folder counts too (EURLEX57K). What one role
# takes the later ones do not: filter_labels_train.txt is named as training documents are, too.
PATTERNS: Mapping[str, tuple[str, ...]] = {
    "filter-train": ("filter_labels_train.txt*", "filter-train.txt*"),
    "filter-test": ("filter_labels_test.txt*", "filter-test.txt*"),
    "labels": ("labels.*", "lbl.json*", "EURLEX57K.json*", "eurovoc*.json*"),
    "train": ("train.*", "trn.json*", "X.trn.npz", "train", "*_train.txt*", "*_tr*[Ss]plit.txt*"),
    "dev": ("dev.*", "val.*", "X.val.npz", "dev", "*_dev.txt*"),
    "test": ("test.*", "tst.json*", "X.tst.npz", "test", "*_test.txt*", "*_tst*[Ss]plit.txt*"),
    # What stands in files beside those that are named.
    "rows": ("*_data.txt*",),
    "train-labels": ("Y.trn.npz",),
    "dev-labels": ("Y.val.npz",),
    "test-labels": ("Y.tst.npz",),
}
# Formats that are told by content alone go by .txt, or by no suffix.
SUFFIXES = {".txt", "", *(suffix for f in (*DOCUMENT_FORMATS, *LABEL_FORMATS) for suffix in f.suffixes)}
OTHER_VERSION = "to measure another version give the folder's path, as ./NAME"
SPLITS = ("dev", "test")


@dataclass(frozen=True)
class Layout:
    """The files of one data set by role; roles that the folder lacks are missing."""

    folder: Path
    files: Mapping[str, Path]

    @property
    def labels(self) -> list[str]:
        """``--labels F``, or nothing where the documents' format defines the labels."""
        return self.option("labels", "labels")

    def option(self, name: str, role: str) -> list[str]:
        """``--NAME F`` of a role, or nothing where the folder lacks it."""
        return [f"--{name}", str(self.files[role])] if role in self.files else []

    def filter_of(self, role: str) -> list[str]:
        """``--filter F`` of a split, or nothing."""
        return self.option("filter", f"filter-{role}")


def layout_of(folder: Path, known: DataSet | None = None) -> Layout:
    """Find the files whose suffix a reader knows.

    Without training documents labels are found by their names alone, so that labels must be there.

    Raises: InputError where both splits to judge by are missing, or training documents and labels, or where
    several files could be the same.
    """
    found: dict[str, Path] = {}
    for role, names in PATTERNS.items():
        matches = sorted(_named(folder, names) - set(found.values()))
        if len(matches) > 1:
            held = " and ".join(path.name for path in matches)
            raise InputError(f"{folder}: {held} are all named as {role}; wanted one, so move the others away")
        if matches:
            found[role] = matches[0]
    if not {"train", "labels"} & set(found) or not set(SPLITS) & set(found):
        raise InputError(f"{folder}: {_missing(folder, found)}; {_way_out(known)}")
    return Layout(folder, found)


def _named(folder: Path, names: tuple[str, ...]) -> set[Path]:
    return {p for name in names for p in folder.glob(name) if Probe(p, ReadOptions()).suffix in SUFFIXES}


def _missing(folder: Path, found: Mapping[str, Path]) -> str:
    if not folder.is_dir():
        return "no such folder"
    held = ", ".join(sorted(found)) or "none of them"
    return f"wanted training documents (or labels at least) and a dev or test split, found {held}"


def _way_out(known: DataSet | None) -> str:
    if known is None:
        wanted = "; ".join(f"{role}: {names[0]}" for role, names in PATTERNS.items())
        return f"names that are understood ({wanted}) are listed in xmc/bench/layout.py"
    note = f" ({known.note})" if known.note else ""
    return f"{known.name} is offered at {known.source}{note}: download {known.files}"


def split_of(layout: Layout, split: str) -> Path:
    """The documents to judge by."""
    if split not in layout.files:
        have = ", ".join(s for s in SPLITS if s in layout.files)
        raise InputError(f"{layout.folder}: no {split} split; bench.split={have} is there")
    return layout.files[split]


def refuse_other_counts(counts: Mapping[str, int], known: DataSet | None) -> None:
    """InputError for the first role whose count is not the published one."""
    for role, wanted in ({} if known is None else known.counts).items():
        if role in counts and counts[role] != wanted:
            what = "labels" if role == "labels" else f"{role} documents"
            raise InputError(f"found {counts[role]:,} {what}, published are {wanted:,}; {OTHER_VERSION}")
