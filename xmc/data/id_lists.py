"""Files that name labels or documents by id alone: a data file of any format, or ids one a line."""

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

# Suffixes of data files; under any other name a file without tabs is a list of ids.
_DATA_FILES = (".jsonl", ".json", ".ndjson", ".csv", ".parquet", ".npz", ".ttl", ".rdf", ".xml")


def is_id_list(path: Path, options: ReadOptions) -> bool:
    """Whether a file is a plain list: no data format's suffix, no tab in its first lines, no JSON or RDF."""
    probe = Probe(path, options)
    if probe.folder is not None or probe.suffix in _DATA_FILES or probe.json_keys:
        return False
    return not any("\t" in line for line in probe.lines) and not probe.first.startswith(("@prefix", "<?xml"))


def listed_ids(path: Path, options: ReadOptions) -> list[str]:
    """The ids in a list of ids, one a line; empty lines are none."""
    return [line for _, line in files.text_lines(path, options) if line.strip()]


def label_ids(path: Path, options: ReadOptions, report: ReadReport) -> Sequence[str]:
    """The ids in a label file of any known format, or in a list of ids."""
    if is_id_list(path, options):
        return listed_ids(path, options)
    found: list[str] = read_labels(path, options, report).ids.to_pylist()
    return found


def label_rows(labels: LabelSet, path: Path, options: ReadOptions, report: ReadReport) -> np.ndarray:
    """(n,) int64 rows of the labels that the file ``path`` names.

    An id that ``labels`` lacks stops under ``on_unknown_label=error`` and is counted in ``report`` under the
    other two (a file of ids cannot add a label).

    Raises: InputError for unknown ids.
    """
    ids = label_ids(path, options, report)
    rows = labels.rows(ids)
    unknown = [ids[i] for i in np.flatnonzero(rows < 0).tolist()]
    if unknown and options.on_unknown_label == "error":
        counted = f"{len(unknown)} of {len(ids)} label ids are not in the model: {some(unknown)}"
        raise InputError(f"{path}: {counted}; correct them, or pass on_unknown_label=skip")
    for label_id in unknown:
        report.count(f"label ids of {path} were not in the model", label_id)
    return rows[rows >= 0]
