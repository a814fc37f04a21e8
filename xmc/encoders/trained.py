"""TrainedTower: words and the dense tower's vector through trained weights into one vector.

The bag of words' embeddings starts as a random projection (Johnson-Lindenstrauss), the dense part as the
dense tower's vector itself and the residual layer as nothing, so that an untrained tower already keeps both
similarities (sparse-dense hybrids: Luan et al., TACL 2021); what training adds is learned from there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from xmc.artifacts import load_array, load_tensors, save_array, save_tensors
from xmc.errors import ArtifactError

BLOCK = 4096  # texts at a time


class DocumentHead(nn.Module):
    """Joins the towers' (n, dense_dim) and (n, bag_dim) vectors into (n, dense_dim + bag_dim) unit vectors.

    ``dense_dim`` may be 0. Learned: the towers' weights, a map of the dense vector, and a residual layer.
    """

    def __init__(self, dense_dim: int, bag_dim: int) -> None:
        super().__init__()
        self.dense_dim, self.bag_dim = dense_dim, bag_dim
        dim = dense_dim + bag_dim
        self.map = nn.Parameter(torch.eye(dense_dim))
        self.weights = nn.Parameter(torch.ones(2))
        self.inner = nn.Linear(dim, dim)
        self.outer = nn.Linear(dim, dim)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.dense_dim + self.bag_dim

    def forward(self, dense: Tensor, bag: Tensor) -> Tensor:
        """(n, dim) unit vectors; where both towers' rows are zero, so is the vector."""
        parts = [
            self.weights[0] * functional.normalize(dense @ self.map, dim=1),
            self.weights[1] * functional.normalize(bag, dim=1),
        ]
        joined = torch.cat(parts, dim=1)
        vectors = joined + self.outer(functional.gelu(self.inner(joined)))
        known = joined.detach().abs().amax(dim=1, keepdim=True) > 0
        return functional.normalize(vectors, dim=1) * known


@dataclass(frozen=True)
class Draw:
    """How a tower's embeddings were drawn: so many rows, ``counts``, from each of ``seeds``, end to end.

    ``place`` (n_kept,): which of all these rows each feature has.
    """

    seeds: tuple[int, ...]
    counts: tuple[int, ...]
    place: np.ndarray

    @classmethod
    def once(cls, seed: int, n: int) -> Draw:
        """Of ``n`` features at the same time."""
        return cls((seed,), (n,), np.arange(n))

    def again(self, kept: np.ndarray, seed: int) -> Draw:
        """Of other features, which are those at ``kept`` (n,) of the ones before, or, where it is -1, new."""
        new = kept < 0
        place = np.where(new, sum(self.counts) + np.cumsum(new) - 1, self.place[kept])
        # Each draw has a seed of its own: new features must not get the numbers of old ones.
        seeds = (*self.seeds, seed + (len(self.seeds) << 32))
        return Draw(seeds, (*self.counts, int(new.sum())), place)

    def rows(self, dim: int) -> Tensor:
        """(n_kept, dim) the embeddings."""
        drawn = [_drawn(seed, n, dim) for seed, n in zip(self.seeds, self.counts, strict=True)]
        return drawn[0] if len(drawn) == 1 else torch.cat(drawn)[torch.from_numpy(self.place)]


