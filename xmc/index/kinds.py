"""How a kind of index is chosen, made and loaded again."""

from __future__ import annotations

import difflib
from pathlib import Path

from xmc.errors import ArtifactError, SettingError
from xmc.index import files
from xmc.index.base import LabelIndex, Metric
from xmc.index.exact import ExactIndex

KINDS = ("auto", "exact")


def make_index(
    kind: str,
    dim: int,
    metric: Metric = "cosine",
    n_rows_hint: int | None = None,
    device: str = "cpu",
    strict: bool = False,
) -> LabelIndex:
    """An empty index.

    Args:
        kind: one of ``KINDS``; "auto" is exact search, which for batches of queries is the one to beat.
        dim: length of the vectors.
        metric: "cosine" or "ip".
        n_rows_hint: about how many vectors there will be, if known.
        device: where the vectors lie: "cpu", "cuda", "cuda:1" or "auto".
        strict: refuse a kind that the data is too small for, instead of falling back to exact search.

    Raises:
        SettingError: there is no such kind.
        ResourceError: the device or a package that the kind needs is missing.
    """
    if kind not in KINDS:
        raise SettingError(unknown_kind(kind))
    return ExactIndex(dim, metric, device)


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
    if kind != ExactIndex.kind:
        raise ArtifactError(f"{directory / 'index.json'}: {unknown_kind(kind)}")
    return ExactIndex.load(directory, n_rows, device)


def unknown_kind(kind: str) -> str:
    """The message for a kind that there is not, with the nearest that there is."""
    near = difflib.get_close_matches(kind, KINDS, n=1)
    way_out = f"; did you mean {near[0]}?" if near else ""
    return f"index.kind={kind}: wanted one of {', '.join(KINDS)}{way_out}"
