"""Which documents make a step, and which labels they are scored against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class LabelSample:
    """Label rows of a step, ascending; ``weight`` (n,): of how many wrong labels each is a sample."""

    rows: np.ndarray
    weight: np.ndarray


def epoch_order(docs: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """The documents in the order of one epoch, the same for the same seed."""
    return np.random.default_rng((seed, epoch)).permutation(docs)


def batch_size(n_docs: int) -> int:
    """Documents in a step: few where there are few, so that an epoch still has some hundred steps."""
    return int(2 ** np.clip(np.round(np.log2(max(n_docs, 1) / 150)), 7, 10))


class LabelSampler:
    """Chooses the labels of a step among ``rows``: all where they are at most ``limit``, else a sample.

    The sample holds every label of the batch, the hard wrong ones that were mined for its documents, and
    others drawn evenly, each of which stands for as many as were left out (so that the expected loss is that
    over all labels, but for the hard ones).
    """

    def __init__(self, rows: np.ndarray, n_labels: int, limit: int, seed: int) -> None:
        self.rows, self.limit, self.seed = rows, limit, seed
        self._taken = np.zeros(n_labels, bool)

    @property
    def takes_all(self) -> bool:
        """Whether every step scores all labels."""
        return len(self.rows) <= self.limit

    def sample(self, gold: sp.csr_matrix, hard: np.ndarray, step: int) -> LabelSample:
        """Labels for documents with ``gold`` (n_docs, n_labels) and ``hard`` (any,) label rows."""
        if self.takes_all:
            return LabelSample(self.rows, np.ones(len(self.rows), np.float32))
        sure = np.unique(np.concatenate([gold.indices.astype(np.int64), hard]))
        n_random = max(self.limit - len(sure), self.limit // 4)
        drawn = np.random.default_rng((self.seed, step)).choice(self.rows, n_random, replace=False)
        self._taken[sure] = True
        drawn = drawn[~self._taken[drawn]]
        self._taken[sure] = False
        rows = np.concatenate([sure, drawn])
        stands_for = (len(self.rows) - len(sure)) / max(1, len(drawn))
        weight = np.repeat(np.array([1, max(1.0, stands_for)], np.float32), [len(sure), len(drawn)])
        order = np.argsort(rows)
        return LabelSample(rows[order], weight[order])
