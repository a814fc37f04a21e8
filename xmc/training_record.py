"""TrainingRecord: what training leaves in a model so that another one can go on from there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xmc.artifacts import load_tensors, save_tensors
from xmc.encoders.trained import Draw, TrainedTower, load_state
from xmc.errors import ArtifactError
from xmc.network import LabelPrototypeNetwork
from xmc.trained_labels import draw_of, draw_tensors

FILE = "state.safetensors"


@dataclass(frozen=True)
class TrainingRecord:
    """Beside the trained tower, whose embeddings began as ``draw`` says and have had ``squares`` (n_kept,).

    ``by_text``: whether labels were learned by their text; the ``network``; ``labels`` (n,) rows of those
    that documents had, with the tables of their free vectors: ``free`` (n_rows, dim), ``own`` (n, any) and,
    where rows are shared, which ones each label has, ``drawn`` (n, any). ``learned``: 64-bit numbers of the
    documents that all this was learned from (see `xmc.fingerprints`), as int64, ascending.
    """

    by_text: bool
    network: LabelPrototypeNetwork
    draw: Draw
    squares: Tensor
    labels: np.ndarray
    free: Tensor
    own: Tensor
    drawn: Tensor | None
    learned: np.ndarray

    def save(self, directory: Path) -> None:
        """Write the one file into a new directory."""
        directory.mkdir()
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= draw_tensors(self.draw) | {"squares": self.squares, "free": self.free, "own": self.own}
        tensors |= {} if self.drawn is None else {"drawn": self.drawn}
        tensors["labels"] = torch.from_numpy(self.labels)
        tensors["learned"] = torch.from_numpy(self.learned)
        tensors["by_text"] = torch.tensor([int(self.by_text)])
        save_tensors(directory / FILE, tensors)

    @classmethod
    def load(cls, directory: Path, n_labels: int, tower: TrainedTower) -> TrainingRecord:
        """Read what ``save`` wrote. Raises ArtifactError where it does not fit the labels or the tower."""
        path = directory / FILE
        tensors = load_tensors(path)
        state = {k.removeprefix("network."): v for k, v in tensors.items() if k.startswith("network.")}
        network = LabelPrototypeNetwork(tower.dim, (0.0, 0.0))
        load_state(network, state, path)
        draw, none = draw_of(tensors, len(tower.columns)), torch.zeros(0)
        squares, free, own = (tensors.get(name, none) for name in ("squares", "free", "own"))
        labels, learned = (tensors.get(name, none).numpy() for name in ("labels", "learned"))
        by_text, drawn = tensors.get("by_text", none), tensors.get("drawn")
        whole = draw is not None and squares.shape == (len(tower.columns),) and by_text.shape == (1,)
        whole = whole and free.ndim == 2 and free.shape[1] == tower.dim and own.shape[:1] == labels.shape
        whole = whole and labels.dtype == learned.dtype == np.int64 and _are_rows(labels, n_labels)
        if drawn is None:
            whole = whole and own.shape[1:] == (1,) and len(free) == len(own)
        else:
            whole = whole and own.shape == (len(labels), 1 + drawn.shape[-1]) and len(drawn) == len(own)
            whole = whole and drawn.dtype == torch.int64 and _are_rows(drawn.numpy(), len(free))
        if draw is None or not whole or any(t.dtype != torch.float32 for t in (squares, free, own)):
            raise ArtifactError(f"{path}: does not fit labels and trained weights; train again")
        return cls(bool(by_text[0]), network, draw, squares, labels, free, own, drawn, learned)


def _are_rows(rows: np.ndarray, n: int) -> bool:
    return bool(((rows >= 0) & (rows < n)).all())
