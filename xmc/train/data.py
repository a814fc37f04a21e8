"""TrainingData: what a training run reads, documents' features from disk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from xmc.propensity import inverse_propensity

PROPENSITY = 0.55, 1.5  # a and b
NAMES = {"ndcg": "nDCG@5", "psp": "PSP@5"}  # of what an epoch can be judged by


@dataclass(frozen=True)
class TrainingData:
    """Documents, labels, and which documents train and judge.

    ``features`` (n_docs, n_kept) selected unit rows; ``towers`` (n_docs, any) whose first ``dense_dim``
    columns are the dense vectors (may be a memory map); ``gold`` (n_docs, n_labels) ones, of training
    documents only the labels that training may know; ``label_features`` (n_labels, n_kept) and
    ``label_dense`` (n_labels, dense_dim) of the labels' texts; ``active`` (n_labels,) bool: not retired;
    ``same_text`` (n_labels,): one number for all labels with the same text.
    ``docs`` rows to train on, ``dev`` rows to judge by, and their whole gold labels ``dev_gold``.
    """

    features: sp.csr_matrix
    towers: np.ndarray
    dense_dim: int
    gold: sp.csr_matrix
    label_features: sp.csr_matrix
    label_dense: np.ndarray
    active: np.ndarray
    same_text: np.ndarray
    docs: np.ndarray
    dev: np.ndarray
    dev_gold: sp.csr_matrix

    def dense_of(self, rows: np.ndarray) -> Tensor:
        """(n, dense_dim) float32 dense vectors of documents."""
        return torch.from_numpy(np.array(self.towers[rows, : self.dense_dim], np.float32))

    @property
    def frequency(self) -> np.ndarray:
        """(n_labels,) training documents of each label."""
        return np.bincount(self.gold[self.docs].indices, minlength=self.gold.shape[1])

    @property
    def inverse_propensity(self) -> np.ndarray:
        """(n_labels,) 1 / propensity of each label."""
        return inverse_propensity(self.frequency, len(self.docs), *PROPENSITY)


def namesakes(gold: sp.csr_matrix, same_text: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """(n_docs, n) bool: the label ``rows`` (n,) with the text of a gold label in (n_docs, n_labels).

    ``same_text`` (n_labels,): one number for all labels with the same text.
    """
    by_text = sp.csr_matrix((gold.data, same_text[gold.indices], gold.indptr), gold.shape)
    return by_text[:, same_text[rows]].toarray() > 0


def mean_ndcg(ranked: np.ndarray, gold: sp.csr_matrix) -> float:
    """nDCG@k of (n, k) ranked label rows against (n, n_labels) gold, mean over documents with gold labels."""
    n, k = ranked.shape
    counts = np.diff(gold.indptr)
    hits = np.asarray(gold[np.repeat(np.arange(n), k), ranked.ravel()]).reshape(n, k) > 0
    discounts = 1 / np.log2(np.arange(k) + 2.0)
    ideal = np.cumsum(discounts)[np.clip(counts, 1, k) - 1]
    scores = (hits * discounts).sum(axis=1) / ideal
    return float(scores[counts > 0].mean()) if counts.any() else 0.0


def mean_psp(ranked: np.ndarray, gold: sp.csr_matrix, weights: np.ndarray) -> float:
    """PSP@k of (n, k) ranked label rows against (n, n_labels) gold; ``weights`` (n_labels,): 1 / propensity.

    What is found over what could be, each summed over all documents (Jain et al. 2016).
    """
    n, k = ranked.shape
    hits = np.asarray(gold[np.repeat(np.arange(n), k), ranked.ravel()]).reshape(n, k) > 0
    of_doc, wanted = np.repeat(np.arange(n), np.diff(gold.indptr)), weights[gold.indices]
    order = np.lexsort((-wanted, of_doc))
    best = wanted[order][np.arange(len(order)) - gold.indptr[of_doc] < k].sum()
    return float((hits * weights[ranked]).sum() / best) if best else 0.0
