"""PECOS's matrices: documents are rows of ``X.npz``, their labels the rows of ``Y.npz`` beside it.

Both are SciPy CSR matrices as `scipy.sparse.save_npz` or PECOS writes them. A folder stands for the one X in
it; with ``X.trn.npz`` and ``X.tst.npz`` in it, name the file. Nothing in a file is trusted: it is read
without pickle, and every index is checked before it is used.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy.sparse import csr_matrix

from xmc.data import files, label_names
from xmc.data.folders import Folder
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import DocumentBatch, Label
from xmc.data.text import shorten
from xmc.errors import InputError, ResourceError

_PARTS = ("indptr", "indices", "data", "shape")
_X_NAME = re.compile(r"X\b(.*\.npz)")
_NAME_FILES = ("output-items.txt", "Y.txt", "labels.txt", "lbl.txt")


def read_batches(path: Path, size: int, options: ReadOptions, report: ReadReport) -> Iterator[DocumentBatch]:
    """Batches of ``size`` documents with features (n_docs, n_features) float32.

    Without a Y.npz the documents have no labels. Raises InputError where X and Y differ in length.
    """
    x_path = _x_of(path)
    features = _finite(read_csr(x_path), x_path)
    y_path = _y_of(x_path)
    gold = None if y_path is None else read_csr(y_path)
    if gold is not None and gold.shape[0] != features.shape[0]:
        found = f"{features.shape[0]} documents, but {y_path} has {gold.shape[0]}"
        raise InputError(f"{x_path}: {found}; rows of one and the same documents were wanted")
    for start in range(0, features.shape[0], size):
        rows = slice(start, start + size)
        part = features[rows]
        places = [f"{x_path}: row {start + i}" for i in range(part.shape[0])]
        labels = None if gold is None else _label_ids(gold[rows])
        yield DocumentBatch([""] * part.shape[0], None, part, labels, places)


def read_labels(path: Path, options: ReadOptions, report: ReadReport) -> Iterator[Label]:
    """The labels "0" to "n-1" of Y's columns, with texts where a file of names lies beside it."""
    y_path = path if path.name.startswith("Y") and path.is_file() else _y_of(_x_of(path))
    if y_path is None:
        raise InputError(f"{path}: no Y.npz lies beside it; without one there are no labels")
    yield from label_names.numbered_labels(y_path, read_csr(y_path).shape[1], _NAME_FILES, options, report)


def _label_ids(gold: csr_matrix) -> list[list[str]]:
    """Labels of each row; what is stored as 0 is no label."""
    gold.eliminate_zeros()
    ids = list(map(str, gold.indices.tolist()))
    return [ids[a:b] for a, b in pairwise(gold.indptr.tolist())]


def _finite(features: csr_matrix, path: Path) -> csr_matrix:
    with np.errstate(over="ignore"):
        features = features.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(features.data))
    if len(bad):
        row = int(np.searchsorted(features.indptr, bad[0], side="right")) - 1
        found = f"row {row}: feature {features.indices[bad[0]]} is {features.data[bad[0]]}"
        raise InputError(f"{path}: {found}; finite 32-bit numbers were wanted ({len(bad)} are not)")
    return features


# --- which files


def folder_files(folder: Folder, _options: ReadOptions) -> set[str]:
    """The matrices in a folder and the names of labels beside them."""
    matrices = {name for name in folder.files if name.lower().endswith(".npz")}
    return matrices | set(folder.files).intersection(_NAME_FILES) if matrices else set()


def _x_of(path: Path) -> Path:
    if files.is_stdin(path) or not path.is_dir():
        return path
    found = sorted(p for p in path.iterdir() if _X_NAME.fullmatch(p.name))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(p.name for p in found)
        raise InputError(f"{path}: holds {names}; give one of them, such as {found[0]}")
    raise InputError(f"{path}: holds no X.npz; a folder with X.npz and Y.npz was wanted")


