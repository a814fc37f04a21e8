"""Tuner: the dense tower's own weights, trained on documents against the texts of their labels.

It comes before anything is encoded, so that every later stage sees one tower. In-batch contrastive learning
with hard negatives as in DPR (Karpukhin et al., EMNLP 2020) and NGAME (Dahiya et al., WSDM 2023), under the
decoupled softmax of DEXML (Gupta et al., ICLR 2024). A label is nothing but its text here, so that what is
learned holds for labels without documents too.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from xmc.artifacts import ArtifactWriter, is_artifact
from xmc.encoders.dense import DenseTower
from xmc.encoders.leads import LEAD_SHARE
from xmc.encoders.windows import Windows
from xmc.errors import TrainingError
from xmc.settings import TrainSettings
from xmc.train.batches import epoch_order
from xmc.train.checkpoint import Checkpoints, put_weights, weight_tensors
from xmc.train.data import namesakes
from xmc.train.embedder import Embedder
from xmc.train.loop import DIVERGED, SAVE_EVERY
from xmc.train.lora import merge
from xmc.train.losses import decoupled_softmax
from xmc.train.processes import team

N_HARD = 4  # hard wrong labels of a document in a step
SCALE = 20.0  # of a cosine, as a logit
RATE, DECAY, LONGEST_STEP = 5e-5, 1e-2, 1.0
LOW_RANK_RATE = 10.0  # times RATE, for adapters
WARM_UP = 20  # steps
EPOCHS = 1
KIND = "encoder"

Bar = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]


@dataclass(frozen=True)
class TuningTexts:
    """Token windows to learn from, short enough for a step.

    ``documents``, ``leads`` (of those with more than a lead; the others have none) and ``labels``.
    """

    documents: Windows
    leads: Windows
    labels: Windows


@dataclass(frozen=True)
class TuningData:
    """What is learned from.

    ``gold`` (n_docs, n_labels) of the documents of ``texts``; ``hard`` (n_docs, any) labels that look right
    but mostly are not, -1 for none; ``same_text`` (n_labels,): one number for all labels with the same text.
    """

    texts: TuningTexts
    gold: sp.csr_matrix
    hard: np.ndarray
    same_text: np.ndarray

    def digest(self) -> str:
        """Changes with anything that is learned from."""
        sha = hashlib.sha256()
        arrays = [self.gold.indptr, self.gold.indices, self.hard, self.same_text]
        for windows in (self.texts.documents, self.texts.leads, self.texts.labels):
            arrays += [windows.ids, windows.starts, windows.lengths, windows.indptr]
        for array in arrays:
            sha.update(np.ascontiguousarray(array).data)
        return sha.hexdigest()


def tune(
    tower: DenseTower,
    data: TuningData,
    settings: TrainSettings,
    seed: int,
    work: Path,
    report: Callable[[str], object],
    bar: Bar,
) -> Path:
    """The folder of the tuned tower, in ``work``; taken as it is where it was made before.

    ``settings`` say what of it is trained, and in what steps. ``report`` gets a line an epoch.

    Raises:
        TrainingError: the loss is no number.
        SettingError: the model has no linear layers to adapt.
    """
    wanted = [settings.dense, str(settings.batch), str(settings.rate), str(seed)]
    parts = [tower.sha256, tower.dtype, *wanted, data.digest()]
    identity = hashlib.sha256(" ".join(parts).encode()).hexdigest()
    folder = work / f"encoder-{identity[:16]}"
    if is_artifact(folder):
        return folder
    tuner = Tuner(tower, data, settings, seed)
    with bar("tuning", tuner.n_steps) as tick:
        tuner.run(Checkpoints(work / "checkpoints", identity), report, tick)
    with ArtifactWriter(folder, KIND, built_by="xmc train") as writer:
        merge(tuner.embedder.model)
        tower.save(writer.path, tuner.embedder.model)
    return folder


class Tuner:
    """One run over the documents; all its state is in here."""

    def __init__(self, tower: DenseTower, data: TuningData, settings: TrainSettings, seed: int) -> None:
        self.tower, self.data, self.seed = tower, data, seed
        self.batch = settings.batch
        self.rate = settings.rate * RATE * (LOW_RANK_RATE if settings.dense == "lora" else 1)
        self.embedder = Embedder(tower, settings.dense, seed)
        self.weights, self.team = self.embedder.weights, team()
        self.adam = torch.optim.AdamW(self.weights.values(), lr=self.rate, weight_decay=DECAY)
        self._known = _has_windows(data.texts.labels)
        taught = data.gold[:, np.flatnonzero(self._known)].getnnz(axis=1) > 0
        self.docs = np.flatnonzero(taught & _has_windows(data.texts.documents))
        self.per_epoch = math.ceil(len(self.docs) / self.batch)
        self.step = 0
        self.losses: list[float] = []

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        return EPOCHS * self.per_epoch

    def run(
        self, checkpoints: Checkpoints, report: Callable[[str], object], tick: Callable[[int], object]
    ) -> None:
        """Train to the end, from the newest checkpoint if there is one."""
        self._resume(checkpoints)
        self.team.join(self.tower)
        tick(self.step)
        saved = time.monotonic()
        while self.step < self.n_steps:
            epoch, at = divmod(self.step, self.per_epoch)
            rows = epoch_order(self.docs, self.seed, epoch)[at * self.batch :][: self.batch]
            self.losses.append(self.learn(rows))
            self.step += 1
            tick(1)
            if self.step % self.per_epoch == 0:
                report(f"dense tower, epoch {epoch + 1}: loss {np.mean(self.losses):.3f}")
                self.losses.clear()
            if time.monotonic() - saved > SAVE_EVERY:
                self._save(checkpoints)
                saved = time.monotonic()

    def learn(self, rows: np.ndarray) -> float:
        """One step on documents; the loss before it."""
        rate = min(1.0, (self.step + 1) / WARM_UP) * (1 - self.step / self.n_steps)
        for group in self.adam.param_groups:
            group["lr"] = self.rate * rate
        loss = self._loss(rows)
        if not math.isfinite(float(loss.detach())):
            raise TrainingError(DIVERGED.format(f"dense tower, step {self.step + 1}: the loss is {loss}"))
        self.adam.zero_grad()
        loss.backward()
        self.team.add_up(self.weights.values())
        nn.utils.clip_grad_norm_(self.weights.values(), LONGEST_STEP)
        self.adam.step()
        return float(loss.detach())

    def _loss(self, rows: np.ndarray) -> Tensor:
        rng = np.random.default_rng((self.seed, self.step))
        gold, labels = self.data.gold[rows], self._labels(rows, rng)
        documents, names = self._vectors(rows, labels, rng)
        logits = SCALE * documents @ names.T
        is_gold = torch.from_numpy(gold[:, labels].toarray() > 0).to(logits.device)
        unsure = torch.from_numpy(namesakes(gold, self.data.same_text, labels)).to(logits.device) & ~is_gold
        weight = torch.ones(len(labels), device=logits.device)
        return decoupled_softmax(logits.masked_fill(unsure, -torch.inf), is_gold, weight)

    def _labels(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """(n,) the labels of a step: those of its documents, and some of each one's hard ones."""
        hard = self.data.hard[rows]
        drawn = hard[:, rng.permutation(hard.shape[1])[:N_HARD]] if hard.shape[1] else hard
        labels = np.unique(np.concatenate([self.data.gold[rows].indices, drawn[drawn >= 0]]))
        return labels[self._known[labels]]

    def _vectors(
        self, rows: np.ndarray, labels: np.ndarray, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """(n, dim) unit vectors of documents, a window of each, drawn at random, and its lead; of labels."""
        texts = self.data.texts
        n_windows = np.diff(texts.documents.indptr)[rows]
        drawn = texts.documents.indptr[rows] + (rng.random(len(rows)) * n_windows).astype(np.int64)
        led = np.flatnonzero(_has_windows(texts.leads)[rows])
        leads, names = texts.leads.indptr[rows[led]], texts.labels.indptr[labels]
        chosen = [(texts.documents, drawn), (texts.leads, leads), (texts.labels, names)]
        ids, lengths = zip(*(self.tower.laid(*windows) for windows in chosen), strict=True)
        vectors = self.team.vectors(self.embedder, np.concatenate(ids), np.concatenate(lengths))
        bodies, heads, of_labels = vectors.split([len(rows), len(led), len(labels)])
        places = torch.from_numpy(led).to(vectors.device)
        heads = torch.zeros_like(bodies).index_copy(0, places, heads)
        return functional.normalize((1 - LEAD_SHARE) * bodies + LEAD_SHARE * heads, dim=1), of_labels

    def _save(self, checkpoints: Checkpoints) -> None:
        checkpoints.save(
            self.step, {"step": self.step, "losses": self.losses}, weight_tensors(self.weights, self.adam)
        )

    def _resume(self, checkpoints: Checkpoints) -> None:
        found = checkpoints.load()
        if found is not None:
            numbers, tensors = found
            self.step, self.losses = numbers["step"], numbers["losses"]
            put_weights(self.weights, self.adam, tensors)


def _has_windows(windows: Windows) -> np.ndarray:
    """(n_texts,) bool: texts with a token."""
    return np.diff(windows.indptr) > 0