def _drawn(seed: int, n: int, dim: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.empty(n, dim).normal_(0, 1 / math.sqrt(dim), generator=generator)


class TrainedTower:
    """Sparse features and dense vectors to trained unit vectors.

    ``columns`` (n_kept,): the features that have an embedding, ascending; ``n_features``: of how many;
    ``bag`` (n_kept, bag_dim): their embeddings.
    """

    def __init__(self, columns: np.ndarray, n_features: int, bag: Tensor, head: DocumentHead) -> None:
        self.columns, self.n_features, self.bag, self.head = columns, n_features, bag, head
        self._place = np.full(n_features, -1, np.int32)
        self._place[columns] = np.arange(len(columns), dtype=np.int32)

    @classmethod
    def untrained(
        cls, columns: np.ndarray, n_features: int, dense_dim: int, bag_dim: int, seed: int
    ) -> TrainedTower:
        """A tower that keeps the similarities of words, up to noise, and of dense vectors."""
        return cls.drawn(columns, n_features, dense_dim, bag_dim, Draw.once(seed, len(columns)))

    @classmethod
    def drawn(
        cls, columns: np.ndarray, n_features: int, dense_dim: int, bag_dim: int, draw: Draw
    ) -> TrainedTower:
        """The same with embeddings that were drawn at several times."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw.seeds[0])
            head = DocumentHead(dense_dim, bag_dim)
        return cls(columns, n_features, draw.rows(bag_dim), head)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.head.dim

    def select(self, features: sp.csr_matrix) -> sp.csr_matrix:
        """(n, n_kept) the features that have an embedding, at unit length again."""
        place = self._place[features.indices]
        kept = place >= 0
        counts = np.concatenate([[0], np.cumsum(kept)])[features.indptr]
        data, of_row = features.data[kept], np.repeat(np.arange(len(counts) - 1), np.diff(counts))
        lengths = np.sqrt(np.bincount(of_row, data.astype(np.float64) ** 2, len(counts) - 1))
        data = (data / np.maximum(lengths, 1e-12)[of_row]).astype(np.float32)
        return sp.csr_matrix((data, place[kept], counts), (features.shape[0], len(self.columns)))

    def bags(self, selected: sp.csr_matrix) -> Tensor:
        """(n, bag_dim) weighted sums of the embeddings of (n, n_kept) features."""
        if not selected.nnz:
            return torch.zeros(selected.shape[0], self.bag.shape[1])
        return functional.embedding_bag(
            torch.from_numpy(selected.indices.astype(np.int64)),
            self.bag,
            torch.from_numpy(selected.indptr[:-1].astype(np.int64)),
            mode="sum",
            per_sample_weights=torch.from_numpy(np.ascontiguousarray(selected.data, np.float32)),
        )

    @torch.no_grad()
    def encode(self, features: sp.csr_matrix, dense: np.ndarray) -> np.ndarray:
        """(n, dim) float32 unit rows of (n, n_features) features and (n, dense_dim) vectors; or zero rows."""
        out = np.zeros((features.shape[0], self.dim), np.float32)
        for start in range(0, len(out), BLOCK):
            block = slice(start, start + BLOCK)
            given = torch.from_numpy(np.array(dense[block], np.float32))
            out[block] = self.head(given, self.bags(self.select(features[block]))).numpy()
        return out

    def save(self, directory: Path) -> None:
        """Write the weights and which features they belong to."""
        tensors = {f"head.{name}": value for name, value in self.head.state_dict().items()}
        save_tensors(directory / "trained.safetensors", tensors | {"bag": self.bag})
        save_array(directory / "trained_columns.npy", self.columns)

    @classmethod
    def load(cls, directory: Path, n_features: int, dense_dim: int) -> TrainedTower:
        """Read what ``save`` wrote. Raises ArtifactError where the parts do not fit."""
        tensors = load_tensors(directory / "trained.safetensors")
        columns = load_array(directory / "trained_columns.npy")
        bag = tensors.pop("bag", torch.zeros(0))
        rising = columns.dtype == np.int64 and columns.ndim == 1 and (np.diff(columns) > 0).all()
        within = rising and (not len(columns) or (columns[0] >= 0 and columns[-1] < n_features))
        inner = tensors.get("head.inner.weight", torch.zeros(0))
        shaped = bag.dtype == torch.float32 and bag.ndim == 2 and len(bag) == len(columns)
        # Compared before a head of that size is made.
        if not within or not shaped or tuple(inner.shape) != (dense_dim + bag.shape[1],) * 2:
            raise ArtifactError(f"{directory}: trained weights and features do not fit; train again")
        head = DocumentHead(dense_dim, bag.shape[1])
        state = {name.removeprefix("head."): value for name, value in tensors.items()}
        load_state(head, state, directory / "trained.safetensors")
        require_finite({"bag": bag}, directory / "trained.safetensors")
        return cls(columns, n_features, bag, head)


def load_state(module: nn.Module, state: dict[str, Tensor], where: Path) -> None:
    """Put weights into a module. Raises ArtifactError where names, shapes or numbers are not its own."""
    require_finite(state, where)
    try:
        module.load_state_dict(state)
    except RuntimeError:
        raise ArtifactError(f"{where}: not the weights of this version; train again") from None


def require_finite(tensors: dict[str, Tensor], where: Path) -> None:
    """Raise ArtifactError where a number is not finite."""
    for name, value in tensors.items():
        if value.dtype != torch.float32:
            raise ArtifactError(f"{where}: {name} holds {value.dtype}, wanted float32; train again")
        if not torch.isfinite(value).all():
            raise ArtifactError(f"{where}: {name} holds numbers that are not finite; train again")
