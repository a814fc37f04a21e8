"""Which labels may be suggested: the labels of ``--only`` files without those of ``--except`` files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xmc.data import files
from xmc.data.detect import Probe
from xmc.data.formats import read_labels
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError, some

# Suffixes of label files; under any other name a file without tabs is a list of ids.
_LABEL_FILES = (".jsonl", ".json", ".ndjson", ".csv", ".parquet", ".npz", ".ttl", ".rdf", ".xml")


def allowed_labels(
    labels: LabelSet,
    only: Path | None = None,
    without: Path | None = None,
    options: ReadOptions | None = None,
    report: ReadReport | None = None,
) -> np.ndarray | None:
    """(n_labels,) bool, the labels named in ``only`` (all, without it) and not named in ``without``.

    None where neither file is given. Each is a label file of any known format, of which the ids count, or a
    list of ids, one a line. An id that the model does not have stops under ``on_unknown_label=error`` and is
    counted in ``report`` under the other two (a new label cannot be allowed here).

    Raises: InputError for unknown ids, and where no label that can be suggested is left.
    """
    if only is None and without is None:
        return None
    options, report = options or ReadOptions(), report if report is not None else ReadReport()
    allowed = np.full(len(labels), only is None)
    if only is not None:
        allowed[_rows(labels, only, options, report)] = True
    if without is not None:
        allowed[_rows(labels, without, options, report)] = False
    if not (allowed & ~labels.retired).any():
        named = " and ".join(str(path) for path in (only, without) if path is not None)
        raise InputError(f"{named}: no label is left to suggest; wanted at least one that is not retired")
    return allowed


def label_ids(path: Path, options: ReadOptions, report: ReadReport) -> Sequence[str]:
    """The ids in a label file of any known format, or in a list of ids, one a line without empty lines."""
    if not is_id_list(path, options):
        found: list[str] = read_labels(path, options, report).ids.to_pylist()
        return found
    return [line for _, line in files.text_lines(path, options) if line.strip()]


def is_id_list(path: Path, options: ReadOptions) -> bool:
    """Whether a file is a plain list: no label format's suffix, no tab in its first lines, no JSON or RDF."""
    probe = Probe(path, options)
    if probe.is_dir or probe.suffix in _LABEL_FILES or probe.json_keys:
        return False
    return not any("\t" in line for line in probe.lines) and not probe.first.startswith(("@prefix", "<?xml"))


def _rows(labels: LabelSet, path: Path, options: ReadOptions, report: ReadReport) -> np.ndarray:
    """(n,) int64 rows of the labels that ``path`` names."""
    ids = label_ids(path, options, report)
    rows = labels.rows(ids)
    unknown = [ids[i] for i in np.flatnonzero(rows < 0).tolist()]
    if unknown and options.on_unknown_label == "error":
        counted = f"{len(unknown)} of {len(ids)} label ids are not in the model: {some(unknown)}"
        raise InputError(f"{path}: {counted}; correct them, or pass on_unknown_label=skip")
    for label_id in unknown:
        report.count(f"label ids of {path} were not in the model", label_id)
    return rows[rows >= 0]
