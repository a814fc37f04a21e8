"""Which structure fits how many vectors: clustering needs points, and too few of them get exact search.

FAISS wants 39 to 256 training points per centroid. Inverted lists of fewer than ``MIN_LISTS`` clusters, and a
product quantiser, which has 256 centroids, on fewer points than those need, are not built.
"""

from __future__ import annotations

import math

from xmc.errors import SettingError

POINTS_PER_CLUSTER = 39
MIN_LISTS = 8
PQ_CENTROIDS = 256
GRAPHS = ("hnsw", "cagra")
ANN_KINDS = (*GRAPHS, "pca", "ivf_flat", "ivf_sq8", "ivf_pq")
# CAGRA makes its graph from a smaller one of as many links.
CAGRA_POINTS = 128


def n_lists(n: int) -> int:
    """Inverted lists for ``n`` vectors: 4 sqrt(n), as far as there are points enough for each."""
    return min(n // POINTS_PER_CLUSTER, round(4 * math.sqrt(n)))


def points_needed(kind: str) -> int:
    """The fewest vectors that ``kind`` is built for."""
    if kind == "ivf_pq":
        return POINTS_PER_CLUSTER * PQ_CENTROIDS
    if kind in (*GRAPHS, "pca"):
        return CAGRA_POINTS if kind == "cagra" else 1
    return POINTS_PER_CLUSTER * MIN_LISTS


def fit(kind: str, n: int, strict: bool) -> tuple[str, str]:
    """The kind of structure to build for ``n`` vectors, "exact" for none, and a notice if it is not ``kind``.

    Raises:
        SettingError: the kind does not fit and ``strict`` forbids another.
    """
    need = points_needed(kind)
    if n >= need:
        return kind, ""
    found = f"index.kind={kind} needs {need} vectors ({POINTS_PER_CLUSTER} per cluster), found {n}"
    if strict:
        raise SettingError(
            f"{found}; choose index.kind=exact, or strict=false to let a fitting kind be chosen"
        )
    built = "ivf_flat" if n >= points_needed("ivf_flat") else "exact"
    return built, f"{found}: {built} is used instead"
