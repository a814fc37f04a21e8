"""Fits the cross-encoder on the best candidates of held-out documents, and keeps it only where it helps.

It learns what is to be added to the log odds that a candidate had from heads that did not know the document,
so not what these know already. Two are fitted on half of the documents each, and read the other half: those
log odds decide whether there will be one, weigh it, and are what the calibration sees.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from xmc.artifacts import ArtifactWriter, is_artifact, load_array, open_artifact, save_array
from xmc.encoders.dense import DenseTower
from xmc.errors import TrainingError
from xmc.mix import ENOUGH, Mix, fit_logistic
from xmc.rerank.cross import HEAD, TOWER, UNFITTED, CrossEncoder, TextPairs, logits, mix_features
from xmc.train.batches import epoch_order
from xmc.train.checkpoint import Checkpoints, put_weights, weight_tensors
from xmc.train.embedder import Embedder
from xmc.train.loop import SAVE_EVERY

EPOCHS = 2
BATCH = 8  # documents
RATE, HEAD_RATE, DECAY, LONGEST_STEP = 5e-5, 1e-3, 1e-2, 1.0
WARM_UP = 20  # steps
N_FOLDS = 2
FEWEST = 20  # documents, of which each fold has some
DIVERGED = "cross-encoder, step {}: the loss is {}; name another encoder in rerank.cross, or none"
KIND, READ = "cross-encoder", "read.npy"

Bar = Callable[[str, int], AbstractContextManager[Callable[[int], object]]]


@dataclass(frozen=True)
class CrossData:
    """Pairs to learn from.

    ``of_doc`` (n_pairs,) int64 ascending; ``log_odds`` (n_pairs,) float32, what they have already;
    ``right`` (n_pairs,) bool.
    """

    pairs: TextPairs
    of_doc: np.ndarray
    log_odds: np.ndarray
    right: np.ndarray

    def take(self, rows: np.ndarray) -> CrossData:
        """Some of the pairs."""
        return CrossData(self.pairs.take(rows), self.of_doc[rows], self.log_odds[rows], self.right[rows])

    def digest(self) -> str:
        """Changes with anything that is learned from."""
        sha = hashlib.sha256()
        for array in (self.pairs.ids, self.pairs.lengths, self.of_doc, self.log_odds, self.right):
            sha.update(np.ascontiguousarray(array).data)
        return sha.hexdigest()


@dataclass(frozen=True)
class FittedCross:
    """``cross``, and (n_pairs,) float32 log odds of each pair by one that was fitted without its document."""

    cross: CrossEncoder
    unseen: np.ndarray


def fit_cross(
    tower: DenseTower,
    data: CrossData,
    top: int,
    seed: int,
    work: Path,
    report: Callable[[str], object],
    bar: Bar,
) -> FittedCross | None:
    """Fit on held-out documents, with what is kept in ``work``; ``top`` as in `CrossEncoder`.

    None where they are too few, or where it does not make pairs of documents that it was not fitted on
    likelier. ``report`` gets a line about that.

    Raises: TrainingError where the loss is no number.
    """
    docs = np.unique(data.of_doc)
    if int(data.right.sum()) < ENOUGH or len(docs) < FEWEST:
        report("rerank.cross: too few right candidates are held out to learn from; the model has none")
        return None
    fold = np.random.default_rng(seed).permutation(len(docs)) % N_FOLDS
    fold = fold[np.searchsorted(docs, data.of_doc)]
    read = np.zeros(len(data.of_doc), np.float32)
    fits = _Fits(tower, seed, work, report, bar)
    for number in range(N_FOLDS):
        rest, out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        read[out] = fits.read(data.take(rest), data.pairs.take(out))
    unseen, without = (_weighed(data, fold, values) for values in (read, np.zeros_like(read)))
    loss, before = (_loss(values, data.right) for values in (unseen, without))
    helps = loss < before
    found = f"log loss of a pair that it was not fitted on {loss:.4f}, without it {before:.4f}"
    report(f"rerank.cross: {found}{'' if helps else '; the model has none'}")
    if not helps:
        return None
    mix = fit_logistic(mix_features(data.log_odds, read), data.right, UNFITTED)
    folder = fits.whole(data)
    return FittedCross(loaded(folder, tower, mix, top), unseen)


def loaded(folder: Path, base: DenseTower, mix: Mix, top: int) -> CrossEncoder:
    """What :meth:`CrossTrainer.save` wrote, on the device and in the format of ``base``."""
    tower = DenseTower.load(str(folder / TOWER), device=base.device, dtype=base.dtype)
    return CrossEncoder(tower, load_array(folder / HEAD, mmap=False), mix, top)


def _weighed(data: CrossData, fold: np.ndarray, read: np.ndarray) -> np.ndarray:
    """(n_pairs,) float32 log odds; those of each fold weighed as is best for the others."""
    features = mix_features(data.log_odds, read)
    out = np.zeros(len(read), np.float32)
    for number in range(N_FOLDS):
        mine = fold == number
        out[mine] = fit_logistic(features[~mine], data.right[~mine], UNFITTED)(features[mine])
    return out


def _loss(log_odds: np.ndarray, right: np.ndarray) -> float:
    """Mean binary cross-entropy of (n_pairs,) log odds."""
    wide = log_odds.astype(np.float64)
    return float((np.logaddexp(0, wide) - wide * right).mean())


@dataclass(frozen=True)
class _Fits:
    """Fits of one base ``tower``; each is kept in ``work``, and taken as it is where it was made before."""

    tower: DenseTower
    seed: int
    work: Path
    report: Callable[[str], object]
    bar: Bar

    def read(self, data: CrossData, pairs: TextPairs) -> np.ndarray:
        """(n_pairs,) float32 what one that was fitted on ``data`` says of other pairs."""
        identity = self._identity(data)
        folder = self.work / f"read-{identity[:16]}"
        if not is_artifact(folder):
            trainer, passing = self._trained(data, identity), self.work / "passing"
            passing.mkdir(exist_ok=True)
            trainer.save(passing)
            found = loaded(passing, self.tower, UNFITTED, 1).read(pairs)
            with ArtifactWriter(folder, KIND) as writer:
                save_array(writer.path / READ, found)
            shutil.rmtree(passing)
        return load_array(open_artifact(folder, KIND).file(READ), mmap=False)

    def whole(self, data: CrossData) -> Path:
        """The folder of one that was fitted on all of ``data``."""
        identity = self._identity(data)
        folder = self.work / f"whole-{identity[:16]}"
        if not is_artifact(folder):
            trainer = self._trained(data, identity)
            with ArtifactWriter(folder, KIND) as writer:
                trainer.save(writer.path)
        return folder

    def _identity(self, data: CrossData) -> str:
        parts = [self.tower.sha256, self.tower.dtype, str(self.seed), data.digest()]
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def _trained(self, data: CrossData, identity: str) -> CrossTrainer:
        trainer = CrossTrainer(self.tower, data, self.seed)
        with self.bar("reading pairs", trainer.n_steps) as tick:
            trainer.run(Checkpoints(self.work / "checkpoints", identity), tick)
        return trainer


class CrossTrainer:
    """One run over the pairs; all its state is in here."""

    def __init__(self, tower: DenseTower, data: CrossData, seed: int) -> None:
        self.tower, self.data, self.seed = tower, data, seed
        self.embedder = Embedder(tower, "full", seed)
        self.head = nn.Parameter(torch.zeros(tower.dim + 1, device=self.embedder.device))
        self.weights = {**self.embedder.weights, "head": self.head}
        groups = [
            {"params": list(self.embedder.weights.values()), "rate": RATE},
            {"params": [self.head], "rate": HEAD_RATE},
        ]
        self.adam = torch.optim.AdamW(groups, lr=RATE, weight_decay=DECAY)
        self.docs, self.starts = np.unique(data.of_doc, return_index=True)
        self.per_epoch = math.ceil(len(self.docs) / BATCH)
        self.step = 0

    @property
    def n_steps(self) -> int:
        """Steps of the whole run."""
        return EPOCHS * self.per_epoch

    def run(self, checkpoints: Checkpoints, tick: Callable[[int], object]) -> None:
        """Train to the end, from the newest checkpoint if there is one."""
        self._resume(checkpoints)
        tick(self.step)
        saved = time.monotonic()
        while self.step < self.n_steps:
            epoch, at = divmod(self.step, self.per_epoch)
            order = epoch_order(np.arange(len(self.docs)), self.seed, epoch)
            self.learn(order[at * BATCH :][:BATCH])
            self.step += 1
            tick(1)
            if time.monotonic() - saved > SAVE_EVERY:
                self._save(checkpoints)
                saved = time.monotonic()

    def learn(self, docs: np.ndarray) -> float:
        """One step on the pairs of some documents, by their numbers; the loss before it."""
        rate = min(1.0, (self.step + 1) / WARM_UP) * (1 - self.step / self.n_steps)
        for group in self.adam.param_groups:
            group["lr"] = group["rate"] * rate
        loss = self._loss(self.data.take(self._pairs_of(docs))) / len(docs)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(DIVERGED.format(self.step + 1, value))
        self.adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights.values(), LONGEST_STEP)
        self.adam.step()
        return value

    def _pairs_of(self, docs: np.ndarray) -> np.ndarray:
        """(n,) the pairs of documents, by their numbers."""
        ends = np.append(self.starts[1:], len(self.data.of_doc))
        return np.concatenate([np.arange(self.starts[doc], ends[doc]) for doc in docs])

    def _loss(self, data: CrossData) -> Tensor:
        """Binary cross-entropy of what the pairs have and what is read, added up: each is right or not."""
        read = logits(self.embedder(data.pairs.ids, data.pairs.lengths), self.head)
        right = torch.from_numpy(data.right.astype(np.float32)).to(read.device)
        log_odds = torch.from_numpy(data.log_odds).to(read.device) + read
        return functional.binary_cross_entropy_with_logits(log_odds, right, reduction="sum")

    def save(self, directory: Path) -> None:
        """Write the tower and the head."""
        self.tower.save(directory / TOWER, self.embedder.model)
        save_array(directory / HEAD, self.head.detach().cpu().numpy())

    def _save(self, checkpoints: Checkpoints) -> None:
        checkpoints.save(self.step, {"step": self.step}, weight_tensors(self.weights, self.adam))

    def _resume(self, checkpoints: Checkpoints) -> None:
        found = checkpoints.load()
        if found is not None:
            numbers, tensors = found
            self.step = numbers["step"]
            put_weights(self.weights, self.adam, tensors)
