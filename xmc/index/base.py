"""The contract that every label index keeps, whatever its kind, and the checks that all kinds share.

A *row* is the label's row in its LabelSet and stays the label's for life. Rows need not be contiguous: a
row that was never given a vector is not searchable, and nothing that is done to one row moves another.
Every kind must agree with exact search (tests/contract/test_label_index.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from xmc.errors import InputError

Metric = Literal["ip", "cosine"]
METRICS: tuple[Metric, ...] = ("ip", "cosine")
USES = ("batch", "single")

# Beyond this length the product of two fp32 vectors can overflow to infinity.
MAX_LENGTH = 1e18


class IndexInputError(InputError, ValueError):
    """What was given to an index breaks its contract; it is a ValueError too, for callers in Python."""


@dataclass(frozen=True)
class Shortlist:
    """The best rows of each query, (n_queries, k'), k' = min(k, searchable rows).

    Attributes:
        rows: (n_queries, k') int64 label rows, best first, no repeats, never -1; equal scores in row order.
        scores: (n_queries, k') float32, higher is better.
    """

    rows: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)


class LabelIndex(ABC):
    """Vectors of labels by row, searched by inner product or cosine.

    Attributes:
        kind: the name under which ``index.kind`` chooses this index.
        dim: length of every vector.
        metric: "ip" or "cosine", fixed at construction; for "cosine" what is stored and the queries are
            brought to unit length.
        notice: what the user should be told about how the index was built, one sentence, or "".
        choice: after a build, which search was chosen and why, one sentence, or "" where it was not a choice.
    """

    kind: str
    dim: int
    metric: Metric
    notice: str = ""
    choice: str = ""

    def __init__(self, dim: int, metric: Metric = "cosine") -> None:
        if dim < 1:
            raise IndexInputError(f"index: dim is {dim}, wanted at least 1")
        if metric not in METRICS:
            raise IndexInputError(f"index: metric is {metric!r}, wanted one of {', '.join(METRICS)}")
        self.dim = dim
        self.metric = metric

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """One more than the highest row that ever got a vector."""

    @property
    @abstractmethod
    def n_searchable(self) -> int:
        """How many rows have a vector and are not retired."""

    @abstractmethod
    def has(self, rows: np.ndarray) -> np.ndarray:
        """(n,) bool: which of the (n,) rows have a vector, retired or not."""

    @abstractmethod
    def add(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Give the (n,) rows, none of which has a vector yet, their (n, dim) vectors; all or nothing.

        An empty index holds on to vectors that cannot be written to, such as a memory map, without a copy.

        Raises:
            IndexInputError: a row is present (retired rows are), repeated or negative, or a vector is zero,
                has NaN or Inf, or another length; the message names the first five rows.
        """

    @abstractmethod
    def replace(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """Give the (n,) rows, all of which have a vector, new (n, dim) vectors; a retired row stays retired.

        Raises:
            IndexInputError: as for :meth:`add`, and when a row has no vector yet.
        """

    @abstractmethod
    def retire(self, rows: np.ndarray) -> None:
        """Never return the (n,) rows again until they are restored; retiring twice is harmless.

        Raises:
            IndexInputError: a row has no vector.
        """

    @abstractmethod
    def restore(self, rows: np.ndarray) -> None:
        """Bring the (n,) rows back with the vectors they had; restoring a live row is harmless.

        Raises:
            IndexInputError: a row has no vector.
        """

    @abstractmethod
    def remove(self, rows: np.ndarray) -> None:
        """Take the vectors of the (n,) rows out, as if they had never been added.

        Their bytes may lie in saved files until ``compact``, which leaves none.

        Raises:
            IndexInputError: a row has no vector.
        """

    @abstractmethod
    def copy(self) -> LabelIndex:
        """An index with the same content; what is done to one does not change the other."""

    @abstractmethod
    def renumbered(self, rows: np.ndarray) -> LabelIndex:
        """A new index whose rows 0..n-1 have the vectors that the (n,) rows have here, if any.

        It holds no other vectors. Search is exact until ``compact``.
        """

    @property
    def built_as(self) -> str:
        """The kind of search in use: with too few vectors for ``kind`` another one, as ``notice`` says."""
        return self.kind

    @abstractmethod
    def compact(self, queries: np.ndarray | None = None) -> None:
        """Build the main structure anew from all rows; until the first time search is exact.

        What is changed afterwards is searched exactly beside it until the next time.

        Args:
            queries: (n, dim) typical queries, on which an approximate kind measures its recall; without them
                it takes stored vectors, which are easier to find than labels are for documents.
        """

    @abstractmethod
    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """(n, dim) float32: the vectors of the (n,) rows as stored, of unit length for "cosine".

        Raises:
            IndexInputError: a row has no vector.
        """

    @property
    def as_loaded(self) -> frozenset[str]:
        """Names of the files that ``save`` would write as they were when the index was loaded."""
        return frozenset()

    @abstractmethod
    def save(self, directory: Path, without: frozenset[str] = frozenset()) -> None:
        """Write the index's files into an existing, empty directory.

        ``without``: names out of ``as_loaded``, of files that are put there by other means.
        """

    def search(self, queries: np.ndarray, k: int, allowed: np.ndarray | None = None) -> Shortlist:
        """The min(k, searchable) best rows of each of the (n_queries, dim) queries.

        Rows and scores of a query depend on the index and the query alone: not on the other queries, block
        sizes or the number of threads.

        Args:
            queries: (n_queries, dim), finite and nonzero.
            k: how many rows a query gets at most; 0 gives an empty shortlist.
            allowed: (at least n_rows,) bool by row; where False, the row is not returned.

        Raises:
            IndexInputError: k is negative, a query is zero, not finite or of another length, or ``allowed``
                is not a boolean mask over the rows.
        """
        k = check_k(k)
        queries = check_vectors(queries, self.dim, "query")
        mask = check_allowed(allowed, self.n_rows)
        found = self._search(queries, k, mask)
        if found.rows.min(initial=0) < 0:  # as an array index, -1 would silently be the last label
            raise RuntimeError("search left a place empty: this is a bug in the index")
        return found

    @abstractmethod
    def _search(self, queries: np.ndarray, k: int, allowed: np.ndarray | None) -> Shortlist:
        """:meth:`search` after its arguments were checked; ``allowed`` is (n_rows,) bool or None."""


def check_k(k: int) -> int:
    """``k`` as an int, refused when negative or not a whole number."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise IndexInputError(f"search: k is {k!r}, wanted a whole number of 0 or more")
    if k < 0:
        raise IndexInputError(f"search: k is {k}, wanted 0 or more")
    return int(k)


def check_rows(rows: np.ndarray | Sequence[int]) -> np.ndarray:
    """(n,) int64: the rows, refused when negative, repeated or not whole numbers."""
    array = np.asarray(rows)
    if array.ndim != 1:
        raise IndexInputError(f"index: rows have shape {array.shape}, wanted (n,)")
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if not np.issubdtype(array.dtype, np.integer):
        raise IndexInputError(f"index: rows are {array.dtype}, wanted integers")
    array = array.astype(np.int64)
    refuse(array[array < 0], "negative; rows start at 0")
    values, counts = np.unique(array, return_counts=True)
    refuse(values[counts > 1], "given more than once; each row has one vector")
    return array


def check_vectors(vectors: np.ndarray, dim: int, what: str, rows: np.ndarray | None = None) -> np.ndarray:
    """(n, dim) float32, C-contiguous: the vectors, refused when zero, not finite or of another length.

    ``what`` ("row", "query") and ``rows``, by default 0..n-1, name the faulty ones.
    """
    array = np.asarray(vectors)
    if array.ndim != 2 or array.shape[1] != dim:
        raise IndexInputError(f"index: {what} vectors have shape {array.shape}, wanted (n, {dim})")
    if array.dtype.kind not in "fiu":
        raise IndexInputError(f"index: {what} vectors are {array.dtype}, wanted floats")
    with np.errstate(over="ignore"):  # an overflow becomes Inf, which is refused below
        array = np.ascontiguousarray(array, dtype=np.float32)
    names = np.arange(len(array)) if rows is None else rows
    if len(names) != len(array):
        raise IndexInputError(f"index: {len(names)} rows but {len(array)} vectors, wanted as many")
    # One pass for all three faults: a length is NaN or Inf if any component is.
    lengths = np.sqrt(np.einsum("nd,nd->n", array, array, dtype=np.float64))
    refuse(names[~np.isfinite(lengths)], "NaN or Inf; vectors must be finite", what)
    refuse(names[lengths == 0], "zero; a vector needs a direction", what)
    refuse(names[lengths > MAX_LENGTH], f"longer than {MAX_LENGTH:g}; scale the vectors down", what)
    return array


def check_allowed(allowed: np.ndarray | None, n_rows: int) -> np.ndarray | None:
    """(n_rows,) bool: the mask cut to the rows that the index knows, or None."""
    if allowed is None:
        return None
    mask = np.asarray(allowed)
    if mask.ndim != 1 or mask.dtype != np.bool_:
        raise IndexInputError(
            f"search: allowed is {mask.dtype} {mask.shape}, wanted a mask of booleans by row"
        )
    if len(mask) < n_rows:
        raise IndexInputError(f"search: allowed has {len(mask)} rows, wanted at least {n_rows}")
    return mask[:n_rows]


def refuse(faulty: np.ndarray, reason: str, what: str = "row") -> None:
    """Raise :class:`IndexInputError` naming the first five faulty rows, if there are any."""
    if not len(faulty):
        return
    plural = {"row": "rows", "query": "queries"}[what] if len(faulty) > 1 else what
    named = ", ".join(str(int(row)) for row in faulty[:5])
    more = f" and {len(faulty) - 5} more" if len(faulty) > 5 else ""
    raise IndexInputError(f"index: {plural} {named}{more}: {reason}")
