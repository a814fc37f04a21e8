"""What it costs to tune the dense tower: a step of the real loop on documents of the sample."""

from __future__ import annotations

import numpy as np

from xmc.encoders.lexical import LexicalTower
from xmc.label_text import label_texts
from xmc.model import Model
from xmc.settings import TrainSettings
from xmc.source import Source
from xmc.stages import Cost, measured
from xmc.train.tuning import BATCH, EPOCHS, Tuner
from xmc.tuned import Tunable

N_DOCS = 16  # of the step that is measured


def tuning_cost(model: Model, sample: Source, settings: TrainSettings, n_docs: int) -> Cost:
    """Of tuning on ``n_docs`` documents; ``model``: of the ``sample``, with its dense tower as it was given.

    Nothing where there is no dense tower or no gold label.
    """
    encoder, docs = model.encoder, np.flatnonzero(np.diff(sample.gold.indptr) > 0)[:N_DOCS]
    words = encoder.lexical
    if encoder.dense is None or model.matcher is None or not isinstance(words, LexicalTower) or not len(docs):
        return Cost()
    known = Tunable(
        sample,
        label_texts(sample.labels),
        encoder.dense,
        words,
        model.matcher,
        np.zeros(len(sample.ids), bool),
        settings,
        0,
    )
    tuner = Tuner(encoder.dense, known.data(docs, sample.gold[docs]), settings.dense == "last", 0)
    rows = tuner.docs
    if not len(rows):
        return Cost()
    tuner.learn(rows[:2])  # the first step makes room
    with measured() as found:
        tuner.learn(rows)
    steps = EPOCHS * -(-n_docs // BATCH)
    return found[0].times(steps * BATCH / len(rows))
