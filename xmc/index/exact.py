"""Exact search over all vectors, the kind that every other is measured against."""

from __future__ import annotations

from xmc.index.stored import StoredIndex


class ExactIndex(StoredIndex):
    """Exact top k by torch, on the CPU or a CUDA device."""

    kind = "exact"
