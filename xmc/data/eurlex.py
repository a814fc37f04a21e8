"""EURLEX57K as its authors publish it (Chalkidis et al., 2019): a folder of JSON files a split, and concepts.

A document is title, header, recitals, main body and attachments, in this order; its labels are EuroVoc
concepts, described in ``EURLEX57K.json``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from xmc.data import fields, files
from xmc.data.folders import Folder
from xmc.data.options import ReadOptions, ReadReport
from xmc.data.records import Document, Fault, Label, attempt
from xmc.errors import InputError

SPLITS = ("train", "dev", "test")
_SECTIONS = ("title", "header", "recitals", "main_body", "attachments")
# What the labels are called in the files of the authors, and in those that data set hubs offer.
_GOLD = ("concepts", "eurovoc_concepts")
# Keys of which other records have none.
_OWN = ("celex_id", "recitals", "main_body", "attachments")
_HAS_OWN = re.compile(rf'"({"|".join(_OWN)})"\s*:')
_SUFFIXES = (".json", ".json.gz", ".json.zst")


def read_documents(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Document | Fault]:
    """Documents of a split's folder, in the order of their file names, or of one such file."""
    for file in _document_files(path):
        yield attempt(partial(_document, file, options), str(file))


def _document(file: Path, options: ReadOptions) -> Document:
    record = _object(file, options)
    if not any(name in record for name in _OWN):
        raise InputError(f"{file}: no EURLEX57K document: it has none of {', '.join(_OWN)}")
    parts = [part for name in _SECTIONS for part in _parts(record, name, str(file), options)]
    celex_id = fields.text_field(record, "celex_id", str(file), options) or file.name.split(".json")[0]
    gold = fields.ids_field(record, next((k for k in _GOLD if k in record), _GOLD[0]), str(file), options)
    return Document(celex_id, "\n".join(parts), gold, str(file))


def read_labels(path: Path, options: ReadOptions, _report: ReadReport) -> Iterator[Label]:
    """The concepts of ``EURLEX57K.json``, with their other names and parents."""
    for key, concept in _object(path, options).items():
        where = f"{path}: concept {key!r}"
        if not isinstance(concept, dict):
            raise InputError(f"{where}: not a JSON object; one with label, alt_labels, parents was wanted")
        yield Label(
            fields.text_field(concept, "concept_id", where, options) or key,
            fields.text_field(concept, "label", where, options),
            tuple(fields.ids_field(concept, "alt_labels", where, options) or ()),
            broader=tuple(fields.ids_field(concept, "parents", where, options) or ()),
            place=where,
        )


def folder_files(folder: Folder, options: ReadOptions) -> set[str]:
    """The JSON files of a folder of documents, which the first of them tells, and the folders of splits."""
    found = list(filter(_is_json, folder.files))
    documents = found if found and _begins_document(folder.path / found[0], options) else []
    splits = [
        name for name in SPLITS if name in folder.folders and folder_files(folder.folders[name], options)
    ]
    return {*documents, *splits}


def _is_json(name: str) -> bool:
    return name.lower().endswith(_SUFFIXES)


def _begins_document(path: Path, options: ReadOptions) -> bool:
    try:
        text = files.decode_head(files.head(path), path, options)
    except InputError:
        return False
    return text.lstrip().startswith("{") and _HAS_OWN.search(text) is not None


def _document_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    names = os.listdir(path)
    splits = [name for name in SPLITS if (path / name).is_dir()]
    if splits:
        raise InputError(
            f"{path}: holds the folders {', '.join(splits)}; give one of them, such as {path / splits[0]}"
        )
    return [path / name for name in sorted(filter(_is_json, names))]


def _object(path: Path, options: ReadOptions) -> dict[str, Any]:
    value = fields.parse_json(files.read_text(path, options), str(path))
    if not isinstance(value, dict):
        raise InputError(f"{path}: not a JSON object; one was wanted")
    return value


def _parts(record: dict[str, Any], name: str, where: str, options: ReadOptions) -> list[str]:
    """The text of a section, which is a string or (the main body) a list of strings."""
    if isinstance(record.get(name), list):
        parts = fields.ids_field(record, name, where, options) or []
    else:
        parts = [fields.text_field(record, name, where, options)]
    return [part for part in parts if part]
