"""Model: the artifact that tagging needs, saved and loaded as one checksummed whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from xmc.artifacts import load_array, load_json, open_artifact, save_array, save_json
from xmc.calibration import Calibration
from xmc.context import NAMES as CONTEXT_NAMES
from xmc.data.labels import LabelSet
from xmc.encoders.dual import DualEncoder
from xmc.errors import ArtifactError
from xmc.fit import Weights
from xmc.index.base import LabelIndex
from xmc.index.kinds import load_index, save_index
from xmc.index.matcher import LabelMatcher
from xmc.linear import LinearLabels
from xmc.memory import DocumentMemory
from xmc.mix import Mix, are_weights
from xmc.prototypes import NAMES as PROTOTYPE_NAMES
from xmc.rerank.cross import CrossEncoder
from xmc.rerank.head import RerankHead
from xmc.shortlist import NAMES as FINAL_NAMES
from xmc.shortlist import Shortlister
from xmc.trained_labels import TrainedLabels
from xmc.training_record import TrainingRecord

KIND = "model"
RERANKER = "reranker.safetensors"
# Under which names parts are saved, besides the index and the memory.
NAMES = {
    "encoder": "encoder",
    "matcher": "matcher",
    "trained": "trained_labels",
    "linear": "linear",
    "cross": "cross",
}
LABELS = "labels.arrow"
RECORD = "training"
# Where nothing of the labels changed but which of them are retired, that stands here.
RETIRED = "retired.npy"
# With numbers beyond these a score could overflow; a memory's vectors have length one, but for rounding.
LARGEST, UNIT = 1e15, 1.01
# Of 0, 1/4, 1/2 and 1 the one that found most new labels without loss to the others; see docs/design.md.
UNFITTED_VOTE = 0.25
BLOCK = 1 << 20  # numbers checked at a time


@dataclass(frozen=True)
class Model:
    """Labels, the encoder, the label index, what is remembered of documents, and the fitted weights.

    ``trained``: makes trained prototypes of new labels; None where nothing was trained, or not by texts.
    ``linear``: the labels' classifiers, ``cross``: reads texts of documents and labels; None without.
    ``record``: what later training may go on from, of a model that was just trained; what changes or uses a
    model leaves that on disk.
    """

    labels: LabelSet
    encoder: DualEncoder
    index: LabelIndex
    matcher: LabelMatcher | None
    memory: DocumentMemory | None
    weights: Weights
    id: str = ""
    trained: TrainedLabels | None = None
    linear: LinearLabels | None = None
    record: TrainingRecord | None = None
    cross: CrossEncoder | None = None

    @property
    def frequency(self) -> np.ndarray:
        """(n_labels,) how many remembered documents carry each label."""
        return np.zeros(len(self.labels), np.int64) if self.memory is None else self.memory.frequency

    @cached_property
    def counted(self) -> np.ndarray:
        """(n_labels,) how many documents each label counts as having, in scores.

        Where documents taught prototypes, a label without one counts as one without documents, however many
        it has: the weights of others expect a trained score.
        """
        out, base = self.frequency, self.encoder.untrained_dim
        if self.encoder.trained is None:
            return out
        rows = np.flatnonzero((out > 0) & self.index.has(np.arange(len(out))))
        step = max(1, BLOCK // self.index.dim)
        for start in range(0, len(rows), step):
            block = rows[start : start + step]
            out[block] *= self.index.vectors(block)[:, base:-1].any(axis=1)
        return out

    @property
    def scoreable(self) -> np.ndarray:
        """(n_labels,) bool: labels that have a vector and are not retired."""
        return self.index.has(np.arange(len(self.labels))) & ~self.labels.retired

    def shortlister(self) -> Shortlister:
        """What finds candidates among this model's labels."""
        voters, scoreable = self._voters(), self.scoreable
        return Shortlister(self.encoder, self.index, self.matcher, voters, scoreable, linear=self.linear)

    def _voters(self) -> DocumentMemory | None:
        """The memory, in which documents count less for labels that count as labels without documents.

        Nothing fitted what a vote for such a label is worth: where the weights were fitted none had any.
        """
        doubted = self.counted < self.frequency
        if self.memory is None or not doubted.any():
            return self.memory
        labels = self.memory.labels.copy()
        labels.data[doubted[labels.indices]] *= UNFITTED_VOTE
        return replace(self.memory, labels=labels)

    def save(self, directory: Path, before: Model | None = None) -> list[str]:
        """Write into an existing, empty directory what differs from ``before``, everything without it.

        Returns the names, of files or directories, under which ``before`` has the rest; it was loaded, and
        this model made from it by changing parts.
        """
        kept = save_index(self.index, directory / "index", None if before is None else before.index)
        if self.memory is not None:
            had = None if before is None else before.memory
            kept += [f"memory/{name}" for name in self.memory.save(directory / "memory", had)]
        kept += self._save_labels(directory, None if before is None else before.labels)
        for field, name in NAMES.items():
            part = getattr(self, field)
            if part is not None and part is getattr(before, field, None):
                kept.append(name)
            elif part is not None:
                part.save(directory / name)
        if before is not None:
            kept.append(RECORD)
        elif self.record is not None:
            self.record.save(directory / RECORD)
        save_json(directory / "weights.json", _plain(self.weights))
        if self.weights.reranker is not None:
            self.weights.reranker.save(directory / RERANKER)
        if self.weights.calibration is not None:
            self.weights.calibration.save(directory / "calibration")
        return kept

    def _save_labels(self, directory: Path, before: LabelSet | None) -> list[str]:
        """Write what differs from the labels ``before``; the names of the rest."""
        if before is self.labels:
            return [LABELS, RETIRED]
        if before is not None and self.labels.same_but_retired(before):
            save_array(directory / RETIRED, self.labels.retired)
            return [LABELS]
        self.labels.save(directory / LABELS)
        return []

    @classmethod
    def load(cls, path: Path, device: str = "auto", dtype: str = "auto") -> Model:
        """Open a model artifact; sizes are checked always, contents the first time.

        Raises:
            ArtifactError: it is no model, or damaged; the message says which file and the way out.
        """
        artifact = open_artifact(path, KIND)
        names = set(artifact.names)
        labels = LabelSet.load(artifact.file(LABELS))
        if RETIRED in names:
            labels = labels.with_retired(_retired(artifact.file(RETIRED), len(labels)))
        encoder = DualEncoder.load(artifact.directory("encoder"), device, dtype)
        index = load_index(artifact.directory("index"), len(labels))
        matcher, memory = None, None
        if "matcher/names.npz" in names:
            matcher = LabelMatcher.load(artifact.directory("matcher"))
        if "memory/labels.npz" in names:
            memory = DocumentMemory.load(artifact.directory("memory"), len(labels))
        trained = None
        if "trained_labels/learned.npy" in names and encoder.trained is not None:
            trained = TrainedLabels.load(artifact.directory("trained_labels"), len(labels), encoder.trained)
        linear = None
        if "linear/weights.npz" in names:
            linear = LinearLabels.load(artifact.directory("linear"))
        cross = None
        if "cross/cross.json" in names:
            cross = CrossEncoder.load(artifact.directory("cross"), device, dtype)
        weights = _weights(load_json(artifact.file("weights.json")), path / "weights.json")
        if RERANKER in names:
            n_towers = len(encoder.towers)
            head = RerankHead.load(artifact.file(RERANKER), len(CONTEXT_NAMES) + n_towers, n_towers)
            weights = replace(weights, reranker=head)
        if "calibration/curves.json" in names:
            calibration = Calibration.load(artifact.directory("calibration"), len(labels))
            weights = replace(weights, calibration=calibration)
        known = (labels, encoder, index, matcher, memory, weights, artifact.id)
        model = cls(*known, trained=trained, linear=linear, cross=cross)
        model.check(path)
        return model

    def check(self, path: Path) -> None:
        """Raise ArtifactError where the parts are of different sizes, or numbers are not finite."""
        self._check_sizes(path)
        _check_vectors(self.index, LARGEST, path / "index")
        if self.memory is not None:
            _check_vectors(self.memory.index, UNIT, path / "memory")

    def _check_sizes(self, path: Path) -> None:
        n_labels, dim = len(self.labels), self.encoder.dim
        shapes = [("index", (n_labels, self.index.dim), (n_labels, dim + 1))]
        if self.matcher is not None:
            found = (self.matcher.n_labels, self.matcher.features.shape[1])
            shapes.append(("matcher", found, (n_labels, self.encoder.lexical.n_features)))
        if self.linear is not None:
            wanted = (n_labels, self.encoder.lexical.n_features)
            shapes.append(("linear", self.linear.weights.shape, wanted))
        if self.memory is not None:
            shapes.append(("memory", (n_labels, self.memory.index.dim), (n_labels, dim)))
            if self.memory.windows is not None:
                found = self.memory.windows.windows.shape
                shapes.append(("memory/windows", found, (found[0], self.encoder.dense_dim)))
        for name, found, wanted in shapes:
            if tuple(found) != wanted:
                raise ArtifactError(
                    f"{path}: {name} is {found}, wanted {wanted}; rebuild it with `xmc index`"
                )


