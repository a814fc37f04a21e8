"""LabelSide: the labels' parts while they are trained, their prototypes, and centroids kept current."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from xmc.encoders.trained import TrainedTower
from xmc.index.kinds import make_index
from xmc.network import LabelPrototypeNetwork
from xmc.train.data import TrainingData, mean_ndcg, mean_psp
from xmc.train.free import FreeStep, FreeVectors

N_HARD = 40  # wrong labels mined for each document
FREE_LIMIT = 1_000_000  # labels with a free vector of their own
N_DEV = 1000  # documents that an epoch is judged by
BLOCK = 8192  # labels or documents at a time
NOTHING = 1e-12  # the score of a label whose parts are all zero; the index takes no zero vector


@dataclass
class Side:
    """The labels of one step; ``free`` (n, dim): zero rows where there is none, ``taken``: what it is of."""

    rows: Tensor
    text: Tensor
    frequency: Tensor
    free: Tensor
    taken: FreeStep
    prototypes: Tensor
    bias: Tensor


class LabelSide:
    """Text vectors, running centroids and free vectors of the labels ``rows``; documents have ``seen``.

    Where labels are learned ``by_text``, those without documents compete too; elsewhere they would only ever
    be wrong, so they are left out, and get no trained prototype. The texts' vectors are those of the tower
    before training and stay: if they moved with the words, documents would run after a moving target.
    Of more than ``free_limit`` labels with documents some share free vectors, drawn from ``seed``.
    ``texts``: the tower that encodes labels' texts, if that is not the documents' as it is now.
    """

    def __init__(
        self,
        data: TrainingData,
        tower: TrainedTower,
        network: LabelPrototypeNetwork,
        by_text: bool,
        free_limit: int = FREE_LIMIT,
        seed: int = 0,
        texts: TrainedTower | None = None,
    ) -> None:
        self.data, self.tower, self.network = data, tower, network
        frequency = data.frequency
        self.has_text = (np.diff(data.label_features.indptr) > 0) | data.label_dense.any(axis=1)
        chosen = (frequency > 0) | (self.has_text if by_text else False)
        self.rows = np.flatnonzero(chosen & data.active)
        self.frequency = torch.from_numpy(frequency.astype(np.float32))
        self.place = torch.full((len(frequency),), -1)
        self.seen = seen = np.flatnonzero((frequency > 0) & data.active)
        self.place[torch.from_numpy(seen)] = torch.arange(len(seen))
        self.free = FreeVectors(len(seen), tower.dim, free_limit, seed)
        if not by_text:
            self.free.own[:, 0] = torch.from_numpy(np.log((frequency[seen] + 0.5) / max(1, len(data.docs))))
        self.sums = torch.zeros(max(1, len(seen)), tower.dim)  # one row is always there to be looked up
        self.latest = torch.zeros(data.gold.shape[0], tower.dim, dtype=torch.float16)
        self.text = torch.zeros(len(frequency), tower.dim)
        n_hard = N_HARD if by_text and len(self.rows) > N_HARD else 0
        self.hard = np.zeros((data.gold.shape[0], n_hard), np.int64)
        self._sum_all()
        self._encode_texts(texts or tower)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint needs besides the weights."""
        own = {"latest": self.latest, "text": self.text, "hard": torch.from_numpy(self.hard)}
        return own | self.free.moments()

    def side(self, rows: np.ndarray) -> Side:
        """Prototypes of label rows, with gradients to the network and the free vectors."""
        at = torch.from_numpy(rows)
        place = self.place[at]
        seen = (torch.nonzero(place >= 0)[:, 0],)
        taken = self.free.take(place[seen])
        free = torch.zeros(len(rows), self.tower.dim).index_put(seen, taken.vectors)
        bias = torch.zeros(len(rows)).index_put(seen, taken.bias)
        text, frequency = self.text[at], self.frequency[at]
        prototypes = self.network(text, self._centroids(at), free, frequency)
        return Side(at, text, frequency, free, taken, prototypes, bias)

    def without_own(self, side: Side, docs: Tensor, kept: Tensor, of_doc: Tensor, column: Tensor) -> Tensor:
        """(n_pairs,) logits of gold pairs, whose label's centroid leaves the document itself out.

        A label that this document alone has is scored by its text, as new labels are.
        """
        others = self.sums[self.place[side.rows[column]]] - self.latest[docs[of_doc]].float()
        frequency = side.frequency[column] - 1
        centroid = functional.normalize(others, dim=1) * (frequency > 0)[:, None]
        texts, free = side.text[column], side.free[column]
        prototypes = self.network(texts, centroid, free, frequency, side.frequency[column])
        return (kept[of_doc] * prototypes).sum(dim=1) + side.bias[column]

    def remember(self, docs: np.ndarray, vectors: Tensor) -> None:
        """Put documents' fresh vectors in the place of their older ones in the centroids."""
        at, coo = torch.from_numpy(docs), self.data.gold[docs].tocoo()
        kept = vectors.half()
        change = kept.float() - self.latest[at].float()
        self.latest[at] = kept
        place = self.place[torch.from_numpy(coo.col.astype(np.int64))]
        known = place >= 0
        self.sums.index_add_(0, place[known], change[torch.from_numpy(coo.row.astype(np.int64))[known]])

    def mine(self) -> None:
        """The wrong labels that score highest for each training document now (ANCE; NGAME)."""
        if self.hard.shape[1]:
            self.hard[self.data.docs] = self._search(self.data.docs, N_HARD)

    def hard_for(self, rows: np.ndarray) -> np.ndarray:
        """(any,) hard label rows of documents."""
        return self.hard[rows].ravel()

    @torch.no_grad()
    def prototypes(self, rows: np.ndarray) -> Tensor:
        """(n, dim + 1) prototypes and biases of label rows."""
        out = torch.zeros(len(rows), self.tower.dim + 1)
        for start in range(0, len(rows), BLOCK):
            side = self.side(rows[start : start + BLOCK])
            out[start : start + BLOCK] = torch.cat([side.prototypes, side.bias[:, None]], dim=1)
        return out

    def quality(self, metric: str = "ndcg") -> float:
        """nDCG@5 or (``psp``) PSP@5 of the dev documents, over the labels that are trained."""
        data = self.data
        usable = np.flatnonzero(np.diff(data.dev_gold.indptr) > 0)
        usable = usable[:: max(1, -(-len(usable) // N_DEV))]
        if not len(usable) or not len(self.rows):
            return 0.0
        ranked = self._search(data.dev[usable], 5)
        if metric == "ndcg":
            return mean_ndcg(ranked, data.dev_gold[usable])
        return mean_psp(ranked, data.dev_gold[usable], data.inverse_propensity)

    def _search(self, docs: np.ndarray, k: int) -> np.ndarray:
        """(n_docs, k) the best label rows of documents."""
        index = make_index("exact", self.tower.dim + 1, "ip", len(self.rows))
        prototypes = self.prototypes(self.rows).numpy()
        prototypes[~prototypes.any(axis=1), -1] = NOTHING
        index.add(self.rows, prototypes)
        index.compact()
        out = np.zeros((len(docs), min(k, len(self.rows))), np.int64)
        for start in range(0, len(docs), BLOCK):
            vectors = self._encode(docs[start : start + BLOCK]).numpy()
            queries = np.hstack([vectors, np.ones((len(vectors), 1), np.float32)])
            out[start : start + BLOCK] = index.search(queries, k).rows
        return out

    def _centroids(self, rows: Tensor) -> Tensor:
        place = self.place[rows]
        sums = self.sums[place.clamp(min=0)] * (place >= 0)[:, None]
        return functional.normalize(sums, dim=1)

    @torch.no_grad()
    def _encode(self, docs: np.ndarray) -> Tensor:
        return self.tower.head(self.data.dense_of(docs), self.tower.bags(self.data.features[docs]))

    @torch.no_grad()
    def _sum_all(self) -> None:
        for start in range(0, len(self.data.docs), BLOCK):
            docs = np.sort(self.data.docs[start : start + BLOCK])
            self.remember(docs, self._encode(docs))

    @torch.no_grad()
    def _encode_texts(self, tower: TrainedTower) -> None:
        """The vectors of the label texts."""
        for start in range(0, len(self.rows), BLOCK):
            rows = self.rows[start : start + BLOCK]
            dense = torch.from_numpy(np.array(self.data.label_dense[rows], np.float32))
            vectors = tower.head(dense, tower.bags(self.data.label_features[rows]))
            self.text[torch.from_numpy(rows)] = vectors
