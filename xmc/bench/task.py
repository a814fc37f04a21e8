"""What is measured on: a data set by name or folder, a split, and how it is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xmc.bench.datasets import DATA_SETS, DataSet, named
from xmc.bench.layout import SPLITS, Layout, layout_of, split_of

# Settings that only evaluation reads, and those of reading files, which every stage needs.
ONLY_EVAL = ("eval.", "propensity")
READING = ("encoding", "language", "coerce", "on_unknown_label", "on_duplicate")


@dataclass(frozen=True)
class Task:
    """The files, the split, the settings of `xmc eval`, and where its report goes, if anywhere.

    ``target``: the name or folder, as it was given.
    """

    name: str
    target: str
    layout: Layout
    split: str
    known: DataSet | None
    evaluation: Sequence[str]
    seed: int
    report: Path | None = None

    @property
    def reading(self) -> list[str]:
        """The settings of reading files among those of evaluation."""
        return [a for a in self.evaluation if a.split("=")[0] in READING]

    @property
    def gold(self) -> Path:
        """The documents that are tagged and judged."""
        return split_of(self.layout, self.split)


def task_of(
    target: str, data: Path, split: str, assignments: Sequence[str], seed: int, report: Path | None = None
) -> Task:
    """``target``: a name, whose folder lies in ``data``, or the path of a folder (it has a slash, or exists).

    A known name's folder is scored with its propensity constants and must have its counts. ``split``: dev,
    test, or auto. ``assignments``: the user's settings, of which evaluation takes its own.
    """
    known = None if "/" in target or (target not in DATA_SETS and Path(target).is_dir()) else named(target)
    folder = Path(target) if known is None else data / target
    layout = layout_of(folder, known)
    chosen = next(s for s in SPLITS if s in layout.files) if split == "auto" else split
    evaluation = [a for a in assignments if a.startswith((*ONLY_EVAL, "seed="))]
    evaluation += [a for a in assignments if a.split("=")[0] in READING]
    if known is not None and not any(a.startswith("propensity") for a in assignments):
        evaluation.append(f"propensity={known.propensity}")
    name = folder.resolve().name if known is None else known.name
    split_of(layout, chosen)
    return Task(name, target, layout, chosen, known, evaluation, seed, report)
