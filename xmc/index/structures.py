"""The structures that propose candidates among the vectors of a main segment.

They see the vectors as positions 0..n-1 and only propose: what is returned, and with which score, is decided
by the fixed-order kernel. For a query they propose the same candidates in every batch. Inverted lists are
therefore chosen by our own exact search among the centroids: FAISS's own choice comes from a matrix product
whose rounding changes with the batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from xmc.artifacts import need_space
from xmc.errors import ArtifactError, ResourceError
from xmc.index.cagra import DEGREE, build_cagra
from xmc.index.fitting import GRAPHS, PQ_CENTROIDS, n_lists
from xmc.index.native import load_faiss
from xmc.index.principal import DIMS, Principal
from xmc.index.principal import NAME as PCA
from xmc.index.scan import Scan
from xmc.index.store import VectorStore
from xmc.index.structure import Effort, Structure

# HNSW (Malkov & Yashunin, 2018): links per node, and how widely a node's place is searched at build.
HNSW_LINKS = 24
HNSW_BUILD_BREADTH = 100
# A subvector of the product quantiser: 4 dimensions in one byte.
PQ_DIMS = 4
CLUSTERING_ROUNDS = 10
# Vectors for each centroid that lists and subvectors are clustered from; more take longer for little.
TRAINING_POINTS = 64
# Vectors added at a time.
ADDED = 2**17


class FaissStructure(Structure):
    """A structure that FAISS holds.

    Attributes:
        faiss_index: what is written to disk.
    """

    def __init__(self, name: str, faiss_index: Any) -> None:
        super().__init__(name)
        self.faiss_index = faiss_index

    def save(self, path: Path) -> int:
        """See :meth:`Structure.save`."""
        faiss = load_faiss()
        try:
            faiss.write_index(self.faiss_index, str(path))
        except RuntimeError as error:
            need_space(path.parent, self.n_bytes())
            reason = str(error).splitlines()[0]
            raise ResourceError(f"{path}: cannot be written ({reason})") from error
        return path.stat().st_size

    def n_bytes(self) -> int:
        """See :meth:`Structure.n_bytes`."""
        return resident_bytes(self.name, int(self.faiss_index.ntotal), int(self.faiss_index.d))


class Hnsw(FaissStructure):
    """A graph of near neighbours; HNSW's over vectors in bf16, half the memory of FAISS's own default."""

    @classmethod
    def build(cls, vectors: np.ndarray) -> Hnsw:
        """The graph of (n, dim) vectors; which links it gets varies a little with the number of threads."""
        faiss = load_faiss()
        scalar = faiss.ScalarQuantizer.QT_bf16
        index = faiss.IndexHNSWSQ(vectors.shape[1], scalar, HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = HNSW_BUILD_BREADTH
        index.train(vectors)
        index.add(vectors)
        return cls("hnsw", index)

    def efforts(self, k: int) -> Iterator[Effort]:
        """See :meth:`Structure.efforts`."""
        breadth = max(k, 16)
        while breadth < 2 * self.faiss_index.ntotal:
            yield Effort(breadth, 1)
            breadth *= 2

    def candidates(self, queries: np.ndarray, n: int, breadth: int, mask: np.ndarray | None) -> np.ndarray:
        """See :meth:`Structure.candidates`."""
        faiss = load_faiss()
        breadth = min(max(breadth, n), self.faiss_index.ntotal)
        selector = _selector(mask)
        params = faiss.SearchParametersHNSW(efSearch=breadth, **selector)
        return self.faiss_index.search(queries, n, params=params)[1]


class Ivf(FaissStructure):
    """Inverted lists over flat, 8-bit or product-quantised vectors."""

    def __init__(self, name: str, faiss_index: Any) -> None:
        super().__init__(name, faiss_index)
        self.n_lists = int(faiss_index.nlist)
        centroids = faiss_index.quantizer.reconstruct_n(0, self.n_lists)
        none = np.zeros(0, dtype=np.int64)
        store = VectorStore(torch.from_numpy(centroids), np.arange(self.n_lists), none)
        self._centroids = Scan(store, store.live)

    @classmethod
    def build(cls, name: str, vectors: np.ndarray) -> Ivf:
        """The lists of (n, dim) vectors, as ``name`` (ivf_flat, ivf_sq8, ivf_pq) says."""
        faiss = load_faiss()
        dim, metric = _padded_dim(name, vectors.shape[1]), faiss.METRIC_INNER_PRODUCT
        lists, quantizer = n_lists(len(vectors)), faiss.IndexFlatIP(dim)
        if name == "ivf_flat":
            index = faiss.IndexIVFFlat(quantizer, dim, lists, metric)
        elif name == "ivf_sq8":
            scalar = faiss.ScalarQuantizer.QT_8bit
            index = faiss.IndexIVFScalarQuantizer(quantizer, dim, lists, scalar, metric)
        else:
            bits = PQ_CENTROIDS.bit_length() - 1
            index = faiss.IndexIVFPQ(quantizer, dim, lists, dim // PQ_DIMS, bits, metric)
            index.pq.cp.niter = CLUSTERING_ROUNDS
        index.cp.niter = CLUSTERING_ROUNDS
        n_points = min(len(vectors), max(TRAINING_POINTS * lists, TRAINING_POINTS * PQ_CENTROIDS))
        sample = np.linspace(0, len(vectors) - 1, n_points).astype(np.int64)
        index.train(_padded(name, vectors[sample]))
        for start in range(0, len(vectors), ADDED):  # padding and FAISS make copies
            index.add(_padded(name, vectors[start : start + ADDED]))
        return cls(name, index)

    def efforts(self, k: int) -> Iterator[Effort]:
        """See :meth:`Structure.efforts`."""
        fetch = {"ivf_flat": 1, "ivf_sq8": 2, "ivf_pq": 8}[self.name]
        breadth = self._enough(fetch * k)
        while breadth < self.n_lists:
            yield Effort(breadth, fetch)
            breadth *= 2
        while fetch * k < 2 * self.faiss_index.ntotal:
            yield Effort(self.n_lists, fetch)
            fetch *= 2

    def candidates(self, queries: np.ndarray, n: int, breadth: int, mask: np.ndarray | None) -> np.ndarray:
        """See :meth:`Structure.candidates`."""
        faiss = load_faiss()
        queries = _padded(self.name, queries)
        probes = min(max(breadth, self._enough(n)), self.n_lists)
        lists, nearness = self._centroids.search(torch.from_numpy(queries), probes)
        found = np.empty((len(queries), n), dtype=np.int64)
        scores = np.empty((len(queries), n), dtype=np.float32)
        params = faiss.SearchParametersIVF(nprobe=probes, **_selector(mask))
        pointers = [faiss.swig_ptr(array) for array in (queries, lists, nearness, scores, found)]
        self.faiss_index.search_preassigned_c(len(queries), pointers[0], n, *pointers[1:], False, params)
        return found

    def _enough(self, n: int) -> int:
        """How many lists hold twice ``n`` vectors, on average; fewer would often come short."""
        return math.ceil(2 * n * self.n_lists / self.faiss_index.ntotal)


def resident_bytes(name: str, n: int, dim: int) -> int:
    """About how many bytes of memory the structure of that kind over ``n`` vectors takes."""
    if name in GRAPHS:
        return n * (2 * dim + 8 * HNSW_LINKS + 8 if name == "hnsw" else 4 * dim + 4 * DEGREE + 8)
    if name == PCA:
        return 4 * (n + dim) * min(dim, DIMS)
    code = {"ivf_flat": 4 * dim, "ivf_sq8": dim, "ivf_pq": math.ceil(dim / PQ_DIMS)}[name]
    return n * (code + 8) + 4 * dim * n_lists(n)


def build_structure(name: str, vectors: np.ndarray) -> Structure:
    """The structure of that kind over (n, dim) vectors."""
    if name == PCA:
        return Principal.build(vectors)
    if name == "cagra":
        return Hnsw(name, build_cagra(vectors))
    return Hnsw.build(vectors) if name == "hnsw" else Ivf.build(name, vectors)


def load_structure(path: Path, name: str, n: int, dim: int, n_bytes: int) -> Structure:
    """The structure that :meth:`Structure.save` wrote.

    Raises:
        ArtifactError: the file is damaged, or is not the structure of ``n`` vectors that was asked for.
    """
    if not path.is_file():
        raise ArtifactError(f"{path}: file is missing; rebuild the index")
    if path.stat().st_size != n_bytes:
        raise ArtifactError(f"{path}: found {path.stat().st_size} bytes, wanted {n_bytes}; rebuild the index")
    if name == PCA:
        return Principal.load(path, n, dim)
    faiss = load_faiss()
    try:
        # Maps codes from the file where FAISS can (from 1.11 on), so that they are read when they are needed.
        index = faiss.read_index(str(path), getattr(faiss, "IO_FLAG_MMAP_IFC", 0))
    except Exception as error:  # whatever FAISS makes of a damaged file
        raise ArtifactError(
            f"{path}: FAISS cannot read it ({_one_line(error)}); rebuild the index"
        ) from error
    types = {
        "hnsw": faiss.IndexHNSWSQ,
        "cagra": getattr(faiss, "IndexHNSWCagra", None),
        "ivf_flat": faiss.IndexIVFFlat,
        "ivf_sq8": faiss.IndexIVFScalarQuantizer,
        "ivf_pq": faiss.IndexIVFPQ,
    }
    found = (type(index), index.ntotal, index.d, index.metric_type)
    if found != (types[name], n, _padded_dim(name, dim), faiss.METRIC_INNER_PRODUCT):
        raise ArtifactError(f"{path}: holds {found[0].__name__} of {found[1]} vectors, wanted {n} as {name}")
    return Hnsw(name, index) if name in GRAPHS else Ivf(name, index)


def _selector(mask: np.ndarray | None) -> dict[str, Any]:
    if mask is None:
        return {}
    return {"sel": load_faiss().IDSelectorBitmap(np.packbits(mask, bitorder="little"))}


def _padded_dim(name: str, dim: int) -> int:
    return PQ_DIMS * math.ceil(dim / PQ_DIMS) if name == "ivf_pq" else dim


def _padded(name: str, vectors: np.ndarray) -> np.ndarray:
    """With zeros up to a whole number of subvectors, which changes no inner product."""
    more = _padded_dim(name, vectors.shape[1]) - vectors.shape[1]
    return np.pad(vectors, ((0, 0), (0, more))) if more else vectors


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
