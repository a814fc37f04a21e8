"""A sample of the documents that are read, evenly spread, and a source made of it with some of the labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xmc.data.batching import joined
from xmc.data.records import DocumentBatch
from xmc.source import Source

N_DOCS = 1000  # documents of a sample at most
N_LABELS = 3000  # labels of a sample, more only where its documents carry more


class Sampler:
    """Keeps every 2^i-th of the documents it sees, so many that there are ``n`` to ``2 n`` of them."""

    def __init__(self, n: int = N_DOCS) -> None:
        self.n, self.n_seen, self._step = n, 0, 1
        self._kept: list[tuple[np.ndarray, DocumentBatch]] = []

    def see(self, batch: DocumentBatch) -> None:
        """Take some of a batch."""
        self._keep(np.arange(self.n_seen, self.n_seen + len(batch)), batch)
        self.n_seen += len(batch)
        while sum(len(rows) for rows, _ in self._kept) > 2 * self.n:
            self._step *= 2
            kept, self._kept = self._kept, []
            for rows, part in kept:
                self._keep(rows, part)

    def _keep(self, rows: np.ndarray, batch: DocumentBatch) -> None:
        chosen = np.flatnonzero(rows % self._step == 0)
        if len(chosen):
            self._kept.append((rows[chosen], batch.take(chosen)))

    def documents(self, n: int) -> tuple[np.ndarray, DocumentBatch]:
        """Places among all (n,), ascending, and these at most ``n`` documents."""
        if not self._kept:
            return np.zeros(0, np.int64), DocumentBatch([], [], None, None, [])
        rows = np.concatenate([rows for rows, _ in self._kept])
        batch = joined([batch for _, batch in self._kept])
        some = np.unique(np.linspace(0, len(rows) - 1, min(n, len(rows))).astype(np.int64))
        return rows[some], batch.take(some)


@dataclass(frozen=True)
class SampleCorpus:
    """Documents in memory, read like a corpus."""

    batch: DocumentBatch

    @property
    def has_text(self) -> bool:
        """Whether they are texts, not rows of given features."""
        return self.batch.texts is not None

    @property
    def n_features(self) -> int | None:
        """How many given features there are; None for texts."""
        return None if self.batch.features is None else int(self.batch.features.shape[1])

    def batches(self, size: int) -> Iterator[DocumentBatch]:
        """At most ``size`` documents at a time."""
        for start in range(0, len(self.batch), size):
            yield self.batch.take(np.arange(start, min(start + size, len(self.batch))))


def sample_source(
    source: Source, sampler: Sampler, seed: int, n_docs: int = N_DOCS, n_labels: int = N_LABELS
) -> Source:
    """At most ``n_docs`` of the sampled documents, and ``n_labels``: those of these documents, and others.

    More labels only where the documents carry more.
    """
    rows, batch = sampler.documents(n_docs)
    gold = source.gold[rows]
    carried = np.unique(gold.indices)
    others = np.setdiff1d(np.arange(len(source.labels)), carried)
    n_others = min(len(others), max(0, n_labels - len(carried)))
    drawn = np.random.default_rng(seed).choice(others, n_others, replace=False)
    chosen = np.sort(np.concatenate([carried, drawn]).astype(np.int64))
    corpus = SampleCorpus(batch) if len(rows) else None
    numbers = source.fingerprints[rows]
    return Source(source.labels.take(chosen), corpus, gold[:, chosen], list(batch.ids), fingerprints=numbers)
