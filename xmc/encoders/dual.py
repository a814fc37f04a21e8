"""DualEncoder: one vector for each text, of a dense and a lexical part side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from xmc.artifacts import load_json, save_json
from xmc.data.records import DocumentBatch
from xmc.encoders.dense import DenseTower
from xmc.encoders.given import GivenTower
from xmc.encoders.leads import LEAD_SHARE
from xmc.encoders.lexical import LexicalTower
from xmc.encoders.trained import TrainedTower
from xmc.encoders.windows import WindowVectors
from xmc.errors import ArtifactError

TOWERS: dict[str, type[LexicalTower] | type[GivenTower]] = {"lexical": LexicalTower, "given": GivenTower}


@dataclass(frozen=True)
class Encoded:
    """A batch of n texts.

    ``dense``: (n, dense_dim) unit or zero rows and the vectors of their windows, None without that tower;
    ``features``: (n, n_features) sparse unit rows; ``lexical``: (n, lexical_dim) their projection, unit or
    zero rows; ``leads``: as ``features``, of the leads alone; ``trained``: (n, trained_dim) unit or
    zero rows, None without a trained tower.
    """

    dense: WindowVectors | None
    features: sp.csr_matrix
    lexical: np.ndarray
    leads: sp.csr_matrix
    trained: np.ndarray | None = None

    @property
    def towers(self) -> np.ndarray:
        """(n, dim) float32 the towers' unit vectors side by side, unweighted."""
        parts = [] if self.dense is None else [self.dense.vectors]
        parts += [self.lexical] if self.trained is None else [self.lexical, self.trained]
        return np.hstack(parts) if len(parts) > 1 else self.lexical

    @property
    def ok(self) -> np.ndarray:
        """(n,) bool: texts with a vector in one tower at least."""
        lexical = np.asarray(self.lexical.any(axis=1))  # features of weight zero make no vector
        return lexical if self.dense is None else lexical | self.dense.ok

    def take(self, rows: np.ndarray) -> Encoded:
        """Some of the texts, in the order of their ``rows``."""
        dense = None if self.dense is None else self.dense.take(rows)
        trained = None if self.trained is None else self.trained[rows]
        return Encoded(dense, self.features[rows], self.lexical[rows], self.leads[rows], trained)

    @staticmethod
    def concat(parts: Sequence[Encoded]) -> Encoded:
        """The texts of all parts (one at least), one after another."""
        dense = [part.dense for part in parts if part.dense is not None]
        trained = [part.trained for part in parts if part.trained is not None]
        return Encoded(
            WindowVectors.concat(dense) if dense else None,
            sp.vstack([part.features for part in parts], format="csr"),
            np.concatenate([part.lexical for part in parts]),
            sp.vstack([part.leads for part in parts], format="csr"),
            np.concatenate(trained) if trained else None,
        )


class DualEncoder:
    """Documents and labels to vectors in one inner-product space (after Luan et al., TACL 2021).

    ``share``: of a unit vector's squared length that the dense tower holds; the similarity of two texts
    is ``share * dense + (1 - share) * lexical``, and where a ``trained`` tower stands beside them,
    ``trained_share`` of its own similarity and the rest of that.
    """

    def __init__(
        self,
        dense: DenseTower | None,
        lexical: LexicalTower | GivenTower,
        share: float = 0.5,
        trained: TrainedTower | None = None,
        trained_share: float = 0.0,
    ) -> None:
        self.dense, self.lexical, self.trained = dense, lexical, trained
        self.trained_share = trained_share
        self.share = share if dense is not None else 0.0

    @property
    def dense_dim(self) -> int:
        """Length of the dense part, 0 without it."""
        return 0 if self.dense is None else self.dense.dim

    @property
    def untrained_dim(self) -> int:
        """Length of the part that the dense and the lexical tower give."""
        return self.dense_dim + self.lexical.dim

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.untrained_dim + (0 if self.trained is None else self.trained.dim)

    @property
    def towers(self) -> list[slice]:
        """The columns of each tower there is, in order."""
        edges = sorted({0, self.dense_dim, self.untrained_dim, self.dim})
        return [slice(*edge) for edge in pairwise(edges)]

    @property
    def scale(self) -> np.ndarray:
        """(dim,) what ``Encoded.towers`` is multiplied with to give the joined vector."""
        rest = 1 - self.trained_share
        each = [rest * self.share, rest * (1 - self.share), self.trained_share]
        shares = np.repeat(each, [self.dense_dim, self.lexical.dim, self.dim - self.untrained_dim])
        return np.sqrt(shares).astype(np.float32)

    def encode(self, batch: DocumentBatch, dense: WindowVectors | None = None) -> Encoded:
        """Encode documents; ``dense``: their vectors in the dense tower, where they are known already."""
        if dense is None and self.dense is not None and batch.texts is not None:
            dense = self.dense.encode(batch.texts, names=batch.ids)
        features, leads = self.lexical.features_of(batch)
        encoded = Encoded(dense, features, self.lexical.project(features), leads)
        return encoded if self.trained is None else self.with_trained(encoded, self.trained)

    @staticmethod
    def with_trained(encoded: Encoded, tower: TrainedTower) -> Encoded:
        """``encoded`` with the vectors of a trained tower."""
        dense = np.zeros((len(encoded.lexical), 0)) if encoded.dense is None else encoded.dense.vectors
        return replace(encoded, trained=tower.encode(encoded.features, dense))

    def save(self, directory: Path) -> None:
        """Write both towers; the directory holds all that is needed to encode again."""
        if self.dense is not None:
            (directory / "dense").mkdir(parents=True)
            self.dense.save(directory / "dense")
        directory.mkdir(exist_ok=True)
        self.lexical.save(directory)
        kind = next(name for name, tower in TOWERS.items() if isinstance(self.lexical, tower))
        saved = {
            "share": float(self.share),
            "dense": self.dense is not None,
            "words": kind,
            "trained": self.trained is not None,
            "trained_share": float(self.trained_share),
            "lead_share": LEAD_SHARE,
        }
        if self.trained is not None:
            self.trained.save(directory)
        save_json(directory / "dual.json", saved)

    @classmethod
    def load(cls, directory: Path, device: str = "auto", dtype: str = "auto") -> DualEncoder:
        """Read what ``save`` wrote. Raises ArtifactError where the parts do not fit."""
        path = directory / "dual.json"
        parts = load_json(path)
        parts = parts if isinstance(parts, dict) else {}
        share, has_dense, kind = parts.get("share"), parts.get("dense"), parts.get("words")
        fits = isinstance(has_dense, bool) and str(kind) in TOWERS
        if has_dense:
            fits = fits and kind == "lexical" and (directory / "dense").is_dir()
        trained, trained_share = parts.get("trained"), parts.get("trained_share")
        fits = fits and isinstance(trained, bool) and _is_share(share) and _is_share(trained_share)
        fits = fits and parts.get("lead_share") == LEAD_SHARE  # or documents would not be like those it holds
        if not fits:
            raise ArtifactError(f"{path}: not a description of the towers beside it; rebuild the model")
        dense = DenseTower.load(str(directory / "dense"), device=device, dtype=dtype) if has_dense else None
        encoder = cls(dense, TOWERS[str(kind)].load(directory), float(share or 0))
        if trained:
            tower = TrainedTower.load(directory, encoder.lexical.n_features, encoder.dense_dim)
            encoder.trained, encoder.trained_share = tower, float(trained_share or 0)
        return encoder


def _is_share(value: object) -> bool:
    return isinstance(value, float) and 0 <= value <= 1
