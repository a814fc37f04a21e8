"""TagReport: what a tagging job did, for the user."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class TagReport:
    """What a job did.

    Attributes:
        out: the output.
        n_docs, n_suggestions: what is in it.
        reasons: documents without suggestions, by reason.
        n_quarantined: documents that could not be read or tagged, and so are not in it.
        n_cut_off: files that could not be read to their end.
        quarantine: the file that tells of both, "" where standard error did.
        n_reused: documents whose suggestions an earlier, interrupted job had left.
        n_repaired: shards of an earlier job that were tagged again, since their parts were damaged.
        seconds: how long this job took.
        finished_before: the output was complete already and nothing was done.
    """

    out: str
    n_docs: int = 0
    n_suggestions: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    n_quarantined: int = 0
    n_cut_off: int = 0
    quarantine: str = ""
    n_reused: int = 0
    n_repaired: int = 0
    seconds: float = 0.0
    finished_before: bool = False

    @property
    def docs_per_second(self) -> float:
        """Documents tagged by this job in a second."""
        return (self.n_docs - self.n_reused) / self.seconds if self.seconds else 0.0

    def lines(self) -> list[str]:
        """What to show the user, a sentence a line."""
        done = f"{self.out}: {self._documents()}, {_counted(self.n_suggestions, 'suggestion')}"
        if self.finished_before:
            return [f"{done}; finished before, nothing to do"]
        lines = [f"{done}, {self.seconds:.1f} s, {self.docs_per_second:,.1f} documents/s"]
        for reason, n in self.reasons.items():
            lines.append(f"{_counted(n, 'document')} without a suggestion: {reason or 'none was asked for'}")
        if self.n_reused:
            lines.append(f"{_counted(self.n_reused, 'document')} taken over from an interrupted run")
        if self.n_repaired:
            lines.append(f"{_counted(self.n_repaired, 'damaged shard')} of an interrupted run tagged again")
        return lines

    def _documents(self) -> str:
        """``1,200 documents (1,000 tagged, 198 empty, 2 quarantined)``, without what is none."""
        n_empty = sum(self.reasons.values())
        each = {"tagged": self.n_docs - n_empty, "empty": n_empty, "quarantined": self.n_quarantined}
        shown = ", ".join(f"{n:,} {what}" for what, n in each.items() if n or what == "tagged")
        return f"{_counted(self.n_docs + self.n_quarantined, 'document')} ({shown})"

    def fault(self) -> str:
        """One sentence on what is not in the output; "" where all is."""
        found = [_counted(self.n_quarantined, "document")] if self.n_quarantined else []
        found += [f"the rest of {_counted(self.n_cut_off, 'file')}"] if self.n_cut_off else []
        if not found:
            return ""
        where = f"{self.quarantine} tells which and why" if self.quarantine else "see above"
        return f"{self.out}: all is tagged but {' and '.join(found)}: {where}; mend them and tag them anew"


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
