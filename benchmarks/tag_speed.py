"""What tagging costs beside its bare stages: encoding, search and reranking alone, on the same shards.

    python benchmarks/tag_speed.py MODEL DOCS [--n 3000] [--rounds 3] [--threads 2] [--shard-size 1000]

Each round runs the bare stages one after another over shards that were read beforehand, and then the whole
job in the same process: read, clean, encode, search, rerank, write; and the job once more with evidence.
Ratios are medians over rounds, of CPU time (user and system, all threads) and of wall time; on a machine with
other work only those of CPU time mean much.
Start-up (imports, the model) is told apart: it is the same for ten documents and ten million.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command sets it

import numpy as np

from xmc.data.corpus import Corpus
from xmc.data.records import DocumentBatch
from xmc.shortlist import N_PROTOTYPES
from xmc.tag.job import TagJob
from xmc.tag.suggestions import TagOptions
from xmc.tag.tagger import Tagger

Times = dict[str, tuple[float, float]]


class Sample:
    """The first documents of a corpus, for a job that is to tag no more than these."""

    def __init__(self, docs: Sequence[str], n: int) -> None:
        self._corpus, self._n = Corpus(docs, keep_faults=True, max_characters=20_000_000), n
        self.arguments, self.given = self._corpus.arguments, self._corpus.given
        self.options = self._corpus.options
        self.keep_faults, self.max_characters = True, self._corpus.max_characters

    def batches(self, size: int) -> Iterator[DocumentBatch]:
        """Batches of ``size`` documents, so many that they hold ``n``."""
        return itertools.islice(self._corpus.batches(size), -(-self._n // size))


def clocked(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What ``run`` gives, and its CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = run()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def bare_stages(tagger: Tagger, batches: Sequence[DocumentBatch]) -> Times:
    """Seconds of each stage alone, over all batches."""
    times: Times = {}

    def add(stage: str, run: Callable[[], Any]) -> Any:
        found, cpu, wall = clocked(run)
        before = times.get(stage, (0.0, 0.0))
        times[stage] = before[0] + cpu, before[1] + wall
        return found

    for batch in batches:
        encoded = add("encode", lambda: tagger.encoder.encode(batch))  # noqa: B023 (called at once)
        usable = encoded.take(np.flatnonzero(encoded.ok))
        found = add("search", lambda: tagger.shortlister.candidates(usable, None, N_PROTOTYPES))  # noqa: B023
        score = tagger.weights.score
        add("rerank", lambda: score(found, tagger.frequency, usable, tagger.shortlister))  # noqa: B023
    return times


def whole_job(tagger: Tagger, sample: Sample, shard_size: int, evidence: bool = False) -> tuple[float, float]:
    """CPU and wall seconds of a job."""
    options = TagOptions(evidence=evidence)
    with tempfile.TemporaryDirectory() as folder:
        job = TagJob(tagger, sample, Path(folder) / "out.jsonl", options, shard_size=shard_size)
        return clocked(job.run)[1:]


def show(n_docs: int, rounds: Sequence[Times]) -> None:
    """A line a stage, medians over rounds, and the ratios."""

    def median(stage: str, which: int) -> float:
        return float(np.median([times[stage][which] for times in rounds]))

    print(f"{'':12} {'CPU s':>8} {'wall s':>8} {'CPU ms/document':>16} {'documents/s':>12}")
    for stage in rounds[0]:
        cpu, wall = median(stage, 0), median(stage, 1)
        print(f"{stage:12} {cpu:8.2f} {wall:8.2f} {1000 * cpu / n_docs:16.2f} {n_docs / wall:12.1f}")
    for name, which in (("CPU", 0), ("wall", 1)):
        bare = [sum(t[s][which] for s in ("encode", "search", "rerank")) for t in rounds]
        each = [t["job"][which] / b for t, b in zip(rounds, bare, strict=True)]
        print(f"job / bare stages, {name}: {np.median(each):.3f} ({min(each):.3f} to {max(each):.3f})")
    ratios = {
        "reranking / (encoding and search)": [
            t["rerank"][0] / (t["encode"][0] + t["search"][0]) for t in rounds
        ],
        "job with evidence / job": [t["with evidence"][0] / t["job"][0] for t in rounds],
    }
    for what, each in ratios.items():
        print(f"{what}, CPU: {np.median(each):.3f} ({min(each):.3f} to {max(each):.3f})")
    share = [t["encode"][1] / t["job"][1] for t in rounds]
    print(f"documents/s of the job, of those of bare encoding: {np.median(share):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("docs", nargs="+")
    parser.add_argument("--n", type=int, default=3000, help="documents, rounded up to whole shards")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shard-size", type=int, default=1000)
    args = parser.parse_args()
    tagger, cpu, wall = clocked(lambda: Tagger.load(args.model, threads=args.threads))
    print(f"the model loaded in {wall:.1f} s ({cpu:.1f} CPU s)")
    sample = Sample(args.docs, args.n)
    batches = list(sample.batches(args.shard_size))
    bare_stages(tagger, batches[:1])  # what is made at first use
    tagger.tag_batch(batches[0], TagOptions(evidence=True))
    n_docs = sum(map(len, batches))
    rounds = []
    for _ in range(args.rounds):
        times = bare_stages(tagger, batches)
        times["job"] = whole_job(tagger, sample, args.shard_size)
        times["with evidence"] = whole_job(tagger, sample, args.shard_size, evidence=True)
        rounds.append(times)
    show(n_docs, rounds)


if __name__ == "__main__":
    main()
