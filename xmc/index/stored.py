"""What all kinds have in common that keep their vectors here: changes, compaction, saving, loading."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from xmc.errors import ArtifactError, ResourceError
from xmc.index import files
from xmc.index.base import LabelIndex, Metric, Shortlist, check_rows, check_vectors
from xmc.index.kernel import to_unit
from xmc.index.scan import Scan
from xmc.index.store import VectorStore

Self = TypeVar("Self", bound="StoredIndex")


class StoredIndex(LabelIndex):
    """A label index over a :class:`VectorStore`; a kind adds how the main segment is searched.

    Attributes:
        MAIN_FILES: the files that hold the main segment, and so change only when it is built anew.
    """

    MAIN_FILES = frozenset({files.MAIN})

    def __init__(self, dim: int, metric: Metric = "cosine", device: str = "cpu") -> None:
        """An empty index whose vectors lie on ``device``: "cpu", "cuda", "cuda:1", or "auto".

        Raises:
            ResourceError: the device is not there.
        """
        super().__init__(dim, metric)
        self._device = resolve_device(device)
        none = np.zeros(0, dtype=np.int64)
        self._store = VectorStore(torch.empty((0, dim), device=self._device), none, none)
        self._as_loaded: frozenset[str] = frozenset()

    @property
    def n_rows(self) -> int:
        """See :meth:`LabelIndex.n_rows`."""
        return self._store.n_rows

    @property
    def n_searchable(self) -> int:
        """See :meth:`LabelIndex.n_searchable`."""
        return int(np.count_nonzero(self._store.live))

    @property
    def searchable_rows(self) -> np.ndarray:
        """(n_searchable,) int64: the rows that have a vector and are not retired, ascending."""
        return np.sort(self._store.row_at[self._store.live])

    def has(self, rows: np.ndarray) -> np.ndarray:
        """See :meth:`LabelIndex.has`."""
        return self._store.has(np.asarray(rows, dtype=np.int64))

    def add(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """See :meth:`LabelIndex.add`."""
        rows = check_rows(rows)
        stored = self._stored_form(rows, vectors)
        self._store.add(
            rows, stored, adopt=not np.asarray(vectors).flags.writeable or self.metric == "cosine"
        )

    def replace(self, rows: np.ndarray, vectors: np.ndarray) -> None:
        """See :meth:`LabelIndex.replace`."""
        rows = check_rows(rows)
        self._store.replace(rows, self._stored_form(rows, vectors))

    def retire(self, rows: np.ndarray) -> None:
        """See :meth:`LabelIndex.retire`."""
        self._store.set_retired(check_rows(rows), True)

    def restore(self, rows: np.ndarray) -> None:
        """See :meth:`LabelIndex.restore`."""
        self._store.set_retired(check_rows(rows), False)

    def remove(self, rows: np.ndarray) -> None:
        """See :meth:`LabelIndex.remove`."""
        self._store.remove(check_rows(rows))

    def copy(self: Self) -> Self:
        """See :meth:`LabelIndex.copy`."""
        made = copy.copy(self)
        made._store = self._store.copy()
        return made

    def renumbered(self: Self, rows: np.ndarray) -> Self:
        """See :meth:`LabelIndex.renumbered`."""
        made = copy.copy(self)
        made._put(self._store.renumbered(check_rows(rows)))
        return made

    def compact(self, queries: np.ndarray | None = None) -> None:
        """See :meth:`LabelIndex.compact`."""
        self._put(self._store.compacted())

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """See :meth:`LabelIndex.vectors`."""
        positions = self._store.positions(np.asarray(rows, dtype=np.int64))
        return torch.as_tensor(self._store.take(positions)).cpu().numpy()

    def _put(self, store: VectorStore) -> None:
        """Put another store in the place of this one; what was built over its main segment goes."""
        self._store, self._as_loaded = store, frozenset()

    @property
    def as_loaded(self) -> frozenset[str]:
        """See :meth:`LabelIndex.as_loaded`."""
        return self._as_loaded

    def save(self, directory: Path, without: frozenset[str] = frozenset()) -> None:
        """See :meth:`LabelIndex.save`."""
        described = {"kind": self.kind, "dim": self.dim, "metric": self.metric, "notice": self.notice}
        described |= self._save_structure(directory, without)
        files.save(directory, self._store, described, without)

    @classmethod
    def load(cls: type[Self], directory: Path, n_rows: int | None = None, device: str = "cpu") -> Self:
        """The index that :meth:`save` wrote; on the CPU its main vectors are mapped from their file.

        Args:
            directory: where :meth:`save` wrote.
            n_rows: how many labels there are; a row beyond them is an error.
            device: where the vectors shall lie.

        Raises:
            ArtifactError: a file is missing, damaged, or does not fit the others.
            ResourceError: the device is not there, or a file cannot be read.
        """
        described = files.load_description(directory)
        index = cls._from_description(directory / "index.json", described, device)
        index.notice = described["notice"]
        arrays = files.load_arrays(directory, index.dim, n_rows)
        main, tail = (files.as_tensor(part).to(index._device) for part in (arrays.main, arrays.tail))
        index._store = VectorStore(main, arrays.rows, arrays.retired, tail)
        index._load_structure(directory, described)
        if len(main):  # else what is changed becomes the main segment of what is saved
            index._as_loaded = frozenset(n for n in cls.MAIN_FILES if (directory / n).is_file())
        return index

    @classmethod
    def _from_description(cls: type[Self], path: Path, described: dict[str, Any], device: str) -> Self:
        """An empty index as index.json describes it."""
        if described["kind"] != cls.kind:
            raise ArtifactError(f"{path}: found an index of kind {described['kind']!r}, wanted {cls.kind}")
        return cls(described["dim"], described["metric"], device)

    def _save_structure(self, directory: Path, without: frozenset[str]) -> dict[str, Any]:
        """Write what a kind keeps besides the vectors; what index.json shall say of it."""
        return {}

    def _load_structure(self, directory: Path, described: dict[str, Any]) -> None:
        """Load what :meth:`_save_structure` wrote."""

    def _search(self, queries: np.ndarray, k: int, allowed: np.ndarray | None) -> Shortlist:
        eligible = self._store.live
        if allowed is not None and self.n_rows:
            eligible = eligible & allowed[np.maximum(self._store.row_at, 0)]
        asked = files.as_tensor(to_unit(queries) if self.metric == "cosine" else queries)
        n_best = min(k, int(np.count_nonzero(eligible)))
        return Shortlist(*self._best(asked.to(self._device), n_best, eligible))

    def _best(self, queries: Tensor, k: int, eligible: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The k best rows among the (n_positions,) ``eligible``, k <= their number, and their scores."""
        return Scan(self._store, eligible).search(queries, k)

    def _stored_form(self, rows: np.ndarray, vectors: np.ndarray) -> Tensor:
        array = check_vectors(vectors, self.dim, "row", rows)
        return files.as_tensor(to_unit(array) if self.metric == "cosine" else array).to(self._device)


def resolve_device(device: str) -> torch.device:
    """The torch device of that name; "auto" is the CUDA device where there is one.

    Raises:
        ResourceError: it is not there.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError) as error:  # torch built without CUDA raises an AssertionError
        reason = str(error).splitlines()[0]
        raise ResourceError(f"device={device}: not available here ({reason}); use device=cpu") from error
    return resolved
