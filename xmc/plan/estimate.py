"""From a sample's costs to those of the whole job, stage by stage, by what each stage's work grows with."""

from __future__ import annotations

from dataclasses import dataclass

from xmc.builder import SMALL
from xmc.fit import ENOUGH, HELD_OUT_SHARE, MAX_HELD_OUT
from xmc.plan.probe import BuildProbe
from xmc.plan.training import TrainProbe
from xmc.rerank.fitting import n_passes
from xmc.stages import Cost
from xmc.train.batches import batch_size

PASSES = 3  # over the documents' files: ids and labels, words, vectors
# What a training run does once, in times of encoding all documents: choosing features, centroids, vectors.
ONCE = 3.0


@dataclass(frozen=True)
class Size:
    """Documents (``n_judging`` of them with --dev), labels and names, of all or of a sample."""

    n_docs: int
    n_labels: int
    n_names: int
    n_judging: int = 0

    @property
    def n_held(self) -> int:
        """Documents that the weights are fitted on."""
        return min(MAX_HELD_OUT, self.n_judging or int(self.n_docs * HELD_OUT_SHARE))

    @property
    def n_own(self) -> int:
        """Documents that the model holds."""
        return self.n_docs - self.n_judging

    @property
    def n_training(self) -> int:
        """Documents that are trained on at first."""
        return self.n_docs - (self.n_judging or self.n_held)


@dataclass(frozen=True)
class Scale:
    """How ``whole`` compares to ``sample``; ``search``: what a row more costs a query.

    ``characters``: of the sample's documents, and of its labels; ``classifiers``, ``read``: for each of the
    sample's, labels that get one, and documents that all of them together are learned from.
    """

    whole: Size
    sample: Size
    search: Cost
    characters: tuple[int, int] = (1, 0)
    classifiers: float = 1.0
    read: float = 1.0

    @property
    def docs(self) -> float:
        """Documents for each of the sample's."""
        return self.whole.n_docs / max(1, self.sample.n_docs)

    @property
    def labels(self) -> float:
        """Labels for each of the sample's."""
        return self.whole.n_labels / max(1, self.sample.n_labels)

    @property
    def text(self) -> float:
        """Characters for each of the sample's."""
        of_docs, of_labels = self.characters
        return (of_docs * self.docs + of_labels * self.labels) / max(1, of_docs + of_labels)

    @property
    def held(self) -> float:
        """Documents to fit on for each of the sample's."""
        return self.whole.n_held / max(1, self.sample.n_held)

    @property
    def few(self) -> float:
        """As ``held``, where more than enough are not used."""
        return min(ENOUGH, self.whole.n_held) / max(1, min(ENOUGH, self.sample.n_held))

    def farther(self, probe: BuildProbe) -> Cost:
        """What a query costs more among all documents, labels and names than among the sample's."""
        n_rows = self.whole.n_docs + self.whole.n_labels - self.sample.n_docs - self.sample.n_labels
        n_names = self.whole.n_names - self.sample.n_names
        return self.search.times(max(0, n_rows)) + probe.matching.times(max(0, n_names))


def build_stages(probe: BuildProbe, scale: Scale) -> dict[str, Cost]:
    """The stages of building all, but for reading and training."""
    found, docs, labels = probe.stages, scale.docs, scale.labels
    again = scale.whole.n_held > SMALL * scale.whole.n_docs  # as for the sample
    both = (scale.whole.n_docs + scale.whole.n_labels) / (scale.sample.n_docs + scale.sample.n_labels)
    passes = n_passes(scale.whole.n_held) / n_passes(scale.sample.n_held)
    factors = {
        "words": scale.text,
        "labels": labels,
        "documents": docs,
        "fit: weights": scale.few,
        "fit: candidates": scale.held,
        "fit: reranker": scale.held * passes,
        "fit: calibration": scale.held,
        "remembering": docs,
        "classifiers": scale.read * (1.0 if again else 0.5),
        "putting together": both,
        "writing": both,
    }
    out = {name: _sampled(probe, name).times(factor) for name, factor in factors.items() if name in found}
    n_queries = {"fit: weights": min(ENOUGH, scale.whole.n_held), "fit: candidates": scale.whole.n_held}
    for name in n_queries.keys() & out.keys():
        out[name] += scale.farther(probe).times(n_queries[name])
    return out | {"other": probe.rest.times(docs)}


def _sampled(probe: BuildProbe, name: str) -> Cost:
    """A stage on the sample, as it would be with every text encoded and a reranker that helps.

    Where the sample was too small for one to help, it was not fitted on all documents, after their halves.
    """
    cost = probe.stages[name]
    if name == "fit: reranker" and probe.model.weights.reranker is None:
        return cost.times(2)
    if probe.dense is None or name not in probe.dense.spent:
        return cost
    return cost - probe.dense.spent[name] + probe.dense.whole[name]


def train_stages(probe: TrainProbe, scale: Scale, n_epochs: int, again: bool) -> dict[str, Cost]:
    """Training for ``n_epochs``, and once more on all documents where that is done (``again``)."""
    whole, labels = scale.whole, max(1.0, scale.whole.n_labels / probe.n_labels)
    epoch = probe.judging.times(labels) + probe.mining.times(labels * whole.n_training)
    first = _steps(probe, whole.n_training, n_epochs) + epoch.times(n_epochs)
    second = _steps(probe, whole.n_own, n_epochs) + probe.mining.times(labels * whole.n_own * n_epochs)
    once = probe.encoding.times(ONCE * whole.n_docs)
    found = {"training": first + once}
    return found | ({"training on all": second + once} if again else {})


def _steps(probe: TrainProbe, n_docs: int, n_epochs: int) -> Cost:
    return probe.step.times(n_epochs * -(-n_docs // batch_size(n_docs)))
