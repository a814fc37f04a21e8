"""CAGRA (Ootomo et al., ICDE 2024): a graph of near neighbours that is built on a GPU.

FAISS makes it where it was built with cuVS. What is kept is its CPU form, a graph that is searched like
HNSW's, so an index built beside a GPU is read anywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xmc.errors import ResourceError
from xmc.index.native import load_faiss

# Links per node, and those of the graph that it is pruned from.
DEGREE = 32
FULL_DEGREE = 64


def require_cagra() -> None:
    """Raise ResourceError where there is no GPU, or FAISS cannot build the graph on it."""
    faiss = load_faiss()
    n_gpus = faiss.get_num_gpus() if hasattr(faiss, "get_num_gpus") else 0
    if n_gpus and hasattr(faiss, "GpuIndexCagra"):
        return
    has = "with" if hasattr(faiss, "GpuIndexCagra") else "without"
    raise ResourceError(
        f"index.kind=cagra is built on a GPU by FAISS with cuVS, found {n_gpus} GPUs and FAISS {has} it; "
        "choose index.kind=hnsw, or build where they are: what is built is read anywhere"
    )


def build_cagra(vectors: np.ndarray) -> Any:
    """FAISS's CPU form of the graph of (n, dim) float32 vectors, by inner product.

    Raises:
        ResourceError: see :func:`require_cagra`.
    """
    require_cagra()
    faiss = load_faiss()
    config = faiss.GpuIndexCagraConfig()
    config.graph_degree = DEGREE
    config.intermediate_graph_degree = FULL_DEGREE
    resources = faiss.StandardGpuResources()
    index = faiss.GpuIndexCagra(resources, vectors.shape[1], faiss.METRIC_INNER_PRODUCT, config)
    index.train(vectors)
    return faiss.index_gpu_to_cpu(index)
