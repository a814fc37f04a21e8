"""Which format a path has: told by content first, then by suffix, from two tables that list every format."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from xmc.data import files
from xmc.data.folders import Folder
from xmc.data.options import ReadOptions
from xmc.data.table import has_header
from xmc.data.text import shorten
from xmc.errors import InputError

_COMPRESSED = (".gz", ".gzip", ".zst", ".zstd")
_JSON_SUFFIX = (".jsonl", ".json", ".ndjson")
_URIS = re.compile(r"\s*(<[^>\s]+>(\s+|\Z)|(https?|urn):\S+(\s+|\Z))+")
# Of Arrow data: what a file begins with, and what a stream does.
_ARROW_MARKS = (b"ARROW1", b"\xff\xff\xff\xff")
_SPARSE = re.compile(r"(\d+(,\d+)*)?( +\d+:\S+)+\s*")


class Probe:
    """A path and the beginning of what it holds; everything is read at most once."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path, self.options = path, options

    @cached_property
    def folder(self) -> Folder | None:
        """What the path is, if it is a folder."""
        files.check_readable(self.path)
        return Folder(self.path) if not files.is_stdin(self.path) and self.path.is_dir() else None

    @cached_property
    def suffix(self) -> str:
        """The suffix in lower case, without one that only names a compression."""
        return _suffix(self.path.name)

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB, decompressed; b"" for a folder."""
        return files.head(self.path) if self.folder is None else b""

    @cached_property
    def text(self) -> str:
        """The beginning as text."""
        return files.decode_head(self.head, self.path, self.options)

    @cached_property
    def lines(self) -> list[str]:
        """The first lines, without those that are empty."""
        return [files.strip_end(line) for line in self.text.split("\n") if line.strip()][:20]

    @property
    def first(self) -> str:
        """The first line that is not empty, or ""."""
        return self.lines[0] if self.lines else ""

    @cached_property
    def json_keys(self) -> frozenset[str]:
        """Keys that stand in the beginning of a JSON file; none for other files."""
        if not re.match(r'\s*(\{\s*"|\[\s*\{)', self.text):
            return frozenset()
        return frozenset(re.findall(r'"(\w+)"\s*:', "\n".join(self.lines)))


@dataclass(frozen=True)
class Format:
    """A format: its name for people, its module in ``xmc.data`` and what tells a file of it.

    defines_labels: the document files themselves say which labels there are, and so can stand for the
    vocabulary.
    of_folders: a folder may have it as a whole, which the module's ``folder_files`` tells.
    """

    name: str
    module: str
    told_by: Callable[[Probe], bool]
    suffixes: tuple[str, ...] = ()
    defines_labels: bool = False
    of_folders: bool = False

    def load(self) -> ModuleType:
        """Import the module that reads it."""
        return importlib.import_module(f"xmc.data.{self.module}")


def _suffix(name: str) -> str:
    stem, suffix = os.path.splitext(name.lower())
    return os.path.splitext(stem)[1] if suffix in _COMPRESSED else suffix


def _is_json(probe: Probe) -> bool:
    return bool(probe.json_keys)


def _is_raw_xmc(probe: Probe) -> bool:
    return "uid" in probe.json_keys and bool(probe.json_keys & {"title", "content", "target_ind"})


def _is_arrow(probe: Probe) -> bool:
    return probe.head.startswith(_ARROW_MARKS)


def _is_eurlex(probe: Probe) -> bool:
    return "celex_id" in probe.json_keys


def _is_eurlex_concepts(probe: Probe) -> bool:
    nested = re.match(r'\s*\{\s*"[^"]+"\s*:\s*\{', probe.text)
    return nested is not None and "label" in probe.json_keys and "id" not in probe.json_keys


def _is_sparse(probe: Probe) -> bool:
    header = probe.first.split()
    if header and re.search(r"split\.txt", probe.path.name, re.IGNORECASE):
        return all(token.isdigit() for token in header)
    if all(token.isdigit() for token in header):
        return len(header) == 3 or (len(header) == 2 and (len(probe.lines) == 1 or ":" in probe.lines[1]))
    return _SPARSE.fullmatch(probe.first) is not None


def _is_pecos(probe: Probe) -> bool:
    return probe.head.startswith(b"PK\x03\x04")


def _is_skos(probe: Probe) -> bool:
    return re.search(r"(?mi)^\s*(<\?xml|<rdf:rdf|@prefix|@base|prefix\s+\w*:)", probe.text) is not None


def _is_annif_corpus(probe: Probe) -> bool:
    header = _names(probe.first)
    if "text" in header and ("subject_uris" in header or "subject_labels" in header):
        return True
    columns = [line.split("\t") for line in probe.lines]
    return not has_header(probe.first) and any(len(c) > 1 and _URIS.fullmatch(c[-1]) for c in columns)


def _is_annif_vocabulary(probe: Probe) -> bool:
    return "uri" in _names(probe.first) or re.match(r"<[^>\s]+>\t", probe.first) is not None


def _names(line: str) -> list[str]:
    return [name.strip().strip('"').lower() for name in re.split(r"[,\t]", line)]


def _is_table(probe: Probe) -> bool:
    if has_header(probe.first):
        return True
    return "\t" in probe.first and probe.suffix not in _JSON_SUFFIX


def known_suffix(name: str) -> bool:
    """Whether some format of documents goes by the suffix of a file's name."""
    suffix = _suffix(name)
    return any(suffix in f.suffixes for f in DOCUMENT_FORMATS)


