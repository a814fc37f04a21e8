"""The two towers that a build begins with: given, fitted on its documents, or those of the model before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from xmc.encoders.dense import DenseTower
from xmc.encoders.dual import DualEncoder
from xmc.encoders.given import GivenTower
from xmc.encoders.grown import Words
from xmc.encoders.lexical import LexicalSettings, LexicalTower
from xmc.settings import BuildSettings
from xmc.source import Source
from xmc.stages import stage
from xmc.start import Start


def first_encoder(
    source: Source, texts: list[str], settings: BuildSettings, start: Start | None
) -> DualEncoder:
    """The encoder before training; ``texts``: of the labels, ``start``: what training goes on from."""
    words = _words(source, texts, settings)
    if start is not None:
        return DualEncoder(start.encoder.dense, start.words(words))
    chosen, run, dense = settings.encoder, settings.run, None
    if chosen.dense != "none" and source.has_text:
        dense = DenseTower.load(chosen.dense, chosen.max_length, run.device, run.dtype)
    return DualEncoder(dense, words)


@stage("words")
def _words(source: Source, texts: list[str], settings: BuildSettings) -> Words:
    wanted = LexicalSettings(seed=settings.run.seed, **asdict(settings.encoder.lexical))
    if source.has_text:
        read = (batch.texts or [] for batch in source.own_batches())
        return LexicalTower.fit(read, pieces(texts), wanted)
    corpus = source.corpus
    n_features = 0 if corpus is None else corpus.n_features or 0
    rows = (b.features for b in source.own_batches() if b.features is not None)
    return GivenTower.fit(rows, n_features, wanted)


def pieces(texts: list[str]) -> Iterator[list[str]]:
    """Texts in lists of bounded length."""
    return (texts[start : start + 50_000] for start in range(0, len(texts), 50_000))
