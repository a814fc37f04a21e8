"""Turn a downloaded data set into the files that `xmc bench` measures, and check it against published counts.

    python scripts/prepare_data.py NAME|- DOWNLOADED OUT

DOWNLOADED is the folder of what the publisher offers, unpacked; without it the command says where that is.
NAME is a data set that `xmc bench` knows, or - for any other. OUT gets labels.jsonl.gz, a file of JSON lines
for each split, and the filter pairs. Bag-of-words sets have no text to convert: they are only checked, and
`xmc bench` reads them as they are.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from xmc.bench.datasets import DataSet, named
from xmc.bench.json_lines import label_records, write_lines
from xmc.bench.layout import SPLITS, Layout, layout_of, refuse_other_counts
from xmc.cli import run_script
from xmc.data.formats import labels_of, open_corpus, read_labels
from xmc.data.labels import LabelSet
from xmc.data.options import ReadReport
from xmc.data.records import DocumentBatch
from xmc.errors import InputError


def main() -> None:
    """Read the arguments, convert, and say what was written."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    parser.add_argument("name")
    parser.add_argument("downloaded", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    known = None if args.name == "-" else named(args.name)
    report = ReadReport()
    counts = convert(layout_of(args.downloaded, known), known, args.out, report)
    print(f"{args.out}: " + ", ".join(f"{n:,} {role}" for role, n in counts.items()))
    for line in report.lines():
        print(line, file=sys.stderr)


def convert(layout: Layout, known: DataSet | None, out: Path, report: ReadReport) -> dict[str, int]:
    """Write the folder ``out``, which must not exist, and return documents by split and the number of labels.

    For documents without text nothing is written.
    """
    if out.exists():
        raise InputError(f"{out}: exists; wanted a new folder")
    labels = _labels(layout, report)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        counts = _written(layout, known, labels, part, report)
        if any(part.iterdir()):
            part.chmod(0o777 & ~_umask())
            part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return counts


def _umask() -> int:
    """What new folders are kept from; a temporary one is kept from everybody else."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _written(
    layout: Layout, known: DataSet | None, labels: LabelSet, part: Path, report: ReadReport
) -> dict[str, int]:
    roles = [role for role in ("train", *SPLITS) if role in layout.files]
    counts = {role: _split(layout.files[role], part / f"{role}.jsonl.gz", report) for role in roles}
    refuse_other_counts(counts | {"labels": len(labels)}, known)
    if any(part.iterdir()):
        write_lines(part / "labels.jsonl.gz", label_records(labels))
        for role in ("filter-train", "filter-test"):
            if role in layout.files:
                shutil.copy(layout.files[role], part / f"{role}.txt")
    return counts


def _labels(layout: Layout, report: ReadReport) -> LabelSet:
    if "labels" in layout.files:
        return read_labels(layout.files["labels"], None, report)
    labels = labels_of(layout.files["train"], None, report)
    if labels is None:
        raise InputError(
            f"{layout.folder}: no file of labels (labels.* or lbl.json), which this format needs"
        )
    return labels


def _split(path: Path, out: Path, report: ReadReport) -> int:
    """Convert one split, or only count it where it has no text; the number of documents."""
    batches = open_corpus([path], None, report).batches()
    first = next(batches, None)
    if first is None or first.texts is None:
        return sum(len(batch) for batch in (first, *batches) if batch is not None)
    return write_lines(out, _document_records(first, batches))


def _document_records(first: DocumentBatch, others: Iterator[DocumentBatch]) -> Iterator[dict[str, Any]]:
    for batch in chain([first], others):
        if batch.labels is None or batch.texts is None:
            raise InputError(f"{batch.places[0]}: wanted documents with text and labels")
        for doc_id, text, labels in zip(batch.ids, batch.texts, batch.labels, strict=True):
            yield {"id": doc_id, "text": text, "labels": labels}


if __name__ == "__main__":
    run_script(main)
