"""The files of an index in its directory: what they hold, and what is refused when they are read.

``index.json`` says what the index is, ``vectors.npy`` and ``tail.npy`` hold its two segments,
``rows.npy`` the row at each position of both (-1 where a newer vector took its place), ``retired.npy`` the
retired rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from xmc.artifacts import load_array, load_json, save_array, save_json
from xmc.errors import ArtifactError
from xmc.index.base import METRICS
from xmc.index.store import VectorStore

REBUILD = "rebuild the index"
MAIN = "vectors.npy"


@dataclass(frozen=True)
class IndexArrays:
    """The arrays of a saved index, checked against each other."""

    main: np.ndarray
    tail: np.ndarray
    rows: np.ndarray
    retired: np.ndarray


def save(directory: Path, store: VectorStore, described: dict[str, Any], without: frozenset[str]) -> None:
    """Write an index into an existing directory, but the files ``without``."""
    main, tail = store.main.vectors, store.tail.vectors
    if not len(main):  # vectors.npy is mapped when it is loaded, tail.npy is read into memory
        main, tail = tail, main
    if MAIN not in without:
        save_array(directory / MAIN, main.cpu().numpy())
    save_array(directory / "tail.npy", tail.cpu().numpy())
    save_array(directory / "rows.npy", store.row_at)
    save_array(directory / "retired.npy", store.retired_rows)
    save_json(directory / "index.json", described)


def load_description(directory: Path) -> dict[str, Any]:
    """The checked content of index.json.

    Raises:
        ArtifactError: it is missing, damaged or says what no index is.
    """
    path = directory / "index.json"
    described = load_json(path)
    wanted: dict[str, Any] = {"kind": str, "dim": int, "metric": str, "notice": str}
    if not isinstance(described, dict):
        raise ArtifactError(f"{path}: found no JSON object; {REBUILD}")
    for name, type_ in wanted.items():
        if type(described.get(name)) is not type_:
            raise ArtifactError(
                f"{path}: {name} is {described.get(name)!r}, wanted {type_.__name__}; {REBUILD}"
            )
    if described["dim"] < 1 or described["metric"] not in METRICS:
        found = f"dim {described['dim']}, metric {described['metric']!r}"
        raise ArtifactError(
            f"{path}: {found}, wanted dim 1 or more, metric {' or '.join(METRICS)}; {REBUILD}"
        )
    return described


def load_arrays(directory: Path, dim: int, n_rows: int | None) -> IndexArrays:
    """The arrays that :func:`save` wrote; the main vectors are mapped from their file.

    Raises:
        ArtifactError: one is missing, damaged, or does not fit the others or the ``n_rows`` labels.
    """
    main = load_array(directory / MAIN)
    tail = load_array(directory / "tail.npy", mmap=False)
    _check(directory / MAIN, main, np.float32, (None, dim))
    _check(directory / "tail.npy", tail, np.float32, (None, dim))
    rows = load_array(directory / "rows.npy", mmap=False)
    _check(directory / "rows.npy", rows, np.int64, (len(main) + len(tail),))
    retired = load_array(directory / "retired.npy", mmap=False)
    _check(directory / "retired.npy", retired, np.int64, (None,))
    current = rows[rows != -1]
    limit = np.iinfo(np.int64).max if n_rows is None else n_rows
    _check_rows(directory / "rows.npy", current, limit)
    _check_rows(directory / "retired.npy", retired, limit)
    unknown = np.setdiff1d(retired, current)
    if len(unknown):
        raise ArtifactError(f"{directory / 'retired.npy'}: row {unknown[0]} has no vector; {REBUILD}")
    return IndexArrays(main, tail, rows, retired)


def as_tensor(array: np.ndarray) -> Tensor:
    """The array as a tensor over the same memory; if the array is read-only, never write to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _check(path: Path, array: np.ndarray, dtype: type, shape: tuple[int | None, ...]) -> None:
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != dtype or not array.flags.c_contiguous:
        wanted_shape = f"({', '.join('n' if n is None else str(n) for n in shape)})"
        wanted = f"{np.dtype(dtype)} {wanted_shape} in C order"
        raise ArtifactError(f"{path}: found {array.dtype} {array.shape}, wanted {wanted}; {REBUILD}")


def _check_rows(path: Path, rows: np.ndarray, n_rows: int) -> None:
    """Rows are unique and lie in 0..n_rows-1."""
    outside = rows[(rows < 0) | (rows >= n_rows)]
    if len(outside):
        raise ArtifactError(f"{path}: row {outside[0]} is outside the {n_rows} labels; {REBUILD}")
    if len(np.unique(rows)) < len(rows):
        raise ArtifactError(f"{path}: a row stands there twice; {REBUILD}")
