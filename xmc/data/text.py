"""Text as it is in real files: control characters, texts with nothing to see, cutting for messages."""

from __future__ import annotations

import re
import unicodedata

# Controls (C0 without tab, line feed and carriage return; DEL; C1 without NEL, which is white space and
# stands in real texts) and lone surrogates, which no encoder accepts.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SUSPECT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
# White space, soft hyphen, zero-width characters, direction marks, BOM, variation selectors.
_BLANK = re.compile(
    "[\\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]*\\Z"
)

CONTROL = "control characters"
SURROGATE = "half a surrogate pair"


def clean(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with controls as blanks and lone surrogates as U+FFFD, and the names of what was replaced."""
    if not needs_cleaning(text):
        return text, ()
    text, n_controls = _CONTROL.subn(" ", text)
    text, n_surrogates = _SURROGATE.subn("\ufffd", text)
    return text, (CONTROL,) * (n_controls > 0) + (SURROGATE,) * (n_surrogates > 0)


def needs_cleaning(text: str) -> bool:
    """Whether `clean` would change a text."""
    return _SUSPECT.search(text) is not None


def is_blank(text: str) -> bool:
    """Whether a text has nothing to see: empty, or only white space and zero-width characters."""
    return not text[:1].isalnum() and _BLANK.match(text) is not None


def has_surrogate(text: str) -> bool:
    """Whether a text holds half a surrogate pair, which cannot be written as UTF-8."""
    return not text.isascii() and _SURROGATE.search(text) is not None


def shorten(text: str, n: int = 60) -> str:
    """At most ``n`` characters and "...", cut where no combined character is split."""
    if len(text) <= n:
        return text
    while n > 0 and (_joins(text[n]) or text[n - 1] == "\u200d"):
        n -= 1
    return text[:n] + "..."


def _joins(char: str) -> bool:
    """Whether a character belongs to the one before it: marks, joiners, emoji modifiers."""
    return unicodedata.category(char)[0] == "M" or char == "\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff"
