"""VectorCache: window vectors of shards of texts on disk, by content, so that a killed build goes on."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from xmc.artifacts import ArtifactWriter, is_artifact, open_artifact
from xmc.encoders.dense import DenseTower
from xmc.encoders.leads import LEAD_SHARE
from xmc.encoders.windows import WindowVectors
from xmc.encoders.writer import VectorWriter, read_vectors
from xmc.errors import ArtifactError

KIND = "vectors"


class TextVectors(Protocol):
    """Gives the window vectors of texts, of a ``tower`` or as it would."""

    tower: DenseTower

    def encode(self, texts: Sequence[str], names: Sequence[str] | None = None) -> WindowVectors:
        """One vector a text, in order; ``names``: what to call the texts in a message."""


class VectorCache:
    """Encodes with ``tower``, and keeps each list of texts under the hash of texts, weights and settings."""

    def __init__(self, tower: DenseTower, directory: Path) -> None:
        self.tower, self.directory = tower, directory
        settings = f"{tower.pooling} {tower.max_length} {tower.dtype} {tower.device} {LEAD_SHARE}"
        self._identity = f"{tower.sha256} {settings}"

    def encode(self, texts: Sequence[str], names: Sequence[str] | None = None) -> WindowVectors:
        """The texts' vectors, from disk if this list was encoded before; what is damaged is encoded again."""
        path = self.directory / self._key(texts)
        try:
            if is_artifact(path):
                return _read(path)
        except ArtifactError:
            shutil.rmtree(path)
        vectors = self.tower.encode(texts, names=names)
        with (
            ArtifactWriter(path, KIND, built_by="xmc index") as writer,
            VectorWriter(writer.path / "vectors", self.tower.dim) as out,
        ):
            out.append(vectors)
        return vectors

    def _key(self, texts: Sequence[str]) -> str:
        digest = hashlib.sha256(self._identity.encode())
        for text in texts:
            encoded = text.encode("utf-8", "surrogatepass")
            digest.update(len(encoded).to_bytes(8, "little") + encoded)
        return digest.hexdigest()[:32]


def _read(path: Path) -> WindowVectors:
    found = read_vectors(open_artifact(path, KIND, verify=True).directory("vectors"))
    return WindowVectors(np.array(found.vectors), np.array(found.windows), np.array(found.indptr))
