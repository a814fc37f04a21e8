"""Checkpoints: the state of a training run on disk, replaced in one step, so that a kill costs little."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from xmc.artifacts import (
    ArtifactWriter,
    is_artifact,
    load_json,
    load_tensors,
    open_artifact,
    save_json,
    save_tensors,
)
from xmc.errors import ArtifactError

KIND = "checkpoint"


class Checkpoints:
    """The newest checkpoint in a directory; ``identity`` names the data and settings it belongs to.

    Those of another identity are dropped when they are met.
    """

    def __init__(self, directory: Path, identity: str) -> None:
        self.directory, self.identity = directory, identity

    def save(self, step: int, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Keep the state after ``step`` steps, and drop the one before once it is safe."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{step:09}"
        if is_artifact(path):
            return
        with ArtifactWriter(path, KIND, built_by="xmc train") as writer:
            save_json(writer.path / "numbers.json", {"identity": self.identity, **numbers})
            save_tensors(writer.path / "state.safetensors", dict(tensors))
        for old in self._paths():
            if old != path:
                shutil.rmtree(old)

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """The newest whole checkpoint of this identity, None where there is none."""
        for path in reversed(self._paths()):
            with suppress(ArtifactError):
                artifact = open_artifact(path, KIND, verify=True)
                numbers = load_json(artifact.file("numbers.json"))
                if numbers.pop("identity", None) == self.identity:
                    return numbers, load_tensors(artifact.file("state.safetensors"))
            shutil.rmtree(path, ignore_errors=True)
        return None

    def _paths(self) -> list[Path]:
        found = self.directory.glob("[0-9]*") if self.directory.is_dir() else ()
        return sorted(path for path in found if path.name.isdigit())


def adam_tensors(adam: Optimizer) -> dict[str, Tensor]:
    """The optimiser's moments by name, ``adam.NUMBER.NAME``."""
    states = adam.state_dict()["state"].items()
    return {f"adam.{i}.{name}": value for i, state in states for name, value in state.items()}


def adam_state(adam: Optimizer, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The optimiser's state dictionary with those of ``tensors`` that :func:`adam_tensors` named."""
    state = adam.state_dict()
    for name, value in tensors.items():
        if name.startswith("adam."):
            _, number, part = name.split(".")
            state["state"].setdefault(int(number), {})[part] = value
    return state


def weight_tensors(weights: Mapping[str, Tensor], adam: Optimizer) -> dict[str, Tensor]:
    """Weights by name, and the moments of their optimiser, as a checkpoint keeps them."""
    named = {f"weights.{name}": weight.detach() for name, weight in weights.items()}
    return {name: value.cpu().contiguous() for name, value in (adam_tensors(adam) | named).items()}


@torch.no_grad()
def put_weights(weights: Mapping[str, Tensor], adam: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Copy what :func:`weight_tensors` named back to where it was."""
    for name, weight in weights.items():
        weight.copy_(tensors[f"weights.{name}"])
    adam.load_state_dict(adam_state(adam, tensors))
