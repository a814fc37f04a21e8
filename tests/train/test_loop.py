from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.train.made import N_DEV, N_DOCS, N_LABELS, made, recipe, tower_for
from xmc.errors import TrainingError
from xmc.train import labels, loop
from xmc.train.checkpoint import Checkpoints
from xmc.train.data import TrainingData
from xmc.train.loop import AVERAGED_FROM, RECIPES, Recipe, Trainer

each_loss = pytest.mark.parametrize("loss", RECIPES)
# The others differ from these in the loss alone, which keeps nothing from step to step.
each_kind = pytest.mark.parametrize("loss", ["bce", "sampled_softmax", "decoupled_softmax"])
DATA = made()


class KilledError(Exception):
    """As when the process ends."""


def dying_after(n_steps: int) -> Callable[[int], None]:
    """A `tick` that raises once so many steps were done in this run."""
    ticks: list[int] = []

    def tick(n: int) -> None:
        ticks.append(n)  # the first tells the steps that were done before
        if len(ticks) > n_steps:
            raise KilledError

    return tick


def trainer(chosen: Recipe, data: TrainingData = DATA) -> Trainer:
    return Trainer(data, tower_for(data), chosen)


def run(one: Trainer, folder: Path, tick: Callable[[int], object] = lambda n: None) -> list[str]:
    """The lines that are reported."""
    lines: list[str] = []
    one.run(Checkpoints(folder / "checkpoints", "same"), lines.append, tick)
    return lines


def trained(chosen: Recipe, folder: Path, data: TrainingData = DATA) -> Trainer:
    one = trainer(chosen, data)
    run(one, folder)
    return one


def assert_same(one: Trainer, other: Trainer) -> None:
    """Bit for bit, in all that prediction needs."""
    weights = other._weights()
    assert one._weights().keys() == weights.keys()
    different = [name for name, value in one._weights().items() if not torch.equal(value, weights[name])]
    assert different == []
    rows = one.labels.rows
    assert torch.equal(one.labels.prototypes(rows), other.labels.prototypes(rows))


