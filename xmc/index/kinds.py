"""How a kind of index is chosen, made and loaded again."""

from __future__ import annotations

import difflib
from pathlib import Path

from xmc.errors import ArtifactError, SettingError
from xmc.index import files
from xmc.index.ann import AnnIndex
from xmc.index.auto import AutoIndex
from xmc.index.base import LabelIndex, Metric
from xmc.index.cagra import require_cagra
from xmc.index.exact import ExactIndex
from xmc.index.fitting import ANN_KINDS, fit
from xmc.index.native import load_faiss
from xmc.index.principal import NAME as PCA

KINDS = ("auto", "exact", *ANN_KINDS)


def make_index(
    kind: str,
    dim: int,
    metric: Metric = "cosine",
    n_rows_hint: int | None = None,
    device: str = "cpu",
    strict: bool = False,
    recall: float = 0.99,
    use: str = "batch",
    memory: int = 0,
) -> LabelIndex:
    """An empty index; after its vectors were added, ``compact`` builds what the kind needs.

    Args:
        kind: one of ``KINDS``; "auto" chooses when it is built, see :class:`AutoIndex`.
        dim: length of the vectors.
        metric: "cosine" or "ip".
        n_rows_hint: how many vectors there will be, if known: what ``strict`` refuses is refused now.
        device: where the vectors lie: "cpu", "cuda", "cuda:1" or "auto"; with a FAISS kind on the CPU.
        strict: refuse a kind for which there are too few vectors, instead of building another one.
        recall: the share of the exact answer that an approximate kind is to find.
        use: what "auto" chooses for, "batch" or "single" queries.
        memory: bytes that the index may take when "auto" chooses; 0: half of what is free then.

    Raises:
        SettingError: there is no such kind, or it is refused.
        ResourceError: the device or a package that the kind needs is missing.
    """
    if kind not in KINDS:
        raise SettingError(unknown_kind(kind))
    if kind == AutoIndex.kind and device == "cpu":
        return AutoIndex(dim, metric, recall, use, memory)
    if kind not in ANN_KINDS:
        return ExactIndex(dim, metric, device)
    if kind != PCA:
        require_cagra() if kind == "cagra" else load_faiss()
    if n_rows_hint is not None:
        fit(kind, n_rows_hint, strict)
    return AnnIndex(kind, dim, metric, recall, strict)


def load_index(directory: Path, n_rows: int | None = None, device: str = "cpu") -> LabelIndex:
    """The index saved in a directory, whatever its kind.

    Args:
        directory: where the index was saved.
        n_rows: how many labels there are; a row beyond them is an error.
        device: where the vectors shall lie.

    Raises:
        ArtifactError: a file is missing, damaged, does not fit the others, or the kind is unknown.
        ResourceError: the device or a package that the kind needs is missing.
    """
    kind = files.load_description(directory)["kind"]
    if kind == AutoIndex.kind:
        return AutoIndex.load(directory, n_rows, device)
    if kind in ANN_KINDS:
        return AnnIndex.load(directory, n_rows, device)
    if kind != ExactIndex.kind:
        raise ArtifactError(f"{directory / 'index.json'}: {unknown_kind(kind)}")
    return ExactIndex.load(directory, n_rows, device)


def save_index(index: LabelIndex, directory: Path, before: LabelIndex | None = None) -> list[str]:
    """Write an index into a new directory, but not the files that ``before`` has, from which it was changed.

    Returns:
        the names of these files as ``index/NAME``, or the directory's own name where nothing was changed.
    """
    if index is before:
        return [directory.name]
    directory.mkdir()
    same = frozenset() if before is None else index.as_loaded & before.as_loaded
    index.save(directory, same)
    return [f"{directory.name}/{name}" for name in sorted(same)]


def unknown_kind(kind: str) -> str:
    """The message for a kind that there is not, with the nearest that there is."""
    near = difflib.get_close_matches(kind, KINDS, n=1)
    way_out = f"; did you mean {near[0]}?" if near else ""
    return f"index.kind={kind}: wanted one of {', '.join(KINDS)}{way_out}"
