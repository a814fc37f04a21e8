"""Suggestions: the results of a batch of documents as one object over ragged arrays.

Ranking, top-k and thresholds are array operations, and this is the one place that does them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from xmc.calibrate import BINS
from xmc.errors import SettingError

EMPTY_TEXT = "empty_text"
NO_VECTOR = "no_vector"
BELOW_THRESHOLD = "below_threshold"
NO_ALLOWED_LABEL = "no_allowed_label"
# What a label's log odds are the sum of; see `xmc.tag.shares`.
PARTS = ("average", "prototype", "trained", "linear", "words", "neighbours", "frequency", "reranker")


@dataclass(frozen=True)
class TagOptions:
    """What is asked of the tagger for each document.

    Attributes:
        top_k: at most so many suggestions a document.
        threshold: smallest score that is suggested; several: one for each bin of label frequency, as in
            `xmc.calibrate`; None writes the top_k, whatever their scores.
        evidence: also say what speaks for each suggestion: neighbours, words, a passage, shares.
        allowed: (n_labels,) bool, the labels that may be suggested; None allows all.
        rule: what chose the threshold; it stands in the run's manifest.
    """

    top_k: int = 10
    threshold: float | tuple[float, ...] | None = None
    evidence: bool = False
    allowed: np.ndarray | None = None
    rule: str | None = None

    def validate(self) -> None:
        """Raises: SettingError naming the field and the bad value."""
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, (int, np.integer)) or self.top_k < 0:
            raise SettingError(f"top_k={self.top_k!r}: wanted a whole number from 0 up")
        if self.threshold is not None and not np.isfinite(self.threshold).all():
            raise SettingError(f"threshold={self.threshold!r}: wanted a finite number, or none")

    def lines(self) -> list[str]:
        """What to tell the user of a threshold that a rule chose."""
        if self.rule is None:
            return []
        chosen = f"{self.threshold:.6g}" if isinstance(self.threshold, float) else ""
        if isinstance(self.threshold, tuple):
            each = zip(self.threshold, BINS, strict=True)
            chosen = ", ".join(f"{value:.6g} for labels with {what}" for value, what in each)
        return [f"threshold={self.rule} chose {chosen}; at most {self.top_k:,} suggestions a document"]


class Passage(NamedTuple):
    """A part of a document: code points ``start`` to ``end`` of its text, and what stands there.

    ``text`` is None where it would be long.
    """

    start: int
    end: int
    text: str | None


@dataclass(frozen=True)
class Evidence:
    """Why a label was suggested.

    Attributes:
        neighbours: (document id, similarity) of similar training documents with this label, best first.
        words: words that the document and the label share.
        passage: the part of the document that speaks most for the label, None where none does.
        shares: what each part of the model adds to the label's log odds, see `xmc.tag.shares`.
    """

    neighbours: list[tuple[str, float]]
    words: list[str]
    passage: Passage | None = None
    shares: dict[str, float] = field(default_factory=dict)


@dataclass
class Suggestions:
    """Suggestions for n_docs documents; document i owns ``indptr[i]:indptr[i + 1]`` of the flat arrays.

    Attributes:
        doc_ids: n_docs ids, in input order.
        indptr: (n_docs + 1,) int64.
        rows: (n_suggestions,) int64 label rows, best first within a document, ties in row order.
        scores: (n_suggestions,) float32, higher is better.
        reasons: n_docs texts, why a document got nothing; made "" for one that got something.
        evidence: parallel to rows, or None where it was not asked for.

    Raises: ValueError if the parts do not fit together or a score is not finite.
    """

    doc_ids: list[str]
    indptr: np.ndarray
    rows: np.ndarray
    scores: np.ndarray
    reasons: list[str]
    evidence: list[Evidence] | None = None

    def __post_init__(self) -> None:
        self.indptr = np.asarray(self.indptr, dtype=np.int64)
        self.rows = np.asarray(self.rows, dtype=np.int64)
        self.scores = np.asarray(self.scores, dtype=np.float32)
        self._check_lengths()
        self.reasons = ["" if n else r for n, r in zip(self.counts, self.reasons, strict=True)]
        bad = np.flatnonzero(~np.isfinite(self.scores))
        if len(bad):
            doc = self.doc_ids[int(np.searchsorted(self.indptr, bad[0], side="right")) - 1]
            raise ValueError(f"document {doc!r}: score {self.scores[bad[0]]}, wanted a finite number")

    def _check_lengths(self) -> None:
        n_docs, n = len(self.doc_ids), len(self.rows)
        if len(self.indptr) != n_docs + 1 or len(self.reasons) != n_docs:
            raise ValueError(f"{n_docs} documents, {len(self.indptr)} offsets, {len(self.reasons)} reasons")
        if self.indptr[0] != 0 or self.indptr[-1] != n or np.any(np.diff(self.indptr) < 0):
            raise ValueError(f"offsets do not rise from 0 to the number of suggestions, {n}")
        if len(self.scores) != n or (self.evidence is not None and len(self.evidence) != n):
            raise ValueError(f"{n} rows, {len(self.scores)} scores, or evidence of another length")

    def __len__(self) -> int:
        return len(self.doc_ids)

    @property
    def n_suggestions(self) -> int:
        """Suggestions of all documents together."""
        return len(self.rows)

    @property
    def counts(self) -> np.ndarray:
        """(n_docs,) int64, suggestions of each document."""
        return np.diff(self.indptr)

    @property
    def documents(self) -> np.ndarray:
        """(n_suggestions,) int64, the document that each suggestion belongs to."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.counts)

    @classmethod
    def from_matrix(
        cls,
        doc_ids: Sequence[str],
        rows: np.ndarray,
        scores: np.ndarray,
        reasons: Sequence[str] | None = None,
    ) -> Suggestions:
        """Ranked, from (n_docs, k) candidate rows and their scores in any order; row -1 is padding."""
        rows = np.asarray(rows, dtype=np.int64)
        real = rows >= 0
        indptr = np.concatenate([[0], np.cumsum(real.sum(axis=-1))]) if len(doc_ids) else np.zeros(1)
        given = list(reasons) if reasons is not None else [""] * len(doc_ids)
        return cls(list(doc_ids), indptr, rows[real], np.asarray(scores)[real], given).ranked()

    @classmethod
    def empty(cls, doc_ids: Sequence[str], reasons: Sequence[str]) -> Suggestions:
        """No suggestion for any of the documents, and why."""
        nothing = np.zeros(len(doc_ids) + 1, dtype=np.int64)
        return cls(list(doc_ids), nothing, np.zeros(0), np.zeros(0), list(reasons))

    @classmethod
    def concat(cls, parts: Sequence[Suggestions]) -> Suggestions:
        """The documents of all parts, one after another. Evidence is kept if every part has it."""
        if not parts:
            return cls.empty([], [])
        starts = np.cumsum([0, *(p.n_suggestions for p in parts)])
        indptr = [parts[0].indptr, *(p.indptr[1:] + s for p, s in zip(parts[1:], starts[1:], strict=False))]
        found = [p.evidence for p in parts if p.evidence is not None]
        return cls(
            [d for p in parts for d in p.doc_ids],
            np.concatenate(indptr),
            np.concatenate([p.rows for p in parts]),
            np.concatenate([p.scores for p in parts]),
            [r for p in parts for r in p.reasons],
            [e for part in found for e in part] if len(found) == len(parts) else None,
        )

    def slice(self, start: int, stop: int) -> Suggestions:
        """The documents ``start:stop``."""
        start, stop, _ = slice(start, stop).indices(len(self))
        stop = max(start, stop)
        first, last = self.indptr[start], self.indptr[stop]
        return Suggestions(
            self.doc_ids[start:stop],
            self.indptr[start : stop + 1] - first,
            self.rows[first:last],
            self.scores[first:last],
            self.reasons[start:stop],
            None if self.evidence is None else self.evidence[first:last],
        )

    def ranked(self) -> Suggestions:
        """The same suggestions, best first within each document, ties in row order."""
        order = np.lexsort((self.rows, -self.scores, self.documents))
        return self._taking(order, self.indptr, self.reasons)

    def rescored(self, scores: np.ndarray) -> Suggestions:
        """The same suggestions with other ``scores`` (n_suggestions,), best first; ties keep their order."""
        order = np.lexsort((-scores, self.documents))
        found = self._taking(order, self.indptr, self.reasons)
        return replace(found, scores=scores[order])

    def select(self, top_k: int, threshold: float | np.ndarray | None = None) -> Suggestions:
        """The first ``top_k`` of each (ranked) document that score at least ``threshold``.

        ``threshold`` may be (n_suggestions,), one for each.
        A document that loses everything to the threshold gets the reason ``below_threshold``.
        Raises: ValueError for a negative top_k.
        """
        if top_k < 0:
            raise ValueError(f"top_k={top_k}: wanted a whole number from 0 up")
        place = np.arange(self.n_suggestions) - np.repeat(self.indptr[:-1], self.counts)
        enough = np.ones(self.n_suggestions, dtype=bool)
        if threshold is not None:
            # Compared as float32: a score printed as 0.3 passes threshold=0.3.
            enough = self.scores >= np.asarray(threshold, np.float32)
        kept = np.flatnonzero(enough & (place < top_k))
        passing = np.bincount(self.documents[enough], minlength=len(self))
        lost = (self.counts > 0) & (passing == 0)
        reasons = [BELOW_THRESHOLD if gone else r for gone, r in zip(lost, self.reasons, strict=True)]
        counts = np.bincount(self.documents[kept], minlength=len(self))
        return self._taking(kept, np.concatenate([[0], np.cumsum(counts)]), reasons)

    def _taking(self, order: np.ndarray, indptr: np.ndarray, reasons: list[str]) -> Suggestions:
        evidence = None if self.evidence is None else [self.evidence[i] for i in order]
        return Suggestions(self.doc_ids, indptr, self.rows[order], self.scores[order], reasons, evidence)
