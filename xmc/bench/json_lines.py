"""Documents and labels written as JSON lines, for whoever does not read the formats that xmc does."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from xmc.data.labels import LabelSet


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> int:
    """Write a line for each record, the same bytes for the same records; returns how many.

    A name that ends in .gz is compressed.
    """
    n = 0
    with ExitStack() as files:
        out: Any = files.enter_context(path.open("wb"))
        if path.suffix == ".gz":
            out = files.enter_context(gzip.GzipFile("", "wb", mtime=0, fileobj=out))
        for record in records:
            out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            n += 1
    return n


def label_records(labels: LabelSet) -> Iterator[dict[str, Any]]:
    """Every label, without fields that are empty."""
    for batch in labels.table.to_batches():
        for label in batch.to_pylist():
            yield {name: value for name, value in label.items() if value or name in ("id", "text")}
