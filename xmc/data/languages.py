"""Which of several languages to read a label in."""

from __future__ import annotations


def distance(found: str, wanted: str) -> int:
    """How far a language is from the one asked for, both in lower case; "" is a text without a language.

    0 the language itself, 1 a variant (``en-gb`` for ``en`` and the reverse), 2 none, 3 English, 4 any other.
    """
    base = found.partition("-")[0]
    steps = (found == wanted, base == wanted.partition("-")[0], not found, base == "en")
    return steps.index(True) if True in steps else len(steps)


def is_other(found: str, wanted: str) -> bool:
    """Whether a text in the language found counts as taken from another language than the wanted one."""
    return distance(found, wanted) > 2
