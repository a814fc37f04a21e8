"""Candidates: for each document the labels worth a closer look, from three sources, with their features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch

from xmc.encoders.dual import DualEncoder, Encoded
from xmc.index.base import LabelIndex, Shortlist
from xmc.index.kernel import pair_scores
from xmc.index.matcher import LabelMatcher, best_columns
from xmc.linear import LinearLabels, strongest
from xmc.memory import DocumentMemory
from xmc.mix import Mix
from xmc.prototypes import label_kinds

N_PROTOTYPES = 200  # candidates from the label index
N_MATCHES = 100  # candidates from the matcher
N_NEIGHBOURS = 50  # documents whose labels are candidates

SOURCES = ("prototype", "cosine", "containment", "lead", "votes", "linear")
KINDS = ("", "*seen", "*frequency")
NAMES = (*(f"{source}{kind}" for source in SOURCES for kind in KINDS), "seen", "frequency")
# As in xmc.prototypes; without a dense tower the words' own scores have to carry more.
DEFAULT = Mix.of(NAMES, prototype=0.8, cosine=-3, containment=5.5, lead=4.5, votes=3)
DEFAULT_WORDS = Mix.of(NAMES, prototype=0.1, cosine=16, containment=5, lead=5, votes=12)


@dataclass(frozen=True)
class Candidates:
    """Candidate labels of n documents; document i owns ``indptr[i]:indptr[i + 1]``, in row order.

    ``features`` (n_candidates, len(SOURCES)): the prototype's score, the matcher's three, the neighbours'
    votes and the classifier's score; ``neighbours``: the documents that voted, None without a memory.
    """

    indptr: np.ndarray
    rows: np.ndarray
    features: np.ndarray
    neighbours: Shortlist | None

    @property
    def of_doc(self) -> np.ndarray:
        """(n_candidates,) the document of each candidate, ascending."""
        return np.repeat(np.arange(len(self.indptr) - 1), np.diff(self.indptr))

    def mix_features(self, frequency: np.ndarray) -> np.ndarray:
        """(n_candidates, len(NAMES)) features by kind of label, for the `Mix`."""
        kinds = label_kinds(frequency)[self.rows]
        by_kind = [self.features[:, [i]] * kinds for i in range(len(SOURCES))]
        return np.hstack([*by_kind, kinds[:, 1:]])


@dataclass(frozen=True)
class Shortlister:
    """Finds candidates: the label index, the lexical matcher and the labels of neighbours.

    ``matcher``, ``memory`` and ``linear``, which only scores what was found, may be None. ``scoreable``
    (n_labels,) bool: labels in the index and not retired. ``among``: the documents of the memory that may be
    neighbours, None: all.
    """

    encoder: DualEncoder
    index: LabelIndex
    matcher: LabelMatcher | None
    memory: DocumentMemory | None
    scoreable: np.ndarray
    among: np.ndarray | None = None
    linear: LinearLabels | None = None

    def candidates(
        self, encoded: Encoded, allowed: np.ndarray | None = None, k: int = N_PROTOTYPES
    ) -> Candidates:
        """Candidates of encoded documents, all of them with a vector.

        ``allowed`` (n_labels,) bool: labels that may be candidates; ``k``: how many the label index gives.
        """
        may = self.scoreable if allowed is None else self.scoreable & allowed
        vectors = encoded.towers * self.encoder.scale
        queries = np.hstack([vectors, np.ones((len(vectors), 1), np.float32)])
        found = self.index.search(queries, k, may)
        neighbours, votes = self._vote(vectors, may)
        of_doc = np.repeat(np.arange(len(queries)), found.rows.shape[1])
        voters, voted = votes.nonzero()
        proposed = _keys(of_doc, found.rows.ravel(), may)
        pairs, matched = self._match(encoded, _distinct(proposed, _keys(voters, voted, may)), may)
        of_doc, rows = np.divmod(pairs, len(may))
        features = np.zeros((len(rows), len(SOURCES)), np.float32)
        features[:, 0] = self._with_scores(pairs, proposed, found.scores.ravel(), queries)
        features[:, 1:4] = matched
        if votes.nnz:
            features[:, 4] = np.asarray(votes[of_doc, rows]).ravel()
        if self.linear is not None:
            words = strongest(encoded.features, self.encoder.lexical.n_words)
            features[:, 5] = self.linear.scores(words, of_doc, rows)
        return Candidates(np.searchsorted(of_doc, np.arange(len(queries) + 1)), rows, features, neighbours)

    def trained_scores(self, encoded: Encoded, found: Candidates) -> np.ndarray:
        """(n_candidates,) float32 the part of the prototypes' scores that the trained tower gives."""
        if encoded.trained is None:
            return np.zeros(len(found.rows), np.float32)
        queries = np.hstack(
            [encoded.towers * self.encoder.scale, np.zeros((len(encoded.lexical), 1), np.float32)]
        )
        queries[:, : self.encoder.untrained_dim] = 0
        return self._prototype_scores(queries, found.of_doc, found.rows)

    def _vote(self, vectors: np.ndarray, may: np.ndarray) -> tuple[Shortlist | None, sp.csr_matrix]:
        """The neighbours, and (n, n_labels) their votes for labels that may be suggested."""
        if self.memory is None:
            return None, sp.csr_matrix((len(vectors), len(may)), dtype=np.float32)
        found = self.memory.neighbours(vectors, N_NEIGHBOURS, self.among)
        votes = self.memory.votes(found)
        votes.data[~may[votes.indices]] = 0
        votes.eliminate_zeros()
        return found, votes

    def _match(self, encoded: Encoded, pairs: np.ndarray, may: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``pairs`` with those of the matcher added, and (n_pairs, 3) lexical scores of all."""
        if self.matcher is None:
            return pairs, np.zeros((len(pairs), 3), np.float32)
        n_labels = len(may)
        all_pairs, values = [], []
        for block, *scores in self.matcher.blocks(encoded.features, encoded.leads):
            of_doc, rows = best_columns(scores[0], N_MATCHES, may)
            first, last = np.searchsorted(pairs, [block.start * n_labels, block.stop * n_labels])
            mine = _distinct(pairs[first:last], (of_doc + block.start) * n_labels + rows)
            of_doc, rows = np.divmod(mine, n_labels)
            of_doc -= block.start
            all_pairs.append(mine)
            values.append(np.stack([score[of_doc, rows] for score in scores], axis=1))
        return np.concatenate(all_pairs), np.concatenate(values)

    def _with_scores(
        self, pairs: np.ndarray, proposed: np.ndarray, found: np.ndarray, queries: np.ndarray
    ) -> np.ndarray:
        """(n_pairs,) the prototypes' scores; the search ``found`` those of the pairs that it ``proposed``."""
        scores, unknown = np.empty(len(pairs), np.float32), np.ones(len(pairs), bool)
        known = np.searchsorted(pairs, proposed)
        scores[known], unknown[known] = found, False
        of_doc, rows = np.divmod(pairs[unknown], len(self.scoreable))
        scores[unknown] = self._prototype_scores(queries, of_doc, rows)
        return scores

    def _prototype_scores(self, queries: np.ndarray, of_doc: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(n_pairs,) float32 inner products with the prototypes, each independent of the batch."""
        tensor = torch.from_numpy(np.ascontiguousarray(queries))
        return pair_scores(tensor, self.index.vectors, of_doc, rows)


def _distinct(*keys: np.ndarray) -> np.ndarray:
    """The different integers of all arrays, ascending; `np.unique` takes five times as long for pairs."""
    ordered = np.sort(np.concatenate(keys))
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))]


def _keys(of_doc: np.ndarray, rows: np.ndarray, may: np.ndarray) -> np.ndarray:
    """One integer for each pair of a document and a label row, in document order."""
    return of_doc.astype(np.int64) * len(may) + rows
