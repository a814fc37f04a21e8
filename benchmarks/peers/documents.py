"""What a peer is given: documents and labels as xmc reads them, in a form that every peer can read.

    python benchmarks/peers/documents.py --docs F [--labels F] [--filter F] --judged F -o DIR

DIR gets train.jsonl (`id`, `text`, `labels`, without the filter's pairs), judged.jsonl (without the labels),
labels.jsonl, and train.npz and judged.npz in the place of texts where documents are rows of features.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmc.bench.json_lines import label_records, write_lines
from xmc.cli import run_script
from xmc.data.formats import open_corpus
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch
from xmc.source import SHARD, Source, read_source


def main() -> None:
    """Read the arguments and write the folder."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shape)
    for name, needed in (("--docs", True), ("--labels", False), ("--filter", False), ("--judged", True)):
        parser.add_argument(name, required=needed)
    parser.add_argument("-o", "--out", required=True, type=Path)
    args = parser.parse_args()
    report = ReadReport()
    source = read_source(args.labels, [args.docs], args.filter, ReadOptions(), report)
    args.out.mkdir(exist_ok=True)
    in_use = source.labels.take(np.flatnonzero(~source.labels.retired))
    write_lines(args.out / "labels.jsonl", label_records(in_use))
    write(args.out / "train", source.batches(), gold_of(source))
    judged = open_corpus([args.judged], ReadOptions(), report)
    write(args.out / "judged", judged.batches(SHARD), None)
    for line in report.lines():
        print(line, file=sys.stderr)


def gold_of(source: Source) -> Iterator[list[str]]:
    """The ids of each training document's labels."""
    for row in source.gold:
        yield [source.labels.id(int(column)) for column in row.indices]


def write(name: Path, batches: Iterable[DocumentBatch], gold: Iterator[Sequence[str]] | None) -> None:
    """Write ``name``.jsonl and, of rows of features, ``name``.npz."""
    features: list[sp.csr_matrix] = []

    def records() -> Iterator[dict[str, Any]]:
        for batch in batches:
            if batch.features is not None:
                features.append(batch.features)
            for n, doc_id in enumerate(batch.ids):
                text = {} if batch.texts is None else {"text": batch.texts[n]}
                yield {"id": doc_id, **text, "labels": [] if gold is None else next(gold)}

    write_lines(name.with_suffix(".jsonl"), records())
    if features:
        sp.save_npz(name.with_suffix(".npz"), sp.vstack(features, format="csr"))


if __name__ == "__main__":
    run_script(main)
