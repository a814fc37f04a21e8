"""DocumentFiles: what a build keeps of encoded documents on disk, written batch by batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xmc.artifacts import load_array
from xmc.encoders.dual import DualEncoder, Encoded
from xmc.encoders.writer import FeatureWriter, NpyAppender, VectorWriter
from xmc.linear import strongest

WINDOWS, FEATURES, WORDS = "windows", "features", "words"


class DocumentFiles:
    """Tower vectors, the windows of a dense tower if there is one, and sparse features if they are asked for.

    ``features``: all of them; ``words``: the strongest alone, as `strongest` gives them.
    """

    def __init__(self, directory: Path, encoder: DualEncoder, features: bool, words: bool) -> None:
        self.path, self.n_words = directory / "towers.npy", encoder.lexical.n_words
        self.towers = NpyAppender(self.path, "float32", (encoder.dim,))
        self.windows = VectorWriter(directory / WINDOWS, encoder.dense_dim) if encoder.dense else None
        self.features = FeatureWriter(directory / FEATURES) if features else None
        self.words = FeatureWriter(directory / WORDS) if words else None

    def append(self, encoded: Encoded) -> None:
        """Adds a batch behind the ones that are there."""
        self.towers.append(encoded.towers)
        if self.windows is not None and encoded.dense is not None:
            self.windows.append(encoded.dense)
        if self.features is not None:
            self.features.append(encoded.features)
        if self.words is not None:
            self.words.append(strongest(encoded.features, self.n_words))

    def close(self) -> np.ndarray:
        """Complete the files; (n_docs, dim) the tower vectors, memory-mapped."""
        for file in (self.towers, self.windows, self.features, self.words):
            if file is not None:
                file.close()
        return load_array(self.path)
