"""What classifiers are learned from: the words of tagged documents, and the labels that an index proposes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch

from xmc.encoders.dual import DualEncoder
from xmc.index.base import LabelIndex
from xmc.linear import LinearLabels
from xmc.source import SHARD
from xmc.stages import stage
from xmc.train.linear import N_RANDOM, LinearData, enough, learn_linear

N_PROPOSED = 20  # labels that the index proposes for a document
MOST_ASKED = 100_000  # documents for which it is asked


def learned_from(gold: sp.csr_matrix) -> tuple[int, int]:
    """How many labels get a classifier from (n_docs, n_labels) ``gold``, and how many documents they read.

    A document counts once for each label. It is more than are read, for some are right and proposed too.
    """
    labels = enough(np.arange(gold.shape[1]), gold)
    n_right = np.bincount(gold.indices, minlength=gold.shape[1])[labels].sum()
    return len(labels), int(n_right) + N_PROPOSED * min(gold.shape[0], MOST_ASKED) + N_RANDOM * len(labels)


@dataclass(frozen=True)
class Taught:
    """Tagged documents and labels that classifiers are learned from.

    ``words``: a directory with the documents' words, as `xmc.linear.strongest` gives them; ``towers``
    (n_docs, dim) their vectors; ``gold`` (n_docs, n_labels) labels that may be known, of the ``docs`` (n,)
    that may be read; ``active`` (n_labels,) bool: labels that may be suggested; ``same_text`` (n_labels,):
    one number for all labels with the same text; ``work``: a directory for what is kept.
    """

    encoder: DualEncoder
    words: Path
    towers: np.ndarray
    gold: sp.csr_matrix
    docs: np.ndarray
    active: np.ndarray
    same_text: np.ndarray
    seed: int
    work: Path
    bar: Callable[[str, str, int], AbstractContextManager[Callable[[int], object]]]

    @stage("classifiers")
    def classifiers(self, index: LabelIndex, fitted: LinearLabels | None = None) -> LinearLabels:
        """Classifiers against what ``index`` proposes; those that are ``fitted`` stay as they are."""
        labels = np.flatnonzero(self.active if fitted is None else self.active & ~fitted.learned)
        labels = enough(labels, self.gold)
        if fitted is not None and not len(labels):
            return fitted
        data = LinearData(
            self.words,
            self.encoder.lexical.n_features,
            self.gold,
            self._proposed(index),
            self.docs,
            self.same_text,
            self.seed,
        )
        with self.bar("learning classifiers", "labels", len(labels)) as done:
            learned = learn_linear(data, labels, self.work, torch.get_num_threads(), done)
        return learned if fitted is None else fitted.joined(learned)

    def _proposed(self, index: LabelIndex) -> sp.csr_matrix:
        """(n_docs, n_labels) the labels that ``index`` proposes for ``MOST_ASKED`` documents at most."""
        asked = self.docs
        if len(asked) > MOST_ASKED:
            asked = np.sort(np.random.default_rng(self.seed).permutation(asked)[:MOST_ASKED])
        found = [self._best(index, asked[i : i + SHARD]) for i in range(0, len(asked), SHARD)]
        rows = np.concatenate(found) if found else np.zeros((0, 0), np.int64)
        counts = np.zeros(self.gold.shape[0] + 1, np.int64)
        counts[asked + 1] = rows.shape[1]
        return sp.csr_matrix((np.ones(rows.size, bool), rows.ravel(), np.cumsum(counts)), self.gold.shape)

    def _best(self, index: LabelIndex, docs: np.ndarray) -> np.ndarray:
        """(n, k) labels that ``index`` proposes for the documents in the rows ``docs`` (n,)."""
        vectors = np.asarray(self.towers[docs]) * self.encoder.scale
        queries = np.hstack([vectors, np.ones((len(docs), 1), np.float32)])
        return index.search(queries, N_PROPOSED, self.active & index.has(np.arange(len(self.active)))).rows
