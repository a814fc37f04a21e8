"""Start: a trained model that training goes on from, as other documents and labels see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from xmc.artifacts import Artifact, open_artifact
from xmc.data.labels import LabelSet
from xmc.encoders.dual import DualEncoder
from xmc.encoders.given import GivenTower
from xmc.encoders.grown import Words, grown, places
from xmc.encoders.lexical import LexicalTower
from xmc.encoders.trained import Draw, TrainedTower
from xmc.errors import ArtifactError, InputError, SettingError
from xmc.fit import HELD_OUT_SHARE
from xmc.model import KIND, LABELS, RECORD
from xmc.settings import RunSettings
from xmc.training_record import TrainingRecord

FEWEST = 50  # new documents, or a fifth of all if these are fewer, without which nothing can be judged


@dataclass(frozen=True)
class Start:
    """What is known of a trained model: ``id`` of the artifact at ``path``, labels, towers and record."""

    path: Path
    id: str
    labels: LabelSet
    encoder: DualEncoder
    trained: TrainedTower
    record: TrainingRecord

    @classmethod
    def load(cls, path: Path, run: RunSettings, settings: Mapping[str, object]) -> Start:
        """Read what is needed of the model at ``path``; ``settings``: those that it must have been made with.

        Raises:
            ArtifactError: it is no model, or damaged.
            InputError: it was not trained, or by a version that did not keep what is needed.
            SettingError: it was made with other settings.
        """
        artifact = open_artifact(path, KIND)
        _require_same(artifact, settings, path)
        if not any(name.startswith(f"{RECORD}/") for name in artifact.names):
            raise InputError(
                f"--from {path}: holds nothing to go on from, since it was not trained, or by an older xmc; "
                "wanted a model of `xmc train`, or no --from"
            )
        labels = LabelSet.load(artifact.file(LABELS))
        encoder = DualEncoder.load(artifact.directory("encoder"), run.device, run.dtype)
        if encoder.trained is None:
            raise ArtifactError(f"{path}: has a record of training but no trained tower; train again")
        record = TrainingRecord.load(artifact.directory(RECORD), len(labels), encoder.trained)
        return cls(path, artifact.id, labels, encoder, encoder.trained, record)

    def words(self, fitted: Words) -> Words:
        """The words that were ``fitted`` on the new documents, and the model's.

        Raises InputError where documents are of another kind than the model's.
        """
        before = self.encoder.lexical
        if isinstance(fitted, LexicalTower) and isinstance(before, LexicalTower):
            return grown(fitted, before)
        if type(fitted) is not type(before) or fitted.n_features != before.n_features:
            raise InputError(
                f"--from {self.path}: was trained on {_kind(before)}, the documents are {_kind(fitted)}; "
                "wanted documents of the same kind, or no --from"
            )
        return fitted

    def known(self, documents: np.ndarray, n_dev: int) -> np.ndarray:
        """(n_docs,) bool: which documents, by their `xmc.fingerprints`, the model has learned from.

        What it knows cannot judge it. ``n_dev``: the last ones, which alone are to judge, 0: any. Raises
        InputError where too few are left to do that.
        """
        known = np.isin(documents.view(np.int64), self.record.learned)
        judges = known[-n_dev:]
        n_new, wanted = int((~judges).sum()), 1 if n_dev else min(FEWEST, HELD_OUT_SHARE * len(documents))
        if n_new < wanted:
            found = f"has learned from all but {n_new:,} of {len(judges):,} documents"
            raise InputError(
                f"--from {self.path}: {found}{' for --dev' if n_dev else ''}; to judge by, wanted "
                + ("others" if n_dev else f"at least {FEWEST} new ones, or --dev F")
            )
        return known

    def rows(self, labels: LabelSet) -> np.ndarray:
        """(n,) row among ``labels`` of each label of the record, -1 for those that are gone."""
        return labels.rows(self.labels.take(self.record.labels).ids.to_pylist())

    def places(self, words: Words) -> np.ndarray:
        """(n_features,) which trained embedding each feature of ``words`` has, -1 for none."""
        of_feature = np.full(self.trained.n_features + 1, -1)  # the last one: no feature
        of_feature[self.trained.columns] = np.arange(len(self.trained.columns))
        return of_feature[places(words, self.encoder.lexical)]

    def tower(self, columns: np.ndarray, words: Words, seed: int) -> tuple[TrainedTower, Draw, Tensor]:
        """The trained tower for the features ``columns`` (n,) of ``words``, how it was drawn, its squares.

        Those that the model does not know begin as in an untrained one.
        """
        kept, head = self.places(words)[columns], self.trained.head
        draw = self.record.draw.again(kept, seed)
        dims = head.dense_dim, head.bag_dim
        tower = TrainedTower.drawn(columns, words.n_features, *dims, draw)
        known, at = (torch.from_numpy(part) for part in (np.flatnonzero(kept >= 0), kept[kept >= 0]))
        tower.bag[known] = self.trained.bag[at]
        tower.head.load_state_dict(head.state_dict())
        squares = torch.zeros(len(columns))
        squares[known] = self.record.squares[at]
        return tower, draw, squares


def _require_same(artifact: Artifact, settings: Mapping[str, object], path: Path) -> None:
    for name, wanted in settings.items():
        found = artifact.settings.get(name, wanted)
        if found != wanted:
            raise SettingError(
                f"{name}={_shown(wanted)}: the model of --from {path} has {_shown(found)}; wanted the same, "
                "or no --from"
            )


def _shown(value: object) -> object:
    return "auto" if value is None else value


def _kind(words: Words) -> str:
    return f"rows of {words.n_features:,} features" if isinstance(words, GivenTower) else "texts"
