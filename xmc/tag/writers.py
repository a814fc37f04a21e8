"""How suggestions become files: the contract of an output format, and the choice of one by OUT's suffix.

A format turns the suggestions of one shard into bytes (a part), and merges parts into one output. Both keep
no more than one shard in memory, and the same parts always give the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xmc.errors import SettingError

if TYPE_CHECKING:
    from xmc.data.labels import LabelSet
    from xmc.tag.suggestions import Suggestions

STDOUT = "-"
# Of what formats write, evidence included: one more whenever that changes, so that a job begun by older code
# is not resumed into an output of two forms.
FORM = 2


class SuggestionFormat(ABC):
    """One output format.

    Attributes:
        name: what messages call it.
        holds_evidence: whether the format has a place for the evidence of a suggestion.
    """

    name: str
    holds_evidence = False

    @abstractmethod
    def encode(self, suggestions: Suggestions, labels: LabelSet) -> bytes:
        """The part of one shard: what `merge` needs of it."""

    @abstractmethod
    def merge(self, parts: Sequence[Path], out: Path, labels: LabelSet) -> None:
        """Write ``out``, a new file, from parts in order. The caller syncs it."""


def _jsonl(compression: str, evidence: bool) -> SuggestionFormat:
    from xmc.tag.lines import JsonLines

    return JsonLines(compression)


def _csv(compression: str, evidence: bool) -> SuggestionFormat:
    from xmc.tag.lines import Csv

    return Csv(compression)


def _tsv(compression: str, evidence: bool) -> SuggestionFormat:
    from xmc.tag.lines import AnnifTsv

    return AnnifTsv(compression)


def _parquet(compression: str, evidence: bool) -> SuggestionFormat:
    from xmc.tag.parquet import Parquet

    return Parquet(evidence)


def _npz(compression: str, evidence: bool) -> SuggestionFormat:
    from xmc.tag.matrix import ScoreMatrix

    return ScoreMatrix()


Maker = Callable[[str, bool], SuggestionFormat]
LINE_FORMATS: dict[str, Maker] = {".jsonl": _jsonl, ".csv": _csv, ".tsv": _tsv}
WHOLE_FORMATS: dict[str, Maker] = {".parquet": _parquet, ".npz": _npz}
COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
KNOWN = [*(s + c for s in LINE_FORMATS for c in ("", *COMPRESSIONS)), *WHOLE_FORMATS]


def split_suffix(out: str | Path) -> tuple[str, str]:
    """The format's suffix and the compression of ``out``: ("", "") where they are not known."""
    name = Path(out).name.lower()
    for known in sorted(KNOWN, key=len, reverse=True):
        if name.endswith(known):
            tail = next((c for c in COMPRESSIONS if known.endswith(c)), "")
            return known.removesuffix(tail), COMPRESSIONS.get(tail, "")
    return "", ""


def full_suffix(out: str | Path) -> str:
    """The suffix of ``out`` that names its format, with its compression, as it is written."""
    name = Path(out).name
    found = max((len(known) for known in KNOWN if name.lower().endswith(known)), default=0)
    return name[len(name) - found :]


def format_of(out: str | Path, evidence: bool = False) -> SuggestionFormat:
    """The format that the suffix of ``out`` names; ``-`` is JSONL.

    Raises: SettingError if no format has that suffix, or if evidence is asked for and the format has no
    place for it.
    """
    if str(out) == STDOUT:
        return _jsonl("", evidence)
    suffix, compression = split_suffix(out)
    make = LINE_FORMATS.get(suffix) or WHOLE_FORMATS.get(suffix)
    if make is None:
        known = ", ".join(KNOWN)
        raise SettingError(f"{out}: the suffix names no output format; wanted one of {known}, or - for JSONL")
    chosen = make(compression, evidence)
    if evidence and not chosen.holds_evidence:
        raise SettingError(
            f"{out}: {chosen.name} has no place for evidence; write .jsonl or .parquet instead"
        )
    return chosen
