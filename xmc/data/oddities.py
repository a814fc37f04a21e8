"""Odd characters in texts: what is invisible, what was decoded wrongly, what is too long to be a word."""

from __future__ import annotations

import re
import unicodedata

LONG_TOKEN = 100

# What the bytes 80 to BF, which stand second in UTF-8, look like when they are read as ISO-8859-1 or
# Windows-1252, and as ISO-8859-2. Behind Â, Ă, Ĺ and Ä no language has these letters (but Romanian ĂŞ).
_SECOND = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
_SECOND_LATIN_2 = "\x80-\x9f\xa0Ą˘Ł¤ĽŚ§¨ŠŤŹ\xadŽŻ°ą˛ł´ľśˇ¸šşťź˝žż"
_MOJIBAKE = (
    f"[ÂÃ][{_SECOND}]|â[€\x80][{_SECOND}]|ï[»¿][¿½]|(?:[Ä-ß][{_SECOND}]){{2}}|[ÂĂĹÄ][{_SECOND_LATIN_2}]"
)
_KINDS = {
    "control characters": "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]",
    "C1 control characters (read in a wrong encoding?)": "[\x80-\x84\x86-\x9f]",
    "line or paragraph separators (U+0085, U+2028, U+2029)": "[\x85\u2028\u2029]",
    "replacement characters (U+FFFD)": "\ufffd",
    "halves of surrogate pairs": "[\ud800-\udfff]",
    "soft hyphens": "\xad",
    "no-break spaces": "[\xa0\u2007\u202f]",
    "zero-width characters": "[\u200b-\u200d\u2060\ufeff]",
    "marks of writing direction": "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]",
    "private-use characters": "[\ue000-\uf8ff\U000f0000-\U0010ffff]",
    "likely mojibake (UTF-8 read as another encoding)": _MOJIBAKE,
}
_BY_KIND = {kind: re.compile(pattern) for kind, pattern in _KINDS.items()}
# One class of characters is searched much faster than their alternatives.
_ANY = re.compile(
    "[" + "".join(p.strip("[]") for kind, p in _KINDS.items() if p is not _MOJIBAKE) + "ÂÃâïÄ-ßĂĹ]"
)
_MARK = re.compile("[\u0300-\u036f\u3099\u309a]")
_LONG = re.compile(rf"(?<!\S)\S{{{LONG_TOKEN},}}")

DECOMPOSED = "decomposed accents"
LONG = f"tokens of {LONG_TOKEN} characters and more"


def oddities(text: str) -> list[str]:
    """The kinds of odd characters in a text, [] for an ordinary one."""
    found = [kind for kind, pattern in _BY_KIND.items() if pattern.search(text)] if _ANY.search(text) else []
    if not text.isascii() and _MARK.search(text) and not unicodedata.is_normalized("NFC", text):
        found.append(DECOMPOSED)
    if len(text) >= LONG_TOKEN and _LONG.search(text):
        found.append(LONG)
    return found
