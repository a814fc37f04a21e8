"""How files are read, and the counts of everything that reading skipped or repaired."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from xmc.errors import SettingError

UNKNOWN_LABEL = ("error", "skip", "add")
DUPLICATE = ("error", "first")


@dataclass(frozen=True)
class ReadOptions:
    """The settings of reading.

    encoding: of text files; the default refuses anything that is not UTF-8.
    language: of the label texts taken from a vocabulary in several languages (BCP 47).
    coerce: numbers are accepted where a text or an id was wanted, as they are written in the file.
    on_unknown_label: a gold label outside the vocabulary stops (``error``), is left out (``skip``) or
        becomes a label whose text is its id (``add``).
    on_duplicate: a second document with the same id stops (``error``) or is left out (``first``).
    """

    encoding: str = "utf-8"
    language: str = "en"
    coerce: bool = False
    on_unknown_label: str = "error"
    on_duplicate: str = "error"

    def validate(self) -> None:
        """Raise `SettingError` naming the field and its bad value."""
        _one_of("on_unknown_label", self.on_unknown_label, UNKNOWN_LABEL)
        _one_of("on_duplicate", self.on_duplicate, DUPLICATE)
        try:
            "\n".encode(self.encoding)
        except (LookupError, ValueError, TypeError):
            raise SettingError(
                f"encoding={self.encoding}: no such text encoding; wanted utf-8, latin-1, utf-16-le or such"
            ) from None
        if not re.fullmatch(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*", self.language):
            raise SettingError(f"language={self.language}: wanted a language tag such as en, fi, zh-Hans")


def _one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SettingError(f"{name}={value}: wanted one of {', '.join(choices)}")


@dataclass
class ReadReport:
    """Counts of what reading skipped or repaired, each with its first examples; all of it is shown."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    n_examples: int = 5

    def count(self, what: str, example: str = "", n: int = 1) -> None:
        """Count ``n`` more of ``what``: a plural noun and a verb, as in "documents had no text"."""
        self.counts[what] = self.counts.get(what, 0) + n
        shown = self.examples.setdefault(what, [])
        if example and len(shown) < self.n_examples:
            shown.append(example)

    def merge(self, other: ReadReport) -> None:
        """Add another report's counts to this one's."""
        for what, n in other.counts.items():
            self.count(what, n=n)
            room = self.n_examples - len(self.examples[what])
            self.examples[what] += other.examples[what][:room]

    def lines(self) -> list[str]:
        """One sentence a count: ``1 document had no text (docs.jsonl:3)``."""
        return [self._line(what, n) for what, n in self.counts.items()]

    def _line(self, what: str, n: int) -> str:
        examples = self.examples[what]
        more = ", ..." if examples and n > len(examples) else ""
        shown = f" ({', '.join(examples)}{more})" if examples else ""
        return f"{n:,} {_singular(what) if n == 1 else what}{shown}"


def _singular(what: str) -> str:
    """Turn "documents were empty" into "document was empty": the first plural noun and its verb."""
    what = re.sub(r"(\w\w)s\b", r"\1", what, count=1)
    return re.sub(r"\b(were|have)\b", lambda m: {"were": "was", "have": "has"}[m[0]], what, count=1)
