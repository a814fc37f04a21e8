"""Trainer: one run of gradient descent, in steps that a checkpoint can stand between."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from xmc.encoders.trained import TrainedTower
from xmc.errors import TrainingError
from xmc.network import LabelPrototypeNetwork
from xmc.train.batches import LabelSampler, batch_size, epoch_order
from xmc.train.checkpoint import Checkpoints, adam_state, adam_tensors
from xmc.train.data import NAMES, TrainingData, namesakes
from xmc.train.labels import FREE_LIMIT, LabelSide
from xmc.train.losses import LOSSES, StepLabels
from xmc.train.tables import BagTable
from xmc.training_record import TrainingRecord

WARM_UP = 50  # steps, half of all at most
SAVE_EVERY = 60  # seconds
UNBOUNDED = 1e6  # no weight comes near it
DIVERGED = "{}; run the command again with a lower train.rate (the last good checkpoint is kept)"
PATIENCE = 4  # epochs without a better dev metric
AVERAGED_FROM = 2  # the first epoch whose weights count in the average


@dataclass(frozen=True)
class Recipe:
    """How to train. ``dropout``: share of a document's vector; rates are the highest of their schedules.

    ``by_text``: labels without documents compete too, by their text, and wrong labels are mined for each
    document; ``gates``: what the text and the centroid weigh in a prototype at first; ``stop_after``: epochs
    after which to stop although the schedule goes on to ``epochs``; ``metric``: what the best epoch leads in;
    ``free_limit``: labels with documents from which on they share free vectors.
    """

    epochs: int
    loss: str
    dropout: float = 0.3
    bag_rate: float = 0.3
    rate: float = 5e-3
    by_text: bool = False
    gates: tuple[float, float] = (0.0, 0.0)
    label_limit: int = 6144
    free_limit: int = FREE_LIMIT
    metric: str = "ndcg"
    seed: int = 0
    stop_after: int | None = None


BY_TEXT = Recipe(
    10,
    "decoupled_softmax",
    dropout=0.0,
    bag_rate=0.03,
    rate=1e-3,
    by_text=True,
    gates=(1.0, 0.5),
    label_limit=4096,
)
RECIPES = {
    "bce": Recipe(10, "bce"),
    "propensity_bce": Recipe(10, "propensity_bce"),
    # For too many labels to score them all: wrong ones that stand for a dozen others make a binary loss
    # noisy, while under a softmax most of them weigh nothing.
    "sampled_softmax": Recipe(10, "decoupled_softmax", label_limit=2048),
    "decoupled_softmax": BY_TEXT,
    "soft_top_k": replace(BY_TEXT, loss="soft_top_k"),
    "adaptive_margin": replace(BY_TEXT, loss="adaptive_margin"),
}


@dataclass
class Progress:
    """Where a run stands. ``best``: the highest dev metric, ``best_epoch`` where (0: before training)."""

    step: int = 0
    best: float = -1.0
    best_epoch: int = 0
    done: bool = False
    losses: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Before:
    """A training before this one, which goes on from there.

    ``record``: what it left; ``rows`` (n,): the rows here of the record's labels, -1 for none; ``texts``: the
    tower as it was before any training; ``squares`` (n_kept,): of the embeddings.
    """

    record: TrainingRecord
    rows: np.ndarray
    texts: TrainedTower
    squares: Tensor


class Trainer:
    """Trains a tower and the label side on ``data``, by ``recipe``; all state is in here.

    ``before``: what the ``tower`` has learned from already, None: nothing.
    """

    def __init__(
        self, data: TrainingData, tower: TrainedTower, recipe: Recipe, before: Before | None = None
    ) -> None:
        self.data, self.tower, self.recipe = data, tower, recipe
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.network = LabelPrototypeNetwork(tower.dim, recipe.gates)
        texts = None if before is None else before.texts
        shared = recipe.by_text, recipe.free_limit, recipe.seed
        self.labels = LabelSide(data, tower, self.network, *shared, texts)
        self.batch = batch_size(len(data.docs))
        self.per_epoch = math.ceil(len(data.docs) / self.batch)
        self.bag = BagTable(tower.bag, None if before is None else before.squares)
        modules = [*tower.head.parameters(), *self.network.parameters()]
        self.adam = torch.optim.Adam(modules, lr=recipe.rate, betas=(0.9, 0.99))
        self.sampler = LabelSampler(self.labels.rows, data.gold.shape[1], recipe.label_limit, recipe.seed)
        self.inverse = torch.from_numpy(data.inverse_propensity.astype(np.float32))
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.average: dict[str, Tensor] = {}
        self._order: tuple[int, np.ndarray] | None = None
        if before is not None:
            self._go_on(before.record, before.rows)

    def _go_on(self, record: TrainingRecord, rows: np.ndarray) -> None:
        """Take over the network and the free vectors; ``rows`` (n,): where the record's labels are now."""
        self.network.load_state_dict(record.network.state_dict())
        place = self.labels.place.numpy()
        to = np.where(rows < 0, -1, place[rows])
        self.labels.free.go_on(record.free, record.own, record.drawn, to)

    @property
    def n_steps(self) -> int:
        """Steps of the whole run, if it is not stopped early."""
        return self.recipe.epochs * self.per_epoch

    def run(
        self, checkpoints: Checkpoints, report: Callable[[str], object], tick: Callable[[int], object]
    ) -> None:
        """Train to the end, from the newest checkpoint if there is one; then hold the best state.

        ``report`` gets a line an epoch, ``tick`` the number of steps that were done.
        """
        self._resume(checkpoints)
        saved = time.monotonic()
        tick(self.progress.step)
        if not self.best:
            self._judge(0, report)
        while self.progress.step < self.n_steps and not self.progress.done:
            epoch, at = divmod(self.progress.step, self.per_epoch)
            if at == 0:
                self.labels.mine()
            loss = self._step(self._documents(epoch, at))
            self.progress.step += 1
            self.progress.losses.append(loss)
            tick(1)
            if self.progress.step % self.per_epoch == 0:
                self._judge(epoch + 1, report)
            if time.monotonic() - saved > SAVE_EVERY:
                self._save(checkpoints)
                saved = time.monotonic()
        self._put(self.best)

    def _documents(self, epoch: int, at: int) -> np.ndarray:
        """The documents of a step, ascending."""
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, epoch_order(self.data.docs, self.recipe.seed, epoch))
        return np.sort(self._order[1][at * self.batch : (at + 1) * self.batch])

    def _step(self, rows: np.ndarray) -> float:
        step, data = self.progress.step, self.data
        features, gold = data.features[rows], data.gold[rows]
        bags = self.tower.bags(features).requires_grad_(True)
        vectors = self.tower.head(data.dense_of(rows), bags)
        sample = self.sampler.sample(gold, self.labels.hard_for(rows), step)
        side = self.labels.side(sample.rows)
        kept = self._dropped(vectors, step)
        logits = torch.addmm(side.bias, kept, side.prototypes.T)
        is_gold = torch.from_numpy(gold[:, sample.rows].toarray() > 0)
        pairs = is_gold.nonzero(as_tuple=True)
        # Labels named like a gold one may be right too: they are no negatives, so they count as nothing.
        unsure = torch.from_numpy(namesakes(gold, data.same_text, sample.rows)) & ~is_gold
        logits = logits.masked_fill(unsure, -torch.inf)
        logits = logits.index_put(pairs, self.labels.without_own(side, torch.from_numpy(rows), kept, *pairs))
        of_labels = StepLabels(torch.from_numpy(sample.weight), self.inverse[side.rows], side.prototypes)
        loss = LOSSES[self.recipe.loss](logits, is_gold, of_labels)
        self._require_number(float(loss.detach()))
        self.adam.zero_grad()
        loss.backward()
        rate = self._schedule(step)
        for group in self.adam.param_groups:
            group["lr"] = self.recipe.rate * rate
        self.adam.step()
        if bags.grad is not None and features.nnz:
            self.bag.step(features, bags.grad, self.recipe.bag_rate * rate)
        self.labels.free.step(side.taken, self.recipe.rate * rate)
        self.labels.remember(rows, vectors.detach())
        return float(loss.detach())

    def _dropped(self, vectors: Tensor, step: int) -> Tensor:
        """``vectors`` with numbers dropped at random, the same ones whenever this step is done."""
        generator = torch.Generator().manual_seed(hash((self.recipe.seed, step)) & 0x7FFFFFFF)
        keep = 1 - self.recipe.dropout
        mask = torch.rand(vectors.shape, generator=generator) < keep
        return vectors * mask / keep

    def _schedule(self, step: int) -> float:
        """Share of the highest rate: a short rise, then a straight fall to the end."""
        warm_up = max(1, min(WARM_UP, self.n_steps // 2))
        return min(1.0, (step + 1) / warm_up) * (1 - step / self.n_steps)

    def _require_number(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise TrainingError(DIVERGED.format(f"step {self.progress.step + 1}: the loss is {loss}"))

    def _judge(self, epoch: int, report: Callable[[str], object]) -> None:
        """Measure the average of the epochs on the dev documents; keep it if it is the best so far.

        Averages along a run lie in flatter places than its ends (Izmailov et al., UAI 2018).
        """
        self._require_bounded()
        last = self._put_average(epoch)
        quality, progress = self.labels.quality(self.recipe.metric), self.progress
        if quality > progress.best or not self.best or not len(self.data.dev):
            progress.best, progress.best_epoch = quality, epoch
            self.best = {name: value.clone() for name, value in self._weights().items()}
        self._put(last)
        loss = float(np.mean(progress.losses)) if progress.losses else math.nan
        progress.losses.clear()
        name = NAMES[self.recipe.metric]
        judged = f", {name} of held-out documents {100 * quality:.1f}" if len(self.data.dev) else ""
        if epoch:
            report(f"epoch {epoch}: loss {loss:.3f}{judged}")
        progress.done = epoch - progress.best_epoch >= PATIENCE or epoch == self.recipe.stop_after

    def _put_average(self, epoch: int) -> dict[str, Tensor]:
        """Take the weights into their average and put it in their place; returns them."""
        last = {name: value.clone() for name, value in self._weights().items()}
        if epoch <= AVERAGED_FROM:
            self.average = last
            return last
        for name, value in self.average.items():
            value.lerp_(last[name], 1 / (epoch - AVERAGED_FROM + 1))
        self._put(self.average)
        return last

    def _put(self, weights: Mapping[str, Tensor]) -> None:
        """Copy ``weights`` into the tensors of the same names."""
        for name, value in self._weights().items():
            value.copy_(weights[name])

    def _weights(self) -> dict[str, Tensor]:
        """Every tensor that prediction needs, by name."""
        parts = {"head": self.tower.head.state_dict(), "network": self.network.state_dict()}
        named = {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}
        return named | self.labels.free.weights() | {"bag": self.tower.bag, "sums": self.labels.sums}

    def _state(self) -> dict[str, Tensor]:
        """Every tensor that going on needs, by name."""
        moments = adam_tensors(self.adam)
        best = {f"best.{name}": value for name, value in self.best.items()}
        best |= {f"average.{name}": value for name, value in self.average.items()}
        return self._resumed() | moments | best

    def _resumed(self) -> dict[str, Tensor]:
        """Those tensors that are copied from a checkpoint as they are."""
        return self._weights() | {"squares": self.bag.squares} | self.labels.state()

    def _require_bounded(self) -> None:
        """Raise where weights have grown out of all bounds, which NaN has too."""
        for value in self._weights().values():
            if value.numel() and not float(value.abs().max()) < UNBOUNDED:
                raise TrainingError(
                    DIVERGED.format(f"step {self.progress.step}: the weights grow without end")
                )

    def _save(self, checkpoints: Checkpoints) -> None:
        self._require_bounded()
        p = self.progress
        numbers = {
            "step": p.step,
            "best": p.best,
            "best_epoch": p.best_epoch,
            "done": p.done,
            "losses": p.losses,
        }
        checkpoints.save(p.step, numbers, {k: v.contiguous() for k, v in self._state().items()})

    def _resume(self, checkpoints: Checkpoints) -> None:
        found = checkpoints.load()
        if found is None:
            return
        numbers, tensors = found
        self.progress = Progress(**numbers)
        self.best, self.average = _named(tensors, "best."), _named(tensors, "average.")
        self.adam.load_state_dict(adam_state(self.adam, tensors))
        for name, value in self._resumed().items():
            value.copy_(tensors[name])


def _named(tensors: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    """Those whose names begin so, without the beginning."""
    return {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
