"""Tagger: a model that was built, put together for tagging batches of documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from xmc.calibrate import frequency_bin
from xmc.calibration import DEPTH
from xmc.data.labels import LabelSet
from xmc.data.records import DocumentBatch
from xmc.data.text import clean, is_blank
from xmc.encoders.dual import DualEncoder, Encoded
from xmc.errors import ArtifactError, InputError, SettingError
from xmc.fit import Weights
from xmc.model import Model
from xmc.rules import Rule, threshold_of
from xmc.shortlist import N_PROTOTYPES, Candidates, Shortlister
from xmc.tag.evidence import Explainer
from xmc.tag.suggestions import (
    EMPTY_TEXT,
    NO_ALLOWED_LABEL,
    NO_VECTOR,
    Suggestions,
    TagOptions,
)

TOP_K = 10
NO_SAMPLE = (
    "the model has no held-out documents to choose it on, since its tagged documents are too few; "
    "give a number, or make a model from more tagged documents"
)


class Suggestion(NamedTuple):
    """One label suggested for one text: id, text and score."""

    id: str
    text: str
    score: float


class Tagger:
    """Gives documents their labels. Made with :meth:`load`."""

    def __init__(self, model: Model, run_settings: dict[str, Any] | None = None) -> None:
        self.id = model.id
        self.labels: LabelSet = model.labels
        self.encoder: DualEncoder = model.encoder
        self.weights: Weights = model.weights
        self.cross = model.cross
        self.memory = model.memory
        self.frequency = model.counted
        self.shortlister: Shortlister = model.shortlister()
        self.run_settings = run_settings or {}
        self._threads = torch.get_num_threads()
        self._loaded_from: tuple[Path, str, str, int] | None = None

    @classmethod
    def load(
        cls, path: str | Path, device: str = "auto", dtype: str = "auto", threads: int | None = None
    ) -> Tagger:
        """Load a model directory; ``threads`` None: as many CPU threads as this process may use.

        Raises:
            SettingError: ``threads`` below 1.
            ArtifactError: the directory is no model, damaged, or of a newer version.
            ResourceError: the device or memory is not there.
        """
        if threads is not None:
            if threads < 1:
                raise SettingError(f"threads={threads}: wanted a whole number from 1 up, or None")
            torch.set_num_threads(threads)
        model = Model.load(Path(path), device, dtype)
        dense = model.encoder.dense
        used = {"device": dense.device, "dtype": dense.dtype} if dense is not None else {}
        tagger = cls(model, used | {"threads": torch.get_num_threads(), "torch": torch.__version__})
        tagger._loaded_from = (Path(path).resolve(), device, dtype, torch.get_num_threads())
        return tagger

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process loads the model by itself, from where it lies."""
        if self._loaded_from is None:
            raise TypeError("only a tagger that was loaded from a folder can go to another process")
        return _loaded_again, (self.id, *self._loaded_from)

    def options(
        self,
        top_k: int | None = None,
        threshold: float | str | Rule | None = None,
        evidence: bool = False,
        allowed: np.ndarray | None = None,
    ) -> TagOptions:
        """The options that `tag_batch` takes, with the threshold that a rule chooses for this model.

        ``threshold``: a number, None, or a rule such as ``micro_f1`` or ``precision=0.8`` (see `xmc.rules`).
        ``top_k`` None: ``TOP_K``, or ``DEPTH`` where the rule is a promise. The others as in `TagOptions`.

        Raises: SettingError for a value out of range, for a rule where the model has no sample of held-out
        documents, and for one that asks for more than they allow.
        """
        wanted = threshold_of(threshold)
        if not isinstance(wanted, Rule):
            return TagOptions(TOP_K if top_k is None else top_k, wanted, evidence, allowed)
        if top_k is None:
            top_k = DEPTH if wanted.is_promise else TOP_K
        TagOptions(top_k).validate()
        if self.weights.calibration is None:
            raise SettingError(f"threshold={wanted}: {NO_SAMPLE}")
        chosen = self.weights.calibration.sample.threshold(wanted, top_k, allowed)
        return TagOptions(top_k, chosen, evidence, allowed, str(wanted))

    def tag(
        self, texts: Sequence[str], top_k: int | None = None, threshold: float | str | Rule | None = None
    ) -> list[list[Suggestion]]:
        """The best labels of each text, best first; none for a text without words.

        Raises: InputError for what is no list of texts, SettingError as `options`.
        """
        if isinstance(texts, str):
            raise InputError("one text was given; wanted a list of texts")
        return self._tag(texts, self.options(top_k, threshold))

    def _tag(self, texts: Sequence[str], options: TagOptions, first: int = 0) -> list[list[Suggestion]]:
        names = [str(i) for i in range(first, first + len(texts))]
        cleaned = [clean(text)[0] for text in _checked(texts, names)]
        found = self.tag_batch(DocumentBatch(names, cleaned, None, None, names), options)
        each = [
            Suggestion(self.labels.id(row), self.labels.text(row), float(score))
            for row, score in zip(found.rows, found.scores, strict=True)
        ]
        return [each[found.indptr[i] : found.indptr[i + 1]] for i in range(len(found))]

    def tag_batch(self, batch: DocumentBatch, options: TagOptions) -> Suggestions:
        """Suggestions for a batch of documents, in their order; a document without any has the reason."""
        return self.suggest(batch, self.encode(batch), options)

    def tag_stream(
        self,
        texts: Iterable[str],
        top_k: int | None = None,
        threshold: float | str | Rule | None = None,
        size: int = 256,
    ) -> Iterator[list[Suggestion]]:
        """The suggestions for any number of texts, in their order, as `tag` gives them for some.

        ``size`` texts are tagged together, by a thread, while the caller uses those before and the next are
        taken from ``texts`` (in the caller's thread): no more than three times as many are in memory. With
        ``size=1`` a text's suggestions come once the next text is there.

        Raises: InputError for what is no text, SettingError as `options`, or for a ``size`` below 1.
        """
        if isinstance(texts, str):
            raise InputError("one text was given; wanted texts, one after another")
        if size < 1:
            raise SettingError(f"size={size}: wanted a whole number from 1 up")
        options = self.options(top_k, threshold)
        options.validate()
        return self._streamed(iter(texts), options, size)

    def _streamed(self, texts: Iterator[str], options: TagOptions, size: int) -> Iterator[list[Suggestion]]:
        with ThreadPoolExecutor(1, "tag", self.begin) as worker:
            waiting: Future[list[list[Suggestion]]] | None = None
            first = 0
            while batch := list(islice(texts, size)):
                started = worker.submit(self._tag, batch, options, first)
                first += len(batch)
                if waiting is not None:
                    yield from waiting.result()
                waiting = started
            if waiting is not None:
                yield from waiting.result()

    def begin(self) -> None:
        """Called once in each thread that uses the tagger: torch counts threads for each of them."""
        torch.set_num_threads(self._threads)

    def encode(self, batch: DocumentBatch) -> Encoded:
        """The first half of `tag_batch`: the documents' vectors."""
        return self.encoder.encode(batch)

    def suggest(self, batch: DocumentBatch, encoded: Encoded, options: TagOptions) -> Suggestions:
        """The other half of `tag_batch`: the suggestions for a batch that is ``encoded``."""
        options.validate()
        rows = np.flatnonzero(encoded.ok)
        if not len(rows):
            return Suggestions.empty(batch.ids, _reasons(batch, encoded.ok, np.zeros(len(batch), int)))
        usable = encoded if len(rows) == len(batch) else encoded.take(rows)
        found = self.shortlister.candidates(usable, options.allowed, max(N_PROTOTYPES, options.top_k))
        scores = self.weights.score(found, self.frequency, usable, self.shortlister)
        texts = None if batch.texts is None else [batch.texts[i] for i in rows]
        if self.cross is not None and texts is not None:
            scores = self.cross.score(scores, found, texts, self.labels)
        ranked = self._ranked(found, scores, rows, batch, encoded.ok).select(options.top_k)
        chosen = ranked.select(options.top_k, self._thresholds(options, ranked.rows))
        if options.evidence:
            place = np.searchsorted(rows, chosen.documents)
            explainer = Explainer(self.shortlister, self.weights, self.frequency)
            chosen.evidence = explainer.evidence(place, chosen.rows, (found, scores), usable, texts)
        return chosen

    def _ranked(
        self, found: Candidates, scores: np.ndarray, rows: np.ndarray, batch: DocumentBatch, ok: np.ndarray
    ) -> Suggestions:
        """All candidates with their probabilities, by log odds ``scores``; ``rows``: documents with a vector.

        Calibration by frequency may put a label above another with better log odds: the order is that of the
        probabilities, which is what a reader of the output sorts by. Equal ones stand by log odds.
        """
        counts = np.zeros(len(batch) + 1, np.int64)
        counts[rows + 1] = np.diff(found.indptr)
        reasons = _reasons(batch, ok, counts[1:])
        ranked = Suggestions(batch.ids, np.cumsum(counts), found.rows, scores, reasons).ranked()
        return ranked.rescored(self._probabilities(ranked.scores, ranked.rows))

    def _probabilities(self, log_odds: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """(n,) float32 how likely labels ``rows`` (n,) with these log odds (n,) are right."""
        calibration = self.weights.calibration
        if calibration is None:
            return probability(log_odds)
        return calibration.calibrator(log_odds, self.frequency[rows])

    def _thresholds(self, options: TagOptions, rows: np.ndarray) -> float | np.ndarray | None:
        """What each suggested label has to reach, (n,) where that depends on the label."""
        if isinstance(options.threshold, tuple):
            return np.array(options.threshold)[frequency_bin(self.frequency[rows])]
        return options.threshold


def _loaded_again(model_id: str, path: Path, device: str, dtype: str, threads: int) -> Tagger:
    tagger = Tagger.load(path, device, dtype, threads)
    if tagger.id != model_id:
        raise ArtifactError(f"{path}: was changed while the job ran; start the job again")
    return tagger


def _checked(texts: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """``texts``, refused where one is something else."""
    for name, text in zip(names, texts, strict=True):
        if not isinstance(text, str):
            raise InputError(f"text {name} is a {type(text).__name__}; wanted str")
    return texts


def _reasons(batch: DocumentBatch, ok: np.ndarray, counts: np.ndarray) -> list[str]:
    """Why each document has no candidate, "" where it has."""
    texts = batch.texts or ["x"] * len(batch)
    return [
        "" if n else NO_ALLOWED_LABEL if has else EMPTY_TEXT if is_blank(text) else NO_VECTOR
        for n, has, text in zip(counts, ok, texts, strict=True)
    ]


def probability(log_odds: np.ndarray) -> np.ndarray:
    """(n,) float32 of (n,) log odds."""
    return (1 / (1 + np.exp(-np.clip(log_odds.astype(np.float64), -500, 500)))).astype(np.float32)
