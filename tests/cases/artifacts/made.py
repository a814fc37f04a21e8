"""What the tests of damaged, full and busy places write, and how they look at it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from xmc.artifacts import (
    ArtifactWriter,
)

FILES = ("index.faiss", "model.safetensors", "manifest.json")
SOURCE = Path(__file__).parents[3]


def write(path: Path, fill: bytes, **options) -> Path:
    with ArtifactWriter(path, "model", built_by="xmc index", **options) as writer:
        (writer.path / "index.faiss").write_bytes(fill * 1000)
        (writer.path / "model.safetensors").write_bytes(fill * 500)
    return path


def snapshot(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def run(code: str, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def fill_with(how: str, directory: Path) -> None:
    """Write 2 MB the way that each library does."""
    big = np.ones(250_000)
    if how == "save_array":
        from xmc.artifacts import save_array

        save_array(directory / "a.npy", big)
    elif how == "save_csr":
        import scipy.sparse

        from xmc.artifacts import save_csr

        save_csr(directory / "a.npz", scipy.sparse.csr_matrix(big))
    elif how == "save_tensors":
        import torch

        from xmc.artifacts import save_tensors

        save_tensors(directory / "a.safetensors", {"a": torch.from_numpy(big)})
    elif how == "numpy":
        np.save(directory / "a.npy", big)
    elif how == "arrow":
        import pyarrow as pa

        with pa.OSFile(str(directory / "a.arrow"), "wb") as sink:
            sink.write(big.tobytes())
    elif how == "faiss":
        import faiss

        index = faiss.IndexFlatL2(100)
        index.add(np.ones((5000, 100), np.float32))
        faiss.write_index(index, str(directory / "a.faiss"))
