"""What ``threshold`` may say: a number, nothing, or a rule by which held-out documents choose the number."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xmc.errors import SettingError

MISS_RATE = "miss_rate"
# The rules whose number is a share, and those without a number.
SHARES = {"precision": "above 0, at most 1", MISS_RATE: "between 0 and 1"}
PLAIN = ("micro_f1", "macro_f1")
WANTED = "a number, a rule (micro_f1, macro_f1, f1@K, precision=P, miss_rate=R)"


@dataclass(frozen=True)
class Rule:
    """``micro_f1``, ``macro_f1``, ``f1`` (its ``value`` is K), ``precision`` or ``miss_rate`` (a share)."""

    name: str
    value: float = 0.0

    def __str__(self) -> str:
        if self.name == "f1":
            return f"f1@{self.value:.0f}"
        return self.name if self.name in PLAIN else f"{self.name}={self.value:.15g}"

    @property
    def is_promise(self) -> bool:
        """Whether it promises something that cutting a document's suggestions short would break."""
        return self.name == MISS_RATE


def threshold_of(value: object) -> float | Rule | None:
    """A threshold as a user writes it, a number, None, or text that spells a number or a rule; or a Rule.

    Raises: SettingError for anything else, and for a rule's number out of range.
    """
    if value is None or isinstance(value, Rule):
        return value
    text = str(value)
    if text in PLAIN:
        return Rule(text)
    if text.startswith("f1@"):
        return Rule("f1", _whole(text, text[len("f1@") :]))
    name, _, number = text.partition("=")
    if name in SHARES:
        return Rule(name, _share(text, name, number))
    found = _number(text)
    if isinstance(value, bool) or not math.isfinite(found):
        raise SettingError(f"threshold={value}: wanted {WANTED} or none")
    return found


def _whole(text: str, number: str) -> int:
    if not (number.isascii() and number.isdecimal() and 1 <= int(number[:10]) < 2**31 and len(number) < 11):
        raise SettingError(f"threshold={text}: wanted f1@K with a whole number K from 1 up")
    return int(number)


def _share(text: str, name: str, number: str) -> float:
    share = _number(number)
    if not 0 < share <= 1 or (name == MISS_RATE and share == 1):
        raise SettingError(f"threshold={text}: wanted {name}= and a number {SHARES[name]}")
    return share


def _number(text: str) -> float:
    """What the text spells, NaN where it is no number."""
    try:
        return float(text)
    except ValueError:
        return math.nan
