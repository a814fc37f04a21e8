"""What it costs to tune the dense tower: a step of the real loop on documents of the sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xmc.encoders.lexical import LexicalTower
from xmc.label_text import label_texts
from xmc.model import Model
from xmc.settings import TrainSettings
from xmc.source import Source
from xmc.stages import Cost, measured
from xmc.train.tuning import EPOCHS, Tuner
from xmc.tuned import Tunable

NUMBER = 4  # bytes of a float32
ENOUGH = 256  # documents of a step beyond which a document costs the same
STATES = 3  # numbers of a weight in a checkpoint: itself and two moments


@dataclass(frozen=True)
class TuningProbe:
    """``cost`` of all steps; ``memory``: bytes that they add at most; ``disk``: bytes of two checkpoints."""

    cost: Cost
    memory: int
    disk: int


def probe_tuning(model: Model, sample: Source, settings: TrainSettings, n_docs: int) -> TuningProbe | None:
    """Tuning on ``n_docs`` documents; ``model``: of the ``sample``, with its dense tower as it was given.

    None where there is no dense tower or nothing to learn.
    """
    encoder, words = model.encoder, model.encoder.lexical
    if encoder.dense is None or model.matcher is None or not isinstance(words, LexicalTower):
        return None
    docs = np.flatnonzero(np.diff(sample.gold.indptr) > 0)[: min(settings.batch, ENOUGH)]
    if not len(docs):
        return None
    held, texts = np.zeros(len(sample.ids), bool), label_texts(sample.labels)
    known = Tunable(sample, texts, encoder.dense, words, model.matcher, held, settings, 0)
    data = known.data(docs, sample.gold[docs])
    with measured() as whole:
        tuner = Tuner(encoder.dense, data, settings, 0)
        if not len(tuner.docs):
            return None
        tuner.learn(tuner.docs[:2])  # the first step makes room
        with measured() as step:
            tuner.learn(tuner.docs)
    n_numbers = sum(weight.numel() for weight in tuner.weights.values())
    n_like_it = EPOCHS * n_docs / len(tuner.docs)
    added = max(whole[0].peak, step[0].peak) - whole[0].before
    return TuningProbe(step[0].times(n_like_it), max(0, added), 2 * STATES * NUMBER * n_numbers)
