"""What each stage of a saved model adds, and whether its reranker uses the neighbours it is shown.

    python benchmarks/rerank_lift.py MODEL DOCS [--n 3000] [--seed 0] [--resamples 1000]

DOCS are tagged documents that the model does not hold. All rows rank the same candidates, but for the last,
so a difference is one of order. Each row stands beside the whole model by paired bootstrap over the
documents: what is told is the row minus the whole, with its 95 % interval. Rows:

- ``index``: the label index's own scores. ``mix``: the fitted mix of all scores, as it is and with the
  classifiers' set to zero (the weights are those fitted with them). ``first stage``: beside the other
  candidates of the document, what the reranker starts from. ``whole``: with the reranker.
- The reranker with other neighbours than it should have: ``flags permuted``: which of a document's neighbours
  carry a candidate, at random; ``another's flags``: those of another document; ``none``: no similarity and
  no flag of any neighbour. If it uses its neighbours, these are below the whole.
- ``no retrieval``: neither candidates nor votes nor flags from neighbours, as if nothing were remembered.

The probabilities' curves, which may move a label above another of another frequency, are left out.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch

from xmc.data.corpus import Corpus
from xmc.data.gold import GoldReader
from xmc.data.records import DocumentBatch
from xmc.encoders.dual import Encoded
from xmc.errors import InputError
from xmc.evaluate.intervals import Metric, differences
from xmc.evaluate.metrics import ndcg, precision, psp
from xmc.evaluate.ranked import Matches, Ranked
from xmc.propensity import inverse_propensity
from xmc.rerank.fitting import scores
from xmc.rerank.inputs import RerankInputs, rerank_inputs
from xmc.rerank.run import merged
from xmc.shortlist import NAMES, Candidates
from xmc.tag.tagger import Tagger

METRICS = ("P@1", "nDCG@5", "PSP@5")
SHARD = 500
WHOLE = "whole"
Change = Callable[[RerankInputs], RerankInputs]
Rows = dict[str, tuple[Candidates, np.ndarray]]  # of each row its candidates and their scores


def changes(seed: int) -> dict[str, Change]:
    """What is done to a block of the reranker's inputs."""
    draw = torch.Generator().manual_seed(seed)

    def permuted(inputs: RerankInputs) -> RerankInputs:
        n, _, k = inputs.carried.shape
        order = torch.rand(n, k, generator=draw).argsort(dim=1)
        return inputs._replace(carried=inputs.carried.gather(2, order[:, None].expand_as(inputs.carried)))

    def none(inputs: RerankInputs) -> RerankInputs:
        parts = ("carried", "pairs", "near")
        return inputs._replace(**{part: torch.zeros_like(getattr(inputs, part)) for part in parts})

    return {
        WHOLE: lambda inputs: inputs,
        "reranker, flags permuted": permuted,
        "reranker, another's flags": lambda inputs: inputs._replace(carried=inputs.carried.roll(1, 0)),
        "reranker, no neighbours": none,
    }


def rows_of(tagger: Tagger, encoded: Encoded, seed: int) -> Rows:
    """Every row for some documents, all of which have a vector."""
    found = tagger.shortlister.candidates(encoded)
    weights, features = tagger.weights, found.mix_features(tagger.frequency)
    without = features.copy()
    without[:, [i for i, name in enumerate(NAMES) if name.startswith("linear")]] = 0
    first = weights.beside(weights.context(found, tagger.frequency))
    out = {
        "index": found.features[:, 0],
        "mix, no classifiers": weights.final(without),
        "mix": weights.final(features),
        "first stage": first,
    }
    out |= reranked(tagger, found, first, encoded, seed)
    bare = replace(tagger.shortlister, memory=None)
    alone = bare.candidates(encoded)
    silent = weights.score(alone, tagger.frequency, encoded, bare)
    return {name: (found, values) for name, values in out.items()} | {"no retrieval": (alone, silent)}


def reranked(
    tagger: Tagger, found: Candidates, first: np.ndarray, encoded: Encoded, seed: int
) -> dict[str, np.ndarray]:
    """The reranker's log odds, under each change of its inputs."""
    head, context = tagger.weights.reranker, tagger.weights.context(found, tagger.frequency)
    if head is None:
        raise InputError(
            "the model has no reranker, which did not help where it was made; nothing to measure"
        )
    again: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in changes(seed)}
    do = changes(seed)
    for block in rerank_inputs(found, context, first, encoded, tagger.shortlister):
        for name, change in do.items():
            again[name].append((block.place.numpy(), scores(head, change(block)).numpy()))
    return {name: merged(first, found, parts) for name, parts in again.items()}


def measured(
    gold: sp.csr_matrix, parts: Sequence[tuple[Candidates, np.ndarray]], n_train: int, frequency: np.ndarray
) -> dict[str, Metric]:
    """The metrics of one row over the documents of all ``parts``, in order; ``gold`` (n_docs, n_labels)."""
    indptr = np.concatenate([[0], *(np.diff(found.indptr) for found, _ in parts)]).cumsum()
    rows = np.concatenate([found.rows for found, _ in parts])
    values = np.concatenate([values for _, values in parts])
    matches = Matches.build(gold, Ranked.build(indptr, rows, values))
    rare = inverse_propensity(frequency, n_train, 0.55, 1.5)
    return dict(zip(METRICS, (precision(matches, 1), ndcg(matches, 5), psp(matches, 5, rare)), strict=True))


def show(rows: Mapping[str, Mapping[str, Metric]], n_docs: int, resamples: int, seed: int) -> None:
    """A line a row."""
    print(f"{'':26}" + "".join(f"{name:>8} {'minus the whole':>22}" for name in METRICS))
    for row, found in rows.items():
        cells = ""
        gaps = differences(found, rows[WHOLE], n_docs, resamples, seed)
        for name in METRICS:
            gap = gaps[name]
            told = f"{100 * gap.value:+.2f} ({100 * gap.low:+.2f} to {100 * gap.high:+.2f})"
            cells += f"{100 * found[name].value:8.2f} {'' if row == WHOLE else told:>22}"
        print(f"{row:26}{cells}")


def documents(paths: Sequence[str], n: int) -> list[DocumentBatch]:
    """The first documents, in batches, ``n`` of them rounded up to a whole batch."""
    return list(itertools.islice(Corpus(paths).batches(SHARD), -(-n // SHARD)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("docs", nargs="+")
    parser.add_argument("--n", type=int, default=3000, help="documents, rounded up to whole batches of 500")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resamples", type=int, default=1000)
    args = parser.parse_args()
    tagger = Tagger.load(args.model, threads=1)
    reader, parts, gold = GoldReader(tagger.labels), [], []
    for batch in documents(args.docs, args.n):
        encoded = tagger.encode(batch)
        usable = np.flatnonzero(encoded.ok)
        parts.append(rows_of(tagger, encoded.take(usable), args.seed))
        gold.append(reader.batch(batch)[usable])
    reader.finish()
    every, memory = sp.vstack(gold, format="csr"), tagger.memory
    if memory is None:
        raise InputError(f"{args.model}: remembers no documents; there are no neighbours to do without")
    n_train, frequency = len(memory), memory.frequency
    rows = {name: measured(every, [part[name] for part in parts], n_train, frequency) for name in parts[0]}
    print(f"{every.shape[0]:,} documents, {n_train:,} remembered")
    show(rows, every.shape[0], args.resamples, args.seed)


if __name__ == "__main__":
    main()