_ARROW = Format("Arrow, or a Hugging Face data set on disk", "arrow", _is_arrow, (".arrow",), of_folders=True)
_PARQUET = Format("Parquet", "parquet", lambda p: p.head.startswith(b"PAR1"), (".parquet",))
_PECOS = Format("PECOS X.npz with Y.npz", "pecos", _is_pecos, (".npz",), defines_labels=True, of_folders=True)
_RAW = Format("XMC repository raw text (trn.json)", "xmc_raw", _is_raw_xmc, defines_labels=True)
_SPARSE_FILE = Format("XMC repository sparse text", "xmc_repo", _is_sparse, defines_labels=True)
_JSONL = Format("JSON lines", "jsonl", _is_json, _JSON_SUFFIX)
_TABLE = Format("CSV or TSV", "table", _is_table, (".csv", ".tsv", ".tab"))

DOCUMENT_FORMATS = (
    _PARQUET,
    _ARROW,
    _PECOS,
    _RAW,
    Format("EURLEX57K folder of JSON files", "eurlex", _is_eurlex, of_folders=True),
    _JSONL,
    _SPARSE_FILE,
    Format("Annif corpus", "annif", _is_annif_corpus, of_folders=True),
    _TABLE,
)
LABEL_FORMATS = (
    _PARQUET,
    _PECOS,
    _RAW,
    Format("EURLEX57K concepts", "eurlex", _is_eurlex_concepts),
    _JSONL,
    Format("SKOS (Turtle or RDF/XML)", "skos", _is_skos, (".ttl", ".rdf", ".xml")),
    _SPARSE_FILE,
    Format("Annif vocabulary", "annif", _is_annif_vocabulary),
    _TABLE,
)


def document_format(path: Path, options: ReadOptions) -> Format:
    """The format of a file or folder of documents; `InputError` where none fits."""
    return _find(path, options, DOCUMENT_FORMATS, "documents")


def label_format(path: Path, options: ReadOptions) -> Format:
    """The format of a vocabulary; `InputError` where none fits."""
    return _find(path, options, LABEL_FORMATS, "labels")


def folder_format(folder: Folder, options: ReadOptions) -> Format | None:
    """The format of documents that a folder has as a whole, if any."""
    return _of_folder(folder, options, DOCUMENT_FORMATS)


def _of_folder(folder: Folder, options: ReadOptions, formats: tuple[Format, ...]) -> Format | None:
    return next((f for f in formats if f.of_folders and _is_all(f, folder, options)), None)


def _is_all(found: Format, folder: Folder, options: ReadOptions) -> bool:
    """Whether a format reads something in a folder, and all files of a document's suffix there and below."""
    folder_files = found.load().folder_files
    if not folder_files(folder, options):
        return False
    return all(set(filter(known_suffix, each.files)) <= folder_files(each, options) for each in folder.walk())


def _find(path: Path, options: ReadOptions, formats: tuple[Format, ...], what: str) -> Format:
    probe = Probe(path, options)
    if probe.folder is not None:
        found = _of_folder(probe.folder, options, formats)
    elif not probe.head:
        found = _by_suffix(probe, formats) or _JSONL
    else:
        found = next((f for f in formats if f.told_by(probe)), None) or _by_suffix(probe, formats)
    if found is None:
        raise _unknown(probe, formats, what)
    return found


def _by_suffix(probe: Probe, formats: tuple[Format, ...]) -> Format | None:
    return next((f for f in formats if probe.suffix in f.suffixes), None)


def _unknown(probe: Probe, formats: tuple[Format, ...], what: str) -> InputError:
    if probe.folder is not None:
        held = f"the folder holds {probe.folder.names[:3]}"
    else:
        held = f"it begins {shorten(probe.first)!r}"
    wanted = ", ".join(f.name for f in formats)
    return InputError(f"{probe.path}: {held}, which is no known format of {what}; wanted one of: {wanted}")
