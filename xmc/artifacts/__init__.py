"""Artifacts: directories that are written whole, checked when loaded, and never half there.

An artifact is a directory with a ``manifest.json`` that names every file with its size and checksum, what the
artifact was built from, and the versions and settings that built it.

- ``manifest``: the manifest's form, and what is refused in it
- ``staging``: the hidden directory beside an artifact, and how a finished one takes its place
- ``writer``: ``ArtifactWriter``
- ``reader``: ``open_artifact`` and the faults of a damaged artifact
- ``arrays``, ``jsonfile``: the kinds of file that an artifact holds
- ``space``: disk and memory, and what the user reads when they run out
- ``describe``: what ``xmc inspect`` prints
"""

from xmc.artifacts.arrays import (
    load_array,
    load_csr,
    load_tensors,
    release,
    save_array,
    save_csr,
    save_tensors,
)
from xmc.artifacts.describe import describe
from xmc.artifacts.jsonfile import load_json, save_json
from xmc.artifacts.manifest import SCHEMA
from xmc.artifacts.reader import Artifact, find_faults, is_artifact, open_artifact
from xmc.artifacts.space import available_memory, need_memory, need_space, size_text
from xmc.artifacts.writer import ArtifactWriter

__all__ = [
    "SCHEMA",
    "Artifact",
    "ArtifactWriter",
    "available_memory",
    "describe",
    "find_faults",
    "is_artifact",
    "load_array",
    "load_csr",
    "load_json",
    "load_tensors",
    "need_memory",
    "need_space",
    "open_artifact",
    "release",
    "save_array",
    "save_csr",
    "save_json",
    "save_tensors",
    "size_text",
]
