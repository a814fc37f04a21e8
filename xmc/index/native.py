"""The one module through which FAISS is reached: torch first, FAISS second, always.

Both bring their own OpenMP and BLAS, and on some systems a process crashes when they are loaded in the
wrong order. Nothing outside ``xmc.index`` imports faiss, and inside it only :func:`load_faiss` does.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from xmc.errors import ResourceError


def load_faiss() -> Any:
    """The faiss module, loaded after torch and working with as many threads as torch does.

    Raises:
        ResourceError: FAISS is not installed, or its libraries do not load here.
    """
    try:
        import faiss
    except ImportError as error:
        raise ResourceError(
            f'this index kind needs FAISS, which cannot be loaded ({error}): pip install "xmc[cpu]" '
            'or "xmc[gpu]", or choose index.kind=exact'
        ) from error
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def _one_thread_after_fork() -> None:
    """A forked child has none of its parent's OpenMP threads, and would wait for them forever."""
    torch.set_num_threads(1)
    faiss = sys.modules.get("faiss")
    if faiss is not None:
        faiss.omp_set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread_after_fork)