def killed(one: Trainer, folder: Path, n_steps: int) -> None:
    """A run that keeps every step, up to its death in the last of ``n_steps``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "SAVE_EVERY", 0)
        with pytest.raises(KilledError):
            run(one, folder, dying_after(n_steps))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def judged(monkeypatch: pytest.MonkeyPatch, qualities: Iterable[float]) -> None:
    """Let the dev documents say this, before training and after each epoch."""
    said = iter(qualities)
    monkeypatch.setattr(labels.LabelSide, "quality", lambda self, metric: next(said))


def test_the_metric_that_was_asked_for_judges(tmp_path):
    one = trainer(recipe("bce", metric="psp"), made())
    lines = run(one, tmp_path)
    assert one.labels.quality("psp") == one.progress.best != one.labels.quality()
    assert f"PSP@5 of held-out documents {100 * one.progress.best:.1f}" in "".join(lines)


@each_loss
@pytest.mark.parametrize("dense_dim", [0, 6])
def test_training_ranks_unseen_documents_better(loss, dense_dim, tmp_path):
    data = made(dense_dim)
    one = trainer(recipe(loss), data)
    before = one.labels.quality()
    lines = run(one, tmp_path)
    assert one.labels.quality() > before + 0.3
    assert one.labels.quality() == one.progress.best
    assert len(lines) == 10
    assert lines[-1].startswith("epoch 10: loss ")
    assert f"nDCG@5 of held-out documents {100 * one.progress.best:.1f}" in "".join(lines)


@each_kind
def test_the_same_seed_gives_the_same_weights_and_another_one_others(loss, tmp_path):
    chosen = recipe(loss, epochs=2)
    one, same = (trained(chosen, tmp_path / name) for name in "ab")
    assert_same(one, same)
    other = trained(replace(chosen, seed=1), tmp_path / "c")
    assert not torch.equal(one.tower.bag, other.tower.bag)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], tuple[Trainer, list[str]]]:
    """Whole runs of three epochs by loss and label limit, each done once, with what they reported."""

    @functools.cache
    def find(loss: str, limit: int) -> tuple[Trainer, list[str]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(labels, "N_HARD", 2)
            one = trainer(recipe(loss, epochs=3, label_limit=limit))
            return one, run(one, tmp_path_factory.mktemp("whole"))

    return find


@each_kind
@pytest.mark.parametrize("limit", [N_LABELS, N_LABELS - 4], ids=["all labels", "a sample of labels"])
@pytest.mark.parametrize("n_steps", [1, 4, 5])
def test_interrupted_and_continued_is_as_if_nothing_had_happened(
    loss, limit, n_steps, tmp_path, monkeypatch, undisturbed
):
    """Three steps are an epoch. The step at which it dies is not kept."""
    monkeypatch.setattr(labels, "N_HARD", 2)
    chosen, steps = recipe(loss, epochs=3, label_limit=limit), []
    killed(trainer(chosen), tmp_path, n_steps)
    assert len(list(tmp_path.rglob("numbers.json"))) == (n_steps > 1)
    continued = trainer(chosen)
    assert continued.sampler.takes_all == (limit == N_LABELS)
    lines = run(continued, tmp_path, steps.append)
    assert steps == [n_steps - 1] + [1] * (9 - n_steps + 1)
    whole, all_lines = undisturbed(loss, limit)
    assert lines == all_lines[(n_steps - 1) // 3 :]
    assert_same(continued, whole)
    assert continued.progress == whole.progress


@each_kind
def test_killed_again_and_again(loss, tmp_path, monkeypatch, undisturbed):
    monkeypatch.setattr(labels, "N_HARD", 2)
    chosen = recipe(loss, epochs=3)
    for _ in range(8):
        killed(trainer(chosen), tmp_path, 2)
    assert_same(trained(chosen, tmp_path), undisturbed(loss, chosen.label_limit)[0])


@pytest.mark.parametrize("loss", ["bce", "decoupled_softmax"])
def test_labels_beyond_the_limit_share_free_vectors_and_still_learn(loss, tmp_path):
    chosen = recipe(loss, free_limit=20)
    one = trainer(chosen)
    before = one.labels.quality()
    assert one.labels.free.rows.shape == (20, one.tower.dim)
    run(one, tmp_path / "whole")
    assert one.labels.quality() > before + 0.3
    assert not torch.equal(one.labels.free.rows, trainer(chosen).labels.free.rows)
    assert not torch.equal(one.labels.free.own, trainer(chosen).labels.free.own)


def test_shared_free_vectors_are_as_if_nothing_had_happened_after_a_kill(tmp_path):
    chosen = recipe("bce", epochs=3, free_limit=20)
    killed(trainer(chosen), tmp_path / "killed", 5)
    assert_same(trained(chosen, tmp_path / "killed"), trained(chosen, tmp_path / "whole"))


def test_the_best_epoch_is_kept_over_a_kill(tmp_path, monkeypatch):
    chosen = recipe("decoupled_softmax", epochs=3)
    judged(monkeypatch, [0.1, 0.5, 0.4, 0.3])
    killed(trainer(chosen), tmp_path / "killed", 7)
    continued = trained(chosen, tmp_path / "killed")
    judged(monkeypatch, [0.1, 0.5])
    short = trained(replace(chosen, stop_after=1), tmp_path / "short")
    assert (continued.progress.best, continued.progress.best_epoch) == (0.5, 1)
    assert_same(continued, short)


def test_a_finished_run_is_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SAVE_EVERY", 0)
    chosen, steps = recipe("bce", epochs=1), []
    first, again = trained(chosen, tmp_path), trainer(chosen)
    assert run(again, tmp_path, steps.append) == []
    assert steps == [3]
    assert_same(first, again)


def test_without_need_nothing_is_written(tmp_path):
    trained(recipe("bce", epochs=1), tmp_path)
    assert files(tmp_path) == {}


def test_it_stops_when_the_dev_metric_does_not_rise(tmp_path, monkeypatch):
    judged(monkeypatch, [0.3, 0.4, *[0.4] * loop.PATIENCE])
    one = trainer(recipe("bce", epochs=20))
    assert len(run(one, tmp_path)) == 1 + loop.PATIENCE
    assert one.progress.best_epoch == 1


def test_if_training_only_harms_the_start_is_kept(tmp_path, monkeypatch):
    judged(monkeypatch, [0.3, *[0.2] * loop.PATIENCE])
    one = trained(recipe("decoupled_softmax"), tmp_path)
    assert one.progress.best_epoch == 0
    assert_same(one, trainer(recipe("decoupled_softmax")))


@each_kind
def test_without_dev_documents_the_last_epoch_is_kept(loss, tmp_path):
    data = made(n_dev=0)
    one = trainer(recipe(loss, epochs=6), data)
    lines = run(one, tmp_path)
    assert one.progress.best_epoch == 6
    assert not any("nDCG" in line for line in lines)
    assert not torch.equal(one.tower.bag, tower_for(data).bag)


@pytest.mark.parametrize("n_epochs", [0, 1, 2, 4])
def test_stop_after(n_epochs, tmp_path):
    """The steps before are those of the whole run; from the second, epochs are averaged."""
    chosen, data = recipe("bce", epochs=6), made(n_dev=0)
    ends: list[Tensor] = []

    def tick(n: int) -> None:
        if whole.progress.step % whole.per_epoch == 0:
            ends.append(whole.tower.bag.clone())

    whole = trainer(chosen, data)
    run(whole, tmp_path / "whole", tick)
    stopped = trainer(replace(chosen, stop_after=n_epochs), data)
    assert len(run(stopped, tmp_path / "stopped")) == n_epochs
    assert stopped.progress.step == n_epochs * stopped.per_epoch
    counted = torch.stack(ends[min(n_epochs, AVERAGED_FROM) : n_epochs + 1])
    assert torch.allclose(stopped.tower.bag, counted.mean(dim=0), atol=1e-6)


@each_loss
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_it_and_leaves_the_checkpoint(loss, number, tmp_path, monkeypatch):
    killed(trainer(recipe(loss)), tmp_path, 3)
    name = recipe(loss).loss
    before, good, steps = files(tmp_path), loop.LOSSES[name], []
    assert before
    one = trainer(recipe(loss))
    monkeypatch.setattr(loop, "SAVE_EVERY", 0)
    monkeypatch.setitem(loop.LOSSES, name, lambda *tensors: good(*tensors) * number)
    with pytest.raises(TrainingError, match=rf"step 3: the loss is {number}.*train\.rate"):
        run(one, tmp_path, steps.append)
    assert files(tmp_path) == before
    assert steps == [2]


@each_kind
@pytest.mark.parametrize("n_docs", [N_DOCS - N_DEV, 100], ids=["three steps an epoch", "one"])
def test_a_rate_that_is_far_too_high_is_told_and_never_kept(loss, n_docs, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SAVE_EVERY", 0)
    one = trainer(recipe(loss, rate=1e30, bag_rate=1e30), replace(DATA, docs=np.arange(n_docs)))
    with pytest.raises(TrainingError, match=r"train\.rate"):
        run(one, tmp_path)
    found = Checkpoints(tmp_path / "checkpoints", "same").load()
    assert found is None or all(value.isfinite().all() for value in found[1].values())


@each_loss
def test_labels_without_documents(loss, tmp_path):
    """Where labels are learned by their text they are ranked too; else they are left out."""
    gold = DATA.gold.tolil()
    gold[:, 5] = 0
    data = replace(DATA, gold=gold.tocsr())
    one = trained(recipe(loss, epochs=2), tmp_path, data)
    assert (5 in one.labels.rows) == RECIPES[loss].by_text


def test_random_numbers_of_the_caller_are_left_alone(tmp_path):
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    trained(recipe("bce", epochs=1), tmp_path)
    assert torch.equal(torch.rand(4), wanted)


@each_loss
def test_labels_with_the_text_of_a_gold_label_are_no_negatives(loss):
    """Where all labels are namesakes nothing is wrong; binary cross-entropy alone needs nothing wrong."""
    data = made()
    alike = Trainer(replace(data, same_text=np.zeros_like(data.same_text)), tower_for(data), recipe(loss))
    apart = Trainer(data, tower_for(data), recipe(loss))
    rows = np.arange(50)
    one, other = alike._step(rows), apart._step(rows)
    assert one < other
    assert one == 0 or loss.endswith("bce")
    assert torch.isfinite(alike.tower.bag).all()
