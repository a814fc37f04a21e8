"""GivenTower: documents that come as rows of sparse features, weighted by IDF and projected like words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xmc.artifacts import save_array, save_json
from xmc.data.records import DocumentBatch
from xmc.encoders.lexical import LexicalSettings, SparseTower, load_idf, unit_rows
from xmc.errors import InputError


class GivenTower(SparseTower):
    """Sparse features to sparse unit rows and to dense unit rows; labels have no text here."""

    @classmethod
    def fit(cls, batches: Iterable[sp.csr_matrix], n_features: int, settings: LexicalSettings) -> GivenTower:
        """IDF from a stream of (n, n_features) matrices."""
        frequency, n_docs = np.zeros(n_features, np.int64), 0
        for matrix in batches:
            frequency += np.bincount(matrix.indices, minlength=n_features)
            n_docs += matrix.shape[0]
        return cls(settings, (1 + np.log((1 + n_docs) / (1 + frequency))).astype(np.float32))

    def features_of(self, batch: DocumentBatch) -> tuple[sp.csr_matrix, sp.csr_matrix]:
        """(n_docs, n_features) unit rows, and empty ones: rows of features have no first line.

        Raises InputError for texts or another number of features.
        """
        if batch.features is None:
            raise InputError(f"{batch.places[0]}: text, but the model was built on sparse features")
        if batch.features.shape[1] != self.n_features:
            found = batch.features.shape[1]
            raise InputError(f"{batch.places[0]}: {found} features; the model was built on {self.n_features}")
        matrix = batch.features
        data = matrix.data.astype(np.float64) * self.idf[matrix.indices]
        none = sp.csr_matrix(matrix.shape, dtype=np.float32)
        return unit_rows(sp.csr_matrix((data, matrix.indices, matrix.indptr), matrix.shape)), none

    def save(self, directory: Path) -> None:
        """Write settings and weights."""
        save_json(directory / "given.json", asdict(self.settings))
        save_array(directory / "given_idf.npy", self.idf)

    @classmethod
    def load(cls, directory: Path) -> GivenTower:
        """Read what ``save`` wrote. Raises ArtifactError where that cannot be it."""
        return cls(LexicalSettings.load(directory / "given.json"), load_idf(directory / "given_idf.npy"))
