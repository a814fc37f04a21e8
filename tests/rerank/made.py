"""Documents, labels and a memory of random vectors in up to three towers; what a reranker sees of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from xmc.encoders.dual import DualEncoder, Encoded
from xmc.encoders.lexical import unit
from xmc.encoders.windows import WindowVectors
from xmc.index.kinds import make_index
from xmc.memory import DocumentMemory
from xmc.rerank.head import RerankHead
from xmc.rerank.inputs import RerankInputs, rerank_inputs
from xmc.shortlist import Candidates, Shortlister

N_OWN = 3
ALL_TOWERS = ("dense", "words", "trained")
DIMS = {"dense": 6, "words": 5, "trained": 4}


class Made:
    """A shortlister over ``n_labels`` labels and ``n_memory`` documents, and ``n_docs`` encoded documents.

    ``n_candidates`` and ``n_windows``: those of each document, again from the first where they are fewer.
    """

    def __init__(
        self,
        towers: tuple[str, ...] = ALL_TOWERS,
        n_docs: int = 6,
        n_labels: int = 150,
        n_memory: int = 50,
        n_candidates: tuple[int, ...] = (20, 130, 0, 100, 1),
        n_windows: tuple[int, ...] = (1, 0, 16, 40, 3),
    ) -> None:
        self.rng = np.random.default_rng(0)
        self.encoder = self._encoder(towers)
        self.encoded = self._encoded(towers, n_docs, np.resize(n_windows, n_docs))
        index = make_index("exact", self.encoder.dim + 1, "ip")
        index.add(np.arange(n_labels), self._random(n_labels, self.encoder.dim + 1))
        labels = sp.csr_matrix(self.rng.random((n_memory, n_labels)) < 0.1, dtype=np.float32)
        labels[: n_memory // 10] = 0  # documents without labels
        labels.eliminate_zeros()
        memory = self._memory(labels)
        self.shortlister = Shortlister(self.encoder, index, None, memory, np.ones(n_labels, bool))
        self.found = self._candidates(np.resize(n_candidates, n_docs), n_labels)
        n = len(self.found.rows)
        self.own, self.log_odds = self._random(n, N_OWN), self._random(n)

    def _random(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def _encoder(self, towers: tuple[str, ...]) -> DualEncoder:
        """An encoder that knows the sizes of its towers and no more."""
        dense, words, trained = (
            SimpleNamespace(dim=DIMS[name]) if name in towers else None for name in ALL_TOWERS
        )
        return DualEncoder(dense, words, 0.4, trained, 0.3 if trained else 0.0)

    def _encoded(self, towers: tuple[str, ...], n: int, counts: np.ndarray) -> Encoded:
        none = sp.csr_matrix((n, 1), dtype=np.float32)
        words, dense = unit(self._random(n, DIMS["words"])), None
        if "dense" in towers:
            indptr = np.concatenate([[0], np.cumsum(counts)])
            windows = self._random(indptr[-1], DIMS["dense"])
            of_text = sp.csr_matrix((np.ones(len(windows)), np.arange(len(windows)), indptr))
            dense = WindowVectors(unit((of_text @ windows).astype(np.float32)), windows, indptr)
        trained = unit(self._random(n, DIMS["trained"])) if "trained" in towers else None
        return Encoded(dense, none, words, none, trained)

    def _memory(self, labels: sp.csr_matrix) -> DocumentMemory:
        n = labels.shape[0]
        index = make_index("exact", self.encoder.dim, "cosine")
        index.add(np.arange(n), self._random(n, self.encoder.dim))
        return DocumentMemory(index, labels, pa.array([str(i) for i in range(n)], pa.large_string()))

    def _candidates(self, counts: np.ndarray, n_labels: int) -> Candidates:
        rows = [np.sort(self.rng.choice(n_labels, count, replace=False)) for count in counts]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        features = np.zeros((indptr[-1], 5), np.float32)
        return Candidates(indptr, np.concatenate(rows).astype(np.int64), features, self.neighbours(50))

    def neighbours(self, k: int):
        """The ``k`` nearest documents of the memory for each document."""
        vectors = self.encoded.towers * self.encoder.scale
        return self.shortlister.memory.neighbours(vectors, k)

    def with_neighbours(self, k: int) -> Made:
        """The same with other neighbours found."""
        self.found = replace(self.found, neighbours=self.neighbours(k))
        return self

    def inputs(self) -> RerankInputs:
        """What a reranker sees of all documents."""
        return RerankInputs.concat(
            list(rerank_inputs(self.found, self.own, self.log_odds, self.encoded, self.shortlister))
        )

    def of(self, docs: np.ndarray) -> RerankInputs:
        """What it sees of some documents that come in this order, and no others."""
        found, indptr = self.found, self.found.indptr
        places = [np.arange(indptr[doc], indptr[doc + 1]) for doc in docs]
        rows = np.concatenate(places)
        near = found.neighbours
        some = Candidates(
            np.concatenate([[0], np.cumsum([len(place) for place in places])]),
            found.rows[rows],
            found.features[rows],
            None if near is None else replace(near, rows=near.rows[docs], scores=near.scores[docs]),
        )
        given = some, self.own[rows], self.log_odds[rows], self.encoded.take(docs), self.shortlister
        return RerankInputs.concat(list(rerank_inputs(*given)))


def random_inputs(n: int = 5, c: int = 7, k: int = 6, w: int = 3, t: int = 2, seed: int = 0) -> RerankInputs:
    """Inputs of so many documents, candidates, neighbours, windows and towers; some places are empty."""
    draw = torch.Generator().manual_seed(seed)

    def cosines(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=draw) * 2 - 1

    place = torch.arange(n * c).reshape(n, c)
    place[::2, -2:] = -1
    return RerankInputs(
        place,
        cosines(n, c, N_OWN + t) * 5,
        cosines(n, c) * 4,
        (cosines(n, c, k) > 0.5).float(),
        cosines(n, c, k, 1 + t),
        cosines(n, k, 1 + t),
        cosines(n, c, w),
        torch.arange(w).expand(n, w) < torch.arange(n)[:, None] % (w + 1),
    )


def stirred(seed: int = 0, t: int = 2, n_own: int = N_OWN) -> RerankHead:
    """A head whose every weight counts, as after fitting."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = RerankHead(n_own + t, t)
        for weight in head.parameters():
            weight.data.add_(0.5 * torch.randn_like(weight))
        head.mean.copy_(torch.randn_like(head.mean))
        head.spread.copy_(torch.rand_like(head.spread) + 0.5)
    return head.eval()
