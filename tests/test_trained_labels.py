from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from xmc.encoders.trained import Draw, TrainedTower
from xmc.errors import ArtifactError, ResourceError
from xmc.network import LabelPrototypeNetwork
from xmc.trained_labels import LEARNED, NETWORK, TrainedLabels

DENSE, BAG, N_LABELS, SEED = 3, 5, 4, 7
DRAW = Draw.once(SEED, 6)


def tower(seed: int = SEED) -> TrainedTower:
    return TrainedTower.untrained(np.arange(6), 9, DENSE, BAG, seed)


def known() -> TrainedLabels:
    torch.manual_seed(1)
    network = LabelPrototypeNetwork(DENSE + BAG, (1.0, 0.5))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_()
    return TrainedLabels.of(network, np.array([True, False, False, True]), trained_tower(), DRAW)


def trained_tower() -> TrainedTower:
    moved = tower()
    moved.bag += 1
    return moved


def test_texts_are_encoded_by_the_tower_before_training():
    drawn = known().text_tower(trained_tower())
    assert torch.equal(drawn.bag, tower().bag)


def test_other_random_numbers_are_noticed():
    other = TrainedLabels(known().network, known().learned, Draw.once(SEED + 1, 6), known().sample)
    with pytest.raises(
        ResourceError, match="draws other random numbers than the one that trained this model"
    ):
        other.text_tower(trained_tower())


def test_prototypes_are_the_network_s_without_a_free_vector():
    rng = np.random.default_rng(2)
    texts, centroids = rng.standard_normal((2, 3, DENSE + BAG)).astype(np.float32)
    centroids[0], texts[2], centroids[2] = 0, 0, 0
    frequency = np.array([0, 5, 0])
    found = known().prototypes(texts, centroids, frequency)
    parts = map(torch.from_numpy, (texts, centroids, np.zeros_like(texts), frequency.astype(np.float32)))
    assert np.array_equal(found[:, :-1], known().network(*parts).detach().numpy())
    assert not found[:, -1].any()
    assert not found[2].any()
    assert found[:2, :-1].any(axis=1).all()


def test_saved_and_loaded(tmp_path: Path):
    known().save(tmp_path / "trained_labels")
    again = TrainedLabels.load(tmp_path / "trained_labels", N_LABELS, trained_tower())
    assert again.learned.tolist() == known().learned.tolist()
    assert again.draw.seeds == (SEED,)
    one = again.prototypes(np.eye(8, dtype=np.float32), np.zeros((8, 8)), np.zeros(8))
    assert np.array_equal(one, known().prototypes(np.eye(8, dtype=np.float32), np.zeros((8, 8)), np.zeros(8)))
    assert torch.equal(again.text_tower(trained_tower()).bag, tower().bag)


def test_what_does_not_fit_is_refused(tmp_path: Path):
    folder = tmp_path / "trained_labels"
    known().save(folder)
    with pytest.raises(ArtifactError, match="does not fit labels and tower"):
        TrainedLabels.load(folder, N_LABELS + 1, trained_tower())
    with pytest.raises(ArtifactError, match=NETWORK):
        TrainedLabels.load(folder, N_LABELS, TrainedTower.untrained(np.arange(6), 9, DENSE, BAG + 1, SEED))
    np.save(folder / LEARNED, np.zeros(N_LABELS))
    with pytest.raises(ArtifactError, match="does not fit labels and tower"):
        TrainedLabels.load(folder, N_LABELS, trained_tower())
