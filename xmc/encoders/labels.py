"""All labels of a set encoded in bounded memory: vectors and features on disk, each different text once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from xmc.artifacts import load_array
from xmc.encoders.cache import TextVectors
from xmc.encoders.lexical import LexicalTower
from xmc.encoders.writer import FeatureWriter, NpyAppender, read_features

PIECE = 20_000  # labels encoded, and kept for resuming, at a time


@dataclass(frozen=True)
class LabelVectors:
    """Encoded texts of ``n_labels`` labels; without a ``directory`` they have no text.

    They are mapped anew whenever they are asked for, so that nothing of them stays in memory unused.
    """

    n_labels: int
    dim: int
    n_features: int
    directory: Path | None = None

    @property
    def towers(self) -> np.ndarray:
        """(n_labels, dim) float32 unit vectors of the towers side by side, zero where a text has none."""
        if self.directory is None:
            return np.broadcast_to(np.float32(0), (self.n_labels, self.dim))
        return load_array(self.directory / "towers.npy")

    @property
    def features(self) -> sp.csr_matrix:
        """(n_labels, n_features) sparse unit rows; only where they were kept."""
        if self.directory is None:
            return sp.csr_matrix((self.n_labels, self.n_features), dtype=np.float32)
        return read_features(self.directory / "features", self.n_features)


class LabelEncoder:
    """Encodes labels into files of a directory.

    Args:
        words: the lexical tower.
        cache: the dense tower behind its cache, None without one.
        directory: made if missing.
        keep_features: also write the texts' sparse features, which training reads.
    """

    def __init__(
        self, words: LexicalTower, cache: TextVectors | None, directory: Path, keep_features: bool
    ) -> None:
        self._words, self._cache, self._directory = words, cache, directory
        directory.mkdir(exist_ok=True)
        self._dim = words.dim + (0 if cache is None else cache.tower.dim)
        self._towers = NpyAppender(directory / "towers.npy", "float32", (self._dim,))
        self._names = FeatureWriter(directory / "names")
        self._features = FeatureWriter(directory / "features") if keep_features else None

    def encode(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        names: Sequence[str],
        starts: np.ndarray,
        done: Callable[[int], object],
    ) -> tuple[LabelVectors, sp.csr_matrix]:
        """The texts of all labels encoded, and the (n_names, n_features) features of their names, mapped.

        ``ids``, ``texts`` (n_labels,), ``names`` (n_names,); ``starts`` (n_labels + 1,) where each label's
        names begin; ``done`` is told how many labels were encoded.
        """
        dense = None if self._cache is None else _DistinctTexts(ids, texts, self._cache, self._directory)
        for start in range(0, len(texts), PIECE):
            piece = slice(start, min(start + PIECE, len(texts)))
            vectors = None if dense is None else dense.vectors(piece)
            self._add(texts[piece], names[starts[start] : starts[piece.stop]], vectors)
            done(piece.stop - start)
        for file in (self._towers, self._names, self._features):
            if file is not None:
                file.close()
        n_features = self._words.n_features
        encoded = LabelVectors(len(texts), self._dim, n_features, self._directory)
        return encoded, read_features(self._directory / "names", n_features)

    def _add(self, texts: Sequence[str], names: Sequence[str], dense: np.ndarray | None) -> None:
        """Some labels; a name that is also the text, as most are, has its features counted once."""
        distinct, codes = _distinct([*texts, *names])
        features = self._words.features(distinct)
        of_texts, _ = self._words.with_leads(texts, features[codes[: len(texts)]])
        lexical = self._words.project(of_texts)
        self._towers.append(lexical if dense is None else np.hstack([dense, lexical]))
        self._names.append(features[codes[len(texts) :]])
        if self._features is not None:
            self._features.append(of_texts)


class _DistinctTexts:
    """Dense vectors of texts, of which each different one is encoded once, when it first comes up."""

    def __init__(self, ids: Sequence[str], texts: Sequence[str], cache: TextVectors, directory: Path) -> None:
        self._cache, self._ids = cache, ids
        self._texts, self._codes = _distinct(texts)
        self._first = np.unique(self._codes, return_index=True)[1]
        shape = (len(self._texts), cache.tower.dim)
        self._vectors = np.lib.format.open_memmap(directory / "dense.npy", "w+", np.float32, shape)
        self._n_encoded = 0

    def vectors(self, piece: slice) -> np.ndarray:
        """(n, dim) of a piece of the texts; pieces come in order."""
        codes = self._codes[piece]
        new = slice(self._n_encoded, max(self._n_encoded, int(codes.max()) + 1))
        if new.stop > new.start:
            names = [self._ids[row] for row in self._first[new]]
            self._vectors[new] = self._cache.encode(self._texts[new], names).vectors
            self._n_encoded = new.stop
        return self._vectors[codes]


def _distinct(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The different texts in the order in which they first come up, and (n,) which of them each text is."""
    found = pa.array(texts, pa.large_string()).dictionary_encode()
    return found.dictionary.to_pylist(), found.indices.to_numpy().astype(np.int64)