def _retired(path: Path, n_labels: int) -> np.ndarray:
    """(n_labels,) bool: the retired labels as a model has them."""
    retired = load_array(path, mmap=False)
    if retired.dtype != np.bool_ or retired.shape != (n_labels,):
        raise ArtifactError(f"{path}: does not say of each label whether it is retired; rebuild the model")
    return retired


def _check_vectors(index: LabelIndex, largest: float, where: Path) -> None:
    """Raise ArtifactError where a number is beyond ``largest``, which NaN is too."""
    rows = np.flatnonzero(index.has(np.arange(index.n_rows)))
    step = max(1, BLOCK // index.dim)
    for start in range(0, len(rows), step):
        if not np.abs(index.vectors(rows[start : start + step])).max() <= largest:
            raise ArtifactError(f"{where}: holds vectors that are not finite or too long; rebuild the model")


def _plain(weights: Weights) -> dict[str, Any]:
    return {
        "prototype": weights.prototype.to_json(),
        "final": weights.final.to_json(),
        "probability": list(weights.probability),
        "beside": weights.beside.to_json(),
    }


def _weights(saved: Any, where: object) -> Weights:
    saved = saved if isinstance(saved, dict) else {}
    curve = saved.get("probability")
    if not isinstance(curve, list) or len(curve) != 2 or not are_weights(curve):
        raise ArtifactError(f"{where}: no slope and offset of the probability; rebuild the model")
    return Weights(
        Mix.from_json(PROTOTYPE_NAMES, saved.get("prototype"), where),
        Mix.from_json(FINAL_NAMES, saved.get("final"), where),
        (curve[0], curve[1]),
        Mix.from_json(CONTEXT_NAMES, saved.get("beside"), where),
    )
