"""Documents known by their content alone, whatever their ids are."""

from __future__ import annotations

import hashlib

import numpy as np

from xmc.data.records import DocumentBatch

LENGTH = 8  # bytes: among a million documents no two alike, but for one chance in some ten million


class Fingerprints:
    """Collects a 64-bit number for the text, or the row of features, of each document that it sees."""

    def __init__(self) -> None:
        self._seen: list[bytes] = []

    def see(self, batch: DocumentBatch) -> None:
        """Take the documents of a batch."""
        if batch.texts is not None:
            contents = [text.encode("utf-8", "surrogatepass") for text in batch.texts]
        else:
            rows = [] if batch.features is None else list(batch.features)
            contents = [row.indices.astype(np.int64).tobytes() + row.data.tobytes() for row in rows]
        self._seen.append(b"".join(hashlib.blake2b(c, digest_size=LENGTH).digest() for c in contents))

    def numbers(self) -> np.ndarray:
        """(n_docs,) uint64, in the order in which they were seen."""
        return np.frombuffer(b"".join(self._seen), "<u8")
