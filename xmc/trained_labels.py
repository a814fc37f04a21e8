"""TrainedLabels: what gives a label that training did not see its trained prototype.

Only where labels were learned by their texts: there a label's trained prototype follows from its text and the
centroid of its documents, by the trained network. What a label's own documents taught its free vector is not
kept apart, so the prototype of such a label stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xmc.artifacts import load_array, load_tensors, save_array, save_tensors
from xmc.encoders.trained import Draw, TrainedTower, load_state
from xmc.errors import ArtifactError, ResourceError
from xmc.network import LabelPrototypeNetwork

NETWORK, LEARNED = "network.safetensors", "learned.npy"


@dataclass(frozen=True)
class TrainedLabels:
    """The trained ``network``, and which labels, (n_labels,) bool, have ``learned`` from their documents.

    Labels' texts are encoded by the tower as it was before training, which is drawn again as ``draw`` says;
    ``sample`` (bag_dim,) is the first of its embeddings, by which it is recognised.
    """

    network: LabelPrototypeNetwork
    learned: np.ndarray
    draw: Draw
    sample: np.ndarray

    @classmethod
    def of(
        cls, network: LabelPrototypeNetwork, learned: np.ndarray, tower: TrainedTower, draw: Draw
    ) -> TrainedLabels:
        """Of a network that was trained with ``tower``, drawn as ``draw`` says at first."""
        return cls(network, learned, draw, _first(_untrained(tower, draw)))

    def text_tower(self, tower: TrainedTower) -> TrainedTower:
        """The tower as it was before training.

        Raises: ResourceError where the same seed gives other numbers than it did at training.
        """
        drawn = _untrained(tower, self.draw)
        if not np.array_equal(_first(drawn), self.sample):
            raise ResourceError(
                f"torch {torch.__version__} draws other random numbers than the one that trained this model; "
                "install that one (xmc inspect tells which), or train again"
            )
        return drawn

    @torch.no_grad()
    def prototypes(self, texts: np.ndarray, centroids: np.ndarray, frequency: np.ndarray) -> np.ndarray:
        """(n, dim + 1) prototypes and biases, these zero, of labels without a free vector.

        ``texts``, ``centroids``: (n, dim) unit or zero rows in the trained space; ``frequency`` (n,).
        """
        parts = [torch.from_numpy(np.ascontiguousarray(part, np.float32)) for part in (texts, centroids)]
        counts = torch.from_numpy(frequency.astype(np.float32))
        found = self.network(*parts, torch.zeros_like(parts[0]), counts).numpy()
        return np.hstack([found, np.zeros((len(found), 1), np.float32)])

    def save(self, directory: Path) -> None:
        """Write both files into a new directory."""
        directory.mkdir()
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors["sample"] = torch.from_numpy(self.sample)
        save_tensors(directory / NETWORK, tensors | draw_tensors(self.draw))
        save_array(directory / LEARNED, self.learned)

    @classmethod
    def load(cls, directory: Path, n_labels: int, tower: TrainedTower) -> TrainedLabels:
        """Read what ``save`` wrote. Raises ArtifactError where it does not fit the labels or the tower."""
        path = directory / NETWORK
        tensors, learned = load_tensors(path), load_array(directory / LEARNED, mmap=False)
        sample, draw = tensors.pop("sample", torch.zeros(0)), draw_of(tensors, len(tower.columns))
        shaped = draw is not None and sample.dtype == torch.float32
        if draw is None or not shaped or learned.dtype != np.bool_ or learned.shape != (n_labels,):
            raise ArtifactError(f"{directory}: the network does not fit labels and tower; train again")
        network = LabelPrototypeNetwork(tower.dim, (0.0, 0.0))
        load_state(network, {k.removeprefix("network."): v for k, v in tensors.items()}, path)
        return cls(network, learned, draw, sample.numpy())


def draw_tensors(draw: Draw) -> dict[str, Tensor]:
    """A draw as it is saved; where all was drawn at the same time the seed says it."""
    seeds = {"seed": torch.tensor(draw.seeds)}
    if len(draw.seeds) == 1:
        return seeds
    return seeds | {"counts": torch.tensor(draw.counts), "place": torch.from_numpy(draw.place)}


def draw_of(tensors: dict[str, Tensor], n: int) -> Draw | None:
    """What :func:`draw_tensors` saved, taken out of ``tensors``, of ``n`` features; None where it is not."""
    seeds, none = tensors.pop("seed", torch.zeros(0)), torch.zeros(0)
    counts, place = tensors.pop("counts", none), tensors.pop("place", none)
    if seeds.dtype != torch.int64 or seeds.ndim != 1 or not len(seeds):
        return None
    if len(seeds) == 1:
        return Draw.once(int(seeds[0]), n)
    whole = all(each.dtype == torch.int64 for each in (counts, place))
    if not whole or counts.shape != seeds.shape or place.shape != (n,) or (counts < 0).any():
        return None
    if n and not 0 <= int(place.min()) <= int(place.max()) < int(counts.sum()):
        return None
    return Draw(tuple(seeds.tolist()), tuple(counts.tolist()), place.numpy())


def _untrained(tower: TrainedTower, draw: Draw) -> TrainedTower:
    head = tower.head
    return TrainedTower.drawn(tower.columns, tower.n_features, head.dense_dim, head.bag_dim, draw)


def _first(tower: TrainedTower) -> np.ndarray:
    return tower.bag[:1].flatten().numpy()
