"""Evidence: why each label was suggested, out of what the tagger has at hand. It changes no score."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xmc.encoders.dual import Encoded
from xmc.encoders.lexical import LexicalTower, TextWords
from xmc.fit import Weights
from xmc.shortlist import Candidates, Shortlister
from xmc.tag.passages import LONGEST, Passages, read, stripped
from xmc.tag.shares import Scored, shares
from xmc.tag.suggestions import PARTS, Evidence, Passage

DIGITS = 4  # of a share
PROTOTYPE = PARTS.index("prototype")
_Read = tuple[str | None, TextWords | None, Passages | None]


@dataclass(frozen=True)
class Explainer:
    """Gives evidence for suggestions among the candidates of ``shortlister``, scored with ``weights``.

    ``frequency`` (n_labels,): documents of each label, as in the scores.
    """

    shortlister: Shortlister
    weights: Weights
    frequency: np.ndarray

    def evidence(
        self,
        of_doc: np.ndarray,
        rows: np.ndarray,
        scored: tuple[Candidates, np.ndarray],
        encoded: Encoded,
        texts: list[str] | None,
    ) -> list[Evidence]:
        """Evidence for n suggestions: label ``rows`` (n,) of documents ``of_doc`` (n,), ascending.

        ``scored``: candidates of the documents, all suggestions among them, and their log odds
        (n_candidates,); ``encoded``, ``texts``: the same documents.
        """
        added = self._shares(of_doc, rows, scored, encoded)
        out: list[Evidence] = []
        runs = list(_runs(of_doc))
        read = self._read(texts, [doc for doc, _ in runs])
        for (doc, mine), (text, words, passages) in zip(runs, read, strict=False):
            document = _Document(self.shortlister, scored[0], encoded, doc, text, words, passages)
            out.extend(
                document.evidence(row, share) for row, share in zip(rows[mine], added[mine], strict=True)
            )
        return out

    def _read(self, texts: list[str] | None, docs: list[int]) -> Iterator[_Read]:
        """Text, words and passages of the documents, None where there are none."""
        tower, matcher = self.shortlister.encoder.lexical, self.shortlister.matcher
        if texts is None or matcher is None or not isinstance(tower, LexicalTower):
            yield from ((None if texts is None else texts[doc], None, None) for doc in docs)
            return
        wanted = [texts[doc] for doc in docs]
        yield from ((text, *found) for text, found in zip(wanted, read(wanted, tower), strict=True))

    def _shares(
        self,
        of_doc: np.ndarray,
        rows: np.ndarray,
        scored: tuple[Candidates, np.ndarray],
        encoded: Encoded,
    ) -> np.ndarray:
        """(n, len(PARTS)) as `xmc.tag.shares.shares`."""
        found, log_odds = scored
        n_labels = len(self.frequency)
        chosen = np.searchsorted(found.of_doc * n_labels + found.rows, of_doc * n_labels + rows)
        context = self.weights.context(found, self.frequency)
        trained = self.shortlister.trained_scores(encoded, found)
        return shares(self.weights, Scored(found, context, log_odds, trained), chosen)


class _Document:
    """One document and what was found of it."""

    def __init__(
        self,
        shortlister: Shortlister,
        found: Candidates,
        encoded: Encoded,
        doc: int,
        text: str | None,
        words: TextWords | None,
        passages: Passages | None,
    ) -> None:
        self.shortlister, self.text, self.words, self.passages = shortlister, text, words, passages
        self._read_neighbours(found, doc)
        self._read_windows(encoded, doc)

    def _read_neighbours(self, found: Candidates, doc: int) -> None:
        """The neighbours that can vote, best first, and the labels of each, flat."""
        self.near: list[tuple[str, float]] = []
        self.voters = self.voted = np.zeros(0, np.int64)
        memory = self.shortlister.memory
        if memory is None or found.neighbours is None:
            return
        rows, scores = found.neighbours.rows[doc], found.neighbours.scores[doc]
        rows, scores = rows[scores > 0], scores[scores > 0]
        labels = memory.labels[rows]
        self.near = [(str(memory.ids[int(i)]), float(s)) for i, s in zip(rows, scores, strict=True)]
        self.voters, self.voted = np.repeat(np.arange(len(rows)), np.diff(labels.indptr)), labels.indices

    def _read_windows(self, encoded: Encoded, doc: int) -> None:
        """Vectors and places of the dense tower's windows; none for a document of a single one."""
        self.windows, self.places = np.zeros((0, 0), np.float32), np.zeros((0, 2), np.int64)
        dense, tower = encoded.dense, self.shortlister.encoder.dense
        if dense is None or tower is None or self.text is None:
            return
        mine = slice(dense.indptr[doc], dense.indptr[doc + 1])
        if mine.stop - mine.start > 1:
            self.windows = np.asarray(dense.windows[mine], np.float32)
            self.places = tower.spans(self.text)

    def evidence(self, row: int, share: np.ndarray) -> Evidence:
        """Evidence for one label; ``share`` (len(PARTS),): what each part adds to its log odds."""
        near = [self.near[i] for i in self.voters[self.voted == row].tolist()]
        rounded = dict(zip(PARTS, (round(float(x), DIGITS) + 0.0 for x in share), strict=True))
        words, weights = self._words(row)
        similar = self._similarities(row)
        span = self._best_passage(words, weights, similar)
        if span is None and similar.size and share[PROTOTYPE] > 0:
            span = stripped(self.text or "", *self.places[int(np.argmax(similar))].tolist())
        names = [] if self.words is None else [str(self.words.words[i]) for i in words.tolist()]
        return Evidence(near, names, self._passage(span), rounded)

    def _words(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """(n,) which of the document's words match the label, and (n,) how much of it each holds."""
        matcher = self.shortlister.matcher
        if self.words is None or matcher is None:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        return self.words.found(matcher.names_of(row))

    def _similarities(self, row: int) -> np.ndarray:
        """(n_windows,) how much each window adds to the dense part of the prototype's score."""
        if not len(self.windows):
            return np.zeros(0, np.float32)
        prototype = np.asarray(self.shortlister.index.vectors(np.array([row])))[0, : self.windows.shape[1]]
        return self.windows @ prototype

    def _best_passage(
        self, words: np.ndarray, weights: np.ndarray, similar: np.ndarray
    ) -> tuple[int, int] | None:
        """The passage with most of the words; among equal ones the first in the window most similar."""
        if self.passages is None or not len(words):
            return None
        best = self.passages.best(words, weights)
        spans = [self.passages.span(passage) for passage in best.tolist()]
        if not similar.size:
            return spans[0]
        begins = np.array([start for start, _ in spans])
        window = np.maximum(np.searchsorted(self.places[:, 0], begins, side="right") - 1, 0)
        return spans[int(np.argmax(similar[window]))]

    def _passage(self, span: tuple[int, int] | None) -> Passage | None:
        if span is None or self.text is None:
            return None
        start, end = span
        return Passage(start, end, self.text[start:end] if end - start <= LONGEST else None)


def _runs(of_doc: np.ndarray) -> Iterator[tuple[int, slice]]:
    """Each document of ascending (n,) documents, and where its suggestions stand."""
    starts = np.flatnonzero(np.r_[True, of_doc[1:] != of_doc[:-1]]) if len(of_doc) else np.zeros(0, int)
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(of_doc)], strict=False):
        yield int(of_doc[start]), slice(start, stop)
