"""Arrays on disk: npy, CSR matrices as npz, tensors as safetensors; never pickle.

What a header declares is compared with the file before anything is allocated. Every fault of a file is an
``ArtifactError`` that names it.
"""

from __future__ import annotations

import contextlib
import errno
import math
import mmap
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from xmc.artifacts.space import need_memory
from xmc.errors import ArtifactError, ResourceError, XmcError

if TYPE_CHECKING:
    import scipy.sparse
    import torch

_PIECE = 2**22
_NUMBERS = "biuf"  # NumPy's letters for booleans and numbers
_CSR_MEMBERS = ("data", "format", "indices", "indptr", "shape")


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array of numbers or booleans, any shape, as npy in C order.

    Raises:
        TypeError: the array holds anything else.
        OSError: with its errno, which ``numpy.save`` would lose on a full disk.
    """
    array = np.asarray(array, order="C")
    if array.dtype.kind not in _NUMBERS:
        raise TypeError(f"{path}: arrays of {array.dtype} are not saved")
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.reshape(-1).view(np.uint8).data)


def load_array(path: Path, mmap: bool = True) -> np.ndarray:
    """The array of an npy file: mapped and read-only, or with ``mmap=False`` in memory.

    Raises:
        ArtifactError: not an npy file of numbers, or not of the size that its header declares.
        ResourceError: it cannot be read, or there is not enough memory.
    """
    with _reading(path), open(path, "rb") as file:
        shape, order, dtype, length = _read_header(file, os.fstat(file.fileno()).st_size, path)
        if mmap and length:
            offset = file.tell()
            mapped = np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)
            return np.asarray(mapped)
        need_memory(path, length)
        return _read_body(file, shape, order, dtype, path)


def release(array: np.ndarray) -> None:
    """Let go of what was read of a mapped array; it is read again when it is used again."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def save_csr(path: Path, matrix: scipy.sparse.csr_matrix) -> None:
    """Write a CSR matrix as npz that ``scipy.sparse.load_npz`` reads too; entries sorted, none twice."""
    import scipy.sparse

    matrix = scipy.sparse.csr_matrix(matrix)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    with open(path, "wb") as file:
        np.savez(
            file,
            data=matrix.data,
            format=np.array(b"csr"),
            indices=matrix.indices,
            indptr=matrix.indptr,
            shape=np.array(matrix.shape, dtype=np.int64),
        )


def load_csr(path: Path) -> scipy.sparse.csr_matrix:
    """The CSR matrix of an npz file of ``save_csr``.

    Only uncompressed members are read, so none can be larger than the file.

    Raises:
        ArtifactError: not such a file, or its parts do not make a CSR matrix.
        ResourceError: it cannot be read, or there is not enough memory.
    """
    with _reading(path), open(path, "rb") as file, _open_zip(file, path) as archive:
        members = _csr_members(archive, os.fstat(file.fileno()).st_size, path)
        need_memory(path, sum(info.file_size for info in members.values()))
        parts = {name: _read_member(archive, info, path) for name, info in members.items()}
    return _csr_of(parts, path)


