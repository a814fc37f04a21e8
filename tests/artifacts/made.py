"""A small artifact, and what can happen to it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse
import torch

from xmc.artifacts import (
    ArtifactWriter,
    save_array,
    save_csr,
    save_json,
    save_tensors,
)


def write(path: Path, value: float = 1.0, **options) -> str:
    """A small artifact with one file of each kind."""
    with ArtifactWriter(path, "model", {"labels": "ab" * 32}, {"seed": 1}, **options) as writer:
        (writer.path / "index").mkdir()
        save_array(writer.path / "index" / "vectors.npy", np.full((4, 3), value, np.float32))
        save_csr(writer.path / "counts.npz", scipy.sparse.csr_matrix([[0, value], [value, 0]]))
        save_tensors(writer.path / "model.safetensors", {"w": torch.full((3, 2), value)})
        save_json(writer.path / "labels.json", {"L1": "air transport", "L3": "قانون"})
    return writer.id


def beside(path: Path) -> list[str]:
    """What a writer left beside an artifact."""
    return sorted(name for name in os.listdir(path.parent) if name.startswith(f".{path.name}."))


def flip(path: Path) -> None:
    """Change one byte, and leave size and inode as they are."""
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    with open(path, "r+b") as file:
        file.write(raw)
