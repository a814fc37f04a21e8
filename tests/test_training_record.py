from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from xmc.encoders.trained import Draw, TrainedTower
from xmc.errors import ArtifactError
from xmc.network import LabelPrototypeNetwork
from xmc.training_record import TrainingRecord

N_LABELS, TOWER = 9, TrainedTower.untrained(np.arange(6), 8, 2, 5, 3)


def record(shared: bool = False) -> TrainingRecord:
    n_rows, own = (2, torch.rand(3, 3)) if shared else (3, torch.rand(3, 1))
    return TrainingRecord(
        True,
        LabelPrototypeNetwork(TOWER.dim, (1.0, 0.5)),
        Draw.once(3, 6).again(np.array([5, -1, 0, -1, 2, 1]), 3),
        torch.rand(6),
        np.array([1, 4, 8]),
        torch.rand(n_rows, TOWER.dim),
        own,
        torch.tensor([[0, 1], [1, 1], [1, 0]]) if shared else None,
        np.array([-5, 7]),
    )


@pytest.mark.parametrize("shared", [False, True])
def test_saved_and_loaded(shared, tmp_path: Path):
    before = record(shared)
    before.save(tmp_path / "training")
    after = TrainingRecord.load(tmp_path / "training", N_LABELS, TOWER)
    assert (after.by_text, after.draw.seeds, after.draw.counts) == (True, (3, 3 + (1 << 32)), (6, 2))
    for name in ("squares", "free", "own", "labels", "learned"):
        assert np.array_equal(np.asarray(getattr(after, name)), np.asarray(getattr(before, name))), name
    assert (after.drawn is None) == (not shared)
    assert torch.equal(after.draw.rows(5), before.draw.rows(5))
    assert after.network.state_dict().keys() == before.network.state_dict().keys()


@pytest.mark.parametrize(
    "change",
    [
        {"labels": np.array([1, 4, N_LABELS])},
        {"free": torch.rand(3, TOWER.dim + 1)},
        {"squares": torch.rand(5)},
        {"own": torch.rand(2, 1)},
        {"drawn": torch.tensor([[0, 3]])},
        {"draw": Draw((3, 4), (6, 1), np.array([0, 1, 2, 3, 4, 7]))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_does_not_fit_is_refused(change, tmp_path):
    replace(record(), **change).save(tmp_path / "training")
    with pytest.raises(ArtifactError, match="does not fit labels and trained weights"):
        TrainingRecord.load(tmp_path / "training", N_LABELS, TOWER)
