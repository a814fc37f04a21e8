"""Which labels may be suggested: the labels of ``--only`` files without those of ``--except`` files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xmc.data.id_lists import label_rows
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions, ReadReport
from xmc.errors import InputError


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
        allowed[label_rows(labels, only, options, report)] = True
    if without is not None:
        allowed[label_rows(labels, without, options, report)] = False
    if not (allowed & ~labels.retired).any():
        named = " and ".join(str(path) for path in (only, without) if path is not None)
        raise InputError(f"{named}: no label is left to suggest; wanted at least one that is not retired")
    return allowed
