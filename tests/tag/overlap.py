"""A small tagger that needs no model: a label's score is the share of its words that a document has.

Run as a program it is a tagging job that can kill itself: ``python -m tests.tag.overlap DOCS LABELS OUT``.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np

from xmc.data.corpus import Corpus
from xmc.data.formats import read_labels
from xmc.data.labels import LabelSet
from xmc.data.options import ReadOptions
from xmc.data.records import DocumentBatch, Label
from xmc.errors import XmcError
from xmc.tag.job import TagJob
from xmc.tag.suggestions import (
    EMPTY_TEXT,
    NO_ALLOWED_LABEL,
    NO_VECTOR,
    Evidence,
    Suggestions,
    TagOptions,
)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def label_set(*pairs: tuple[str, str]) -> LabelSet:
    return LabelSet.from_records([Label(label_id, text) for label_id, text in pairs])


class OverlapTagger:
    """Deterministic, and quick to make; `id` and `run_settings` can be set to those of another model."""

    def __init__(self, labels: LabelSet, id: str = "overlap-1", **run_settings: object) -> None:
        self.labels = labels
        self.id = id
        self.run_settings = run_settings or {"dtype": "float32", "threads": 1}
        self.words = [words(text) for text in labels.texts.to_pylist()]
        self.n_tagged = 0

    def begin(self) -> None:
        pass

    def encode(self, batch: DocumentBatch) -> list[set[str]]:
        return [words(text) for text in batch.texts or []]

    def suggest(self, batch: DocumentBatch, texts: list[set[str]], options: TagOptions) -> Suggestions:
        self.n_tagged += len(batch)
        scores = np.array([[self.score(text, label) for label in self.words] for text in texts], np.float32)
        allowed = np.ones(len(self.labels), bool) if options.allowed is None else options.allowed
        rows = np.where((scores > 0) & allowed, np.arange(len(self.labels)), -1)
        reasons = [self.reason(text, s) for text, s in zip(texts, scores, strict=True)]
        found = Suggestions.from_matrix(batch.ids, rows, scores, reasons)
        found = found.select(options.top_k, options.threshold)
        if options.evidence:
            shared = [texts[d] & self.words[r] for d, r in zip(found.documents, found.rows, strict=True)]
            found.evidence = [Evidence([("t1", 0.1), ("t\n2", 1 / 3)], sorted(s)) for s in shared]
        return found

    def score(self, text: set[str], label: set[str]) -> float:
        return len(text & label) / len(label) if label else 0.0

    def reason(self, text: set[str], scores: np.ndarray) -> str:
        if not text:
            return EMPTY_TEXT
        return NO_ALLOWED_LABEL if (scores > 0).any() else NO_VECTOR


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("docs")
    parser.add_argument("labels")
    parser.add_argument("out")
    parser.add_argument("--threshold", type=float)
    parser.add_argument("--kill-after", type=int, default=-1, help="documents after which to send SIGKILL")
    parser.add_argument("--file-limit", type=int, default=0, help="bytes that a file may have")
    args = parser.parse_args()
    if args.file_limit:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (args.file_limit, resource.RLIM_INFINITY))
    done = 0

    def progress(n: int) -> None:
        nonlocal done
        done += n
        if done == args.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        tagger = OverlapTagger(read_labels(Path(args.labels)))
        corpus = Corpus([args.docs], ReadOptions())
        options = TagOptions(threshold=args.threshold)
        report = TagJob(tagger, corpus, args.out, options, shard_size=2, progress=progress).run()
    except XmcError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print("\n".join(report.lines()), file=sys.stderr)
    print(f"tagged now: {tagger.n_tagged}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
