"""A change of a model on disk: under the lock, written beside it, renamed into its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from xmc.artifacts import Artifact, ArtifactWriter, open_artifact
from xmc.errors import ResourceError
from xmc.model import KIND, Model
from xmc.settings import RunSettings


class _UnchangedError(Exception):
    """Leaves the writer without writing."""


def change_model(path: Path, change: Callable[[Model], Model], run: RunSettings) -> Model:
    """Put what ``change`` makes of the model at ``path`` in its place, and return it.

    Killed at any moment it leaves the old model or the new one. Files that are the same are linked, not
    written again. The new artifact names the old one as its parent; where ``change`` returns the very model
    that it got, nothing is written.

    Raises:
        ArtifactError: there is no model, or it is damaged.
        ResourceError: another process changes it, or it cannot be written.
    """
    old = open_artifact(path, KIND)
    if run.threads:
        torch.set_num_threads(run.threads)
    try:
        with ArtifactWriter(
            path, KIND, old.parents | {KIND: old.id}, old.settings, True, old.manifest["built_by"]
        ) as writer:
            model = Model.load(path, run.device, run.dtype)
            if model.id != old.id:
                raise ResourceError(f"{path}: was changed by another process; run the command again")
            changed = change(model)
            if changed is model:
                raise _UnchangedError
            kept = changed.save(writer.path, model)
            for name in _files(old, kept):
                writer.keep(old, name)
    except _UnchangedError:
        return model
    return replace(changed, id=writer.id)


def _files(artifact: Artifact, names: list[str]) -> list[str]:
    """The files of an artifact that ``names`` name, or the directories among these hold."""
    return [f for f in artifact.names if any(f == name or f.startswith(f"{name}/") for name in names)]