def save_tensors(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write named tensors as safetensors, from any device."""
    from safetensors.torch import save_file

    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, os.fspath(path))


def load_tensors(path: Path, device: str = "cpu") -> dict[str, torch.Tensor]:
    """The named tensors of a safetensors file.

    Raises:
        ArtifactError: not a whole safetensors file.
        ResourceError: it cannot be read.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    with _reading(path):
        with open(path, "rb"):  # safetensors reports a missing or unreadable file in its own words
            pass
        try:
            return load_file(os.fspath(path), device=device)
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise ArtifactError(f"{path}: not a whole safetensors file ({_one_line(error)})") from None


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what reading ``path`` raises into what a user reads."""
    try:
        yield
    except XmcError:
        raise
    except FileNotFoundError:
        raise ArtifactError(f"{path}: file is missing") from None
    except OSError as error:
        raise ResourceError(f"{path}: cannot be read ({error.strerror or error})") from error
    except MemoryError:
        raise ResourceError(f"{path}: not enough memory to load it") from None


def _read_header(
    file: IO[bytes], size: int, where: object, kinds: str = _NUMBERS
) -> tuple[tuple[int, ...], Any, np.dtype[Any], int]:
    """Shape, order, dtype and length in bytes of the npy array that fills ``size`` bytes of ``file``."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"npy version {version[0]}.{version[1]}")
        read = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except OSError:
        raise
    except Exception as error:
        # The header is a Python literal: a hostile one can make its parser fail in any way.
        raise ArtifactError(f"{where}: not an npy array ({_one_line(error)})") from None
    if dtype.kind not in kinds or not _is_sane(shape, dtype):
        what = _one_line(f"{dtype} and shape {shape}")
        raise ArtifactError(f"{where}: an array of {what} is refused")
    length, found = math.prod(shape) * dtype.itemsize, size - file.tell()
    if length != found:
        raise ArtifactError(f"{where}: its header declares {length} bytes of data, found {found}")
    return shape, "F" if fortran else "C", dtype, length


def _is_sane(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    """Whether NumPy can make such an array: an empty one may still declare sides of any length."""
    largest = math.prod(max(n, 1) for n in shape) * dtype.itemsize
    return len(shape) <= 32 and min(shape, default=0) >= 0 and 0 < largest < 2**63


def _read_body(
    file: IO[bytes], shape: tuple[int, ...], order: Any, dtype: np.dtype[Any], where: object
) -> np.ndarray:
    array = np.empty(math.prod(shape), dtype)
    view = array.view(np.uint8).data
    done = 0
    while done < len(view):
        piece = file.read(min(_PIECE, len(view) - done))
        if not piece:
            raise ArtifactError(f"{where}: expected {len(view)} bytes of data, found {done}")
        view[done : done + len(piece)] = piece
        done += len(piece)
    return array.reshape(shape, order=order)


@contextlib.contextmanager
def _open_zip(file: IO[bytes], where: object) -> Iterator[zipfile.ZipFile]:
    """The archive in ``file``; whatever is wrong with its structure is an ArtifactError."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except (XmcError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # a seek to a place that cannot be
            raise
        # zipfile raises BadZipFile, and for hostile structures much else.
        raise ArtifactError(f"{where}: not a whole npz file ({_one_line(error)})") from None


def _csr_members(archive: zipfile.ZipFile, size: int, where: object) -> dict[str, zipfile.ZipInfo]:
    """The members by array name, none declared larger than the ``size`` of the whole file."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    if sorted(members) != list(_CSR_MEMBERS) or len(archive.infolist()) != len(_CSR_MEMBERS):
        found = ", ".join(ascii(name)[:40] for name in sorted(members)[:8])
        raise ArtifactError(f"{where}: expected the arrays {', '.join(_CSR_MEMBERS)}, found {found}")
    for name, info in members.items():
        stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        if not stored or info.flag_bits & 1:
            raise ArtifactError(f"{where}: {name}: compressed or encrypted, xmc writes neither")
        if info.file_size > size:
            raise ArtifactError(f"{where}: {name}: declares {info.file_size} bytes, the file has {size}")
    return members


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: object) -> np.ndarray:
    where = f"{where}: {info.filename}"
    kinds = "S" if info.filename == "format.npy" else _NUMBERS
    with archive.open(info) as file:
        shape, order, dtype, _ = _read_header(file, info.file_size, where, kinds)
        array = _read_body(file, shape, order, dtype, where)
        file.read(1)  # at its end a member's CRC is checked
    return array


def _csr_of(parts: dict[str, np.ndarray], where: object) -> scipy.sparse.csr_matrix:
    """The matrix that the arrays of an npz make, after checking that they make one."""
    import scipy.sparse

    data, indices, indptr, shape = (parts[name] for name in ("data", "indices", "indptr", "shape"))
    fault = _csr_fault(data, indices, indptr, shape, parts["format"])
    if fault:
        raise ArtifactError(f"{where}: not a CSR matrix: {fault}")
    try:
        return scipy.sparse.csr_matrix((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))
    except (ValueError, TypeError) as error:
        raise ArtifactError(f"{where}: not a CSR matrix: {_one_line(error)}") from None


def _csr_fault(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: np.ndarray, form: np.ndarray
) -> str:
    """Why these are not the parts of a CSR matrix, or ""."""
    if form.shape != () or form.item() != b"csr":
        return f"its format is {_one_line(form)}"
    if shape.shape != (2,) or shape.dtype != np.int64 or (shape < 0).any():
        return f"its shape is {_one_line(shape)}"
    if any(part.ndim != 1 or part.dtype not in (np.int32, np.int64) for part in (indices, indptr)):
        return "indices and indptr should be vectors of int32 or int64"
    if data.ndim != 1 or len(data) != len(indices):
        return f"{_one_line(data.shape)} values of {data.dtype} for {len(indices)} indices"
    if len(indptr) != shape[0] + 1:
        return f"{shape[0]} rows, but an indptr of {len(indptr)}"
    if indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        return f"indptr should rise from 0 to {len(indices)}"
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        return f"column {indices.min()} to {indices.max()} in {shape[1]} columns"
    return ""


def _one_line(value: object) -> str:
    """The start of a library's message, in one line."""
    return " ".join(str(value).split())[:200] or type(value).__name__