def _y_of(x_path: Path) -> Path | None:
    """The Y beside an X: ``Y.trn.npz`` for ``X.trn.npz``."""
    match = _X_NAME.fullmatch(x_path.name)
    y_path = x_path.with_name(f"Y{match[1]}") if match else None
    return y_path if y_path is not None and y_path.is_file() else None


# --- one matrix


def read_csr(path: Path) -> csr_matrix:
    """The CSR matrix of an npz file; `InputError` where its parts do not make one."""
    try:
        with files.open_seekable(path) as stream:
            parts = _parts(stream, path)
    except InputError:
        raise
    except MemoryError:
        raise ResourceError(f"{path}: not enough memory to hold the matrix") from None
    except Exception as error:
        # zipfile, zlib and NumPy's header parser raise errors of many kinds for damaged bytes.
        reason = shorten(" ".join(str(error).split()) or type(error).__name__, 100)
        raise InputError(f"{path}: not a readable npz file: {reason}; a CSR matrix was wanted") from None
    return _checked(parts, path)


def _parts(stream: BinaryIO, path: Path) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(stream) as archive:
        names = {name.removesuffix(".npy"): name for name in archive.namelist()}
        missing = [part for part in _PARTS if part not in names]
        if missing:
            raise InputError(f"{path}: no array {', '.join(missing)} in it; a CSR matrix was wanted")
        if "format" in names:
            _check_format(_array(archive, names["format"]), path)
        return {part: _array(archive, names[part]) for part in _PARTS}


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """One array, once its header is known to promise no more than the archive holds for it."""
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, _, dtype = read_header(member)
    n_bytes = int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize
    if dtype.hasobject or not 0 <= n_bytes <= archive.getinfo(name).file_size:
        raise ValueError(f"array {name} is of type {dtype} and shape {shape}, more than there is of it")
    with archive.open(name) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def _check_format(found: np.ndarray, path: Path) -> None:
    text = found.item() if found.size == 1 else found
    text = text.decode("latin-1") if isinstance(text, bytes) else str(text)
    if text != "csr":
        raise InputError(f"{path}: the matrix is stored as {text[:20]!r}; 'csr' was wanted")


def _checked(parts: dict[str, np.ndarray], path: Path) -> csr_matrix:
    problem = _problem(parts)
    if problem:
        raise InputError(f"{path}: damaged CSR matrix: {problem}; write it again")
    n_rows, n_columns = (int(n) for n in parts["shape"])
    matrix = csr_matrix((parts["data"], parts["indices"], parts["indptr"]), shape=(n_rows, n_columns))
    matrix.sum_duplicates()
    return matrix


def _problem(parts: dict[str, np.ndarray]) -> str:
    """What keeps the parts from being a CSR matrix, or ""."""
    shape, indptr, indices, data = (parts[name] for name in ("shape", "indptr", "indices", "data"))
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape.astype(object) < 0).any():
        return f"its shape is {_shown(shape)}"
    if indptr.ndim != 1 or indices.ndim != 1 or data.ndim != 1 or data.dtype.kind not in "iufb":
        return f"its arrays have the shapes {indptr.shape}, {indices.shape}, {data.shape}"
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        return f"its indices are of type {indptr.dtype} and {indices.dtype}"
    return _index_problem(int(shape[0]), int(shape[1]), indptr, indices, len(data))


def _index_problem(n_rows: int, n_columns: int, indptr: np.ndarray, indices: np.ndarray, n: int) -> str:
    if len(indptr) != n_rows + 1:
        return f"it has {n_rows} rows and {len(indptr)} row ends"
    if n != len(indices) or indptr[0] != 0 or indptr[-1] != n or (indptr[1:] < indptr[:-1]).any():
        return f"its row ends do not rise from 0 to its {n} values and {len(indices)} indices"
    outside = np.flatnonzero((indices < 0) | (indices >= n_columns))
    if len(outside):
        row = int(np.searchsorted(indptr, outside[0], side="right")) - 1
        return f"row {row} has the column {indices[outside[0]]} of {n_columns}"
    return ""


def _shown(array: np.ndarray) -> Any:
    return array.tolist() if array.size <= 4 else f"an array of {array.size}"
