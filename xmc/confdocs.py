"""What ``conf/*.yaml`` says about its own keys: the comment above each key is its documentation.

The files are read as text, since YAML parsers drop comments. They keep to a plain form: ``key: value`` lines,
two spaces a level, a comment directly above its key. The first comment of a file that is followed by an
empty line, or by nothing, says what the file as a whole is for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

PACKAGE = "xmc.conf"
KEY = re.compile(r"( *)([A-Za-z_]\w*):(?: +(.*))?$")
GLOBAL = "# @package _global_"


@dataclass(frozen=True)
class Documented:
    """A key: full name, value as it stands in the file, comment as one paragraph."""

    name: str
    value: str
    comment: str


def _root() -> Traversable:
    return resources.files(PACKAGE)


@cache
def groups() -> dict[str, list[str]]:
    """Each group (folder) with its choices (files without suffix), ``default`` first."""
    found: dict[str, list[str]] = {}
    for folder in sorted(_root().iterdir(), key=lambda f: f.name):
        if folder.is_dir() and not folder.name.startswith("_"):
            names = [f.name[: -len(".yaml")] for f in folder.iterdir() if f.name.endswith(".yaml")]
            found[folder.name] = sorted(names, key=lambda n: (n != "default", n))
    return found


@cache
def text_of(group: str, name: str) -> str:
    """The file of a choice; the group ``""`` holds ``config.yaml``."""
    path = f"{group}/{name}.yaml" if group else f"{name}.yaml"
    return _root().joinpath(path).read_text(encoding="utf-8")


def keys_of(group: str, name: str) -> dict[str, Documented]:
    """The keys of one file by full name, in its order."""
    text = text_of(group, name)
    prefix = "" if text.startswith(GLOBAL) or not group else f"{group}."
    return {d.name: d for d in documented(text, prefix)}


def summary_of(group: str, name: str) -> str:
    """What a file as a whole is for: its first comment, where that belongs to no key."""
    lines = [x for x in text_of(group, name).splitlines() if x != GLOBAL]
    end = next((n for n, x in enumerate(lines) if not x.startswith("#")), len(lines))
    alone = end == len(lines) or not lines[end].strip()
    return _joined(lines[:end]) if alone else ""


def documented(text: str, prefix: str = "") -> list[Documented]:
    """Every ``key: value`` of a YAML text with the comment above it."""
    found: list[Documented] = []
    comment: list[str] = []
    above: list[str] = []
    for line in text.splitlines():
        match = KEY.match(line)
        if line.lstrip().startswith("#"):
            comment.append(line.strip())
            continue
        if match:
            above = [*above[: len(match[1]) // 2], match[2]]
            if match[3]:
                found.append(Documented(prefix + ".".join(above), match[3], _joined(comment)))
        comment = []
    return found


def _joined(comment: list[str]) -> str:
    return " ".join(line.lstrip("# ").strip() for line in comment)
