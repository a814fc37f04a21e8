"""What the stages of a build cost on a sample, by building a model of it, and what tagging then costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from xmc.artifacts import ArtifactWriter
from xmc.builder import Builder
from xmc.data.records import DocumentBatch
from xmc.encoders.dense import DenseTower
from xmc.encoders.windows import WindowVectors, tokenise
from xmc.index.kinds import make_index
from xmc.index.matcher import LabelMatcher
from xmc.label_text import label_texts
from xmc.model import KIND, Model
from xmc.plan.sample import N_DOCS
from xmc.settings import BuildSettings
from xmc.source import Source
from xmc.stages import Cost, listening, measured
from xmc.tag.tagger import Tagger

ENOUGH_TOKENS = 50_000  # that the dense tower really encodes, of documents and of labels
N_QUERIES, N_NEAR = 256, 100
N_TAGGED = 200  # documents tagged to learn what a thousand cost
SEARCHED = 4096, 16384  # rows of the two searches whose difference tells what a row costs


class SparingVectors:
    """Acts as the cache of a builder, but encodes only some of the texts; others get the vectors of these.

    ``calls``: for each call how many texts and tokens there were, how many tokens were encoded, at what cost.
    """

    def __init__(self, tower: DenseTower) -> None:
        self.tower = tower
        self.calls: list[tuple[int, int, int, Cost]] = []

    def encode(self, texts: Sequence[str], names: Sequence[str] | None = None) -> WindowVectors:
        """Vectors of the right shape for every text."""
        counts = tokenise(self.tower.tokenizer, texts)[1]
        step = max(1, -(-int(counts.sum()) // ENOUGH_TOKENS))
        chosen = range(0, len(texts), step)
        cpu, wall = time.process_time(), time.perf_counter()
        vectors = self.tower.encode([texts[i] for i in chosen])
        cost = Cost(time.process_time() - cpu, time.perf_counter() - wall)
        self.calls.append((len(texts), int(counts.sum()), int(counts[::step].sum()), cost))
        return vectors.take(np.arange(len(texts)) // step)


@dataclass(frozen=True)
class DenseProbe:
    """Of the dense tower, by stage: what it ``spent``, and what the ``whole`` sample would have cost."""

    spent: dict[str, Cost]
    whole: dict[str, Cost]


@dataclass(frozen=True)
class BuildProbe:
    """A build of a sample: the cost of its ``stages``, and of what lies between them (``rest``).

    ``tagging``: of a thousand documents; ``loading``: of the model, whose files have ``sizes`` bytes by name;
    ``matching``: what a name more costs the matcher for a document.
    """

    stages: dict[str, Cost]
    rest: Cost
    dense: DenseProbe | None
    tagging: Cost
    loading: Cost
    matching: Cost
    sizes: dict[str, int]
    model: Model

    @property
    def fit(self) -> list[str]:
        """The stages that fit weights."""
        return [name for name in self.stages if name.startswith("fit")]


def probe_build(sample: Source, settings: BuildSettings, work: Path) -> BuildProbe:
    """Build, write, load and use a model of the ``sample`` in the empty directory ``work``."""
    with listening() as stages, measured() as whole:
        quiet = replace(settings, run=replace(settings.run, progress="off"))
        builder = Builder(sample, quiet, work, tell=lambda lines: None)
        if builder.encoder.dense is not None:
            builder.cache = SparingVectors(builder.encoder.dense)
        model = builder.model()
    rest = whole[0]
    for cost in stages.values():
        rest -= cost
    path = work / "model"
    with measured() as writing, ArtifactWriter(path, KIND) as writer:
        model.save(writer.path)
    stages["writing"] = writing[0]
    with measured() as loading:
        tagger = Tagger.load(path, settings.run.device, settings.run.dtype)
    sizes = {str(f.relative_to(path)): f.stat().st_size for f in path.rglob("*") if f.is_file()}
    dense, tagging = _dense(builder), _tagged(tagger, sample)
    return BuildProbe(stages, rest, dense, tagging, loading[0], _matching(model, sample), sizes, model)


def _dense(builder: Builder) -> DenseProbe | None:
    """What the dense tower did for the labels, which come first, and for the documents."""
    vectors, n_left = builder.cache, len(set(builder.texts))
    if not isinstance(vectors, SparingVectors):
        return None
    spent, whole = {"labels": Cost(), "documents": Cost()}, {"labels": Cost(), "documents": Cost()}
    for n_texts, n_tokens, n_encoded, cost in vectors.calls:
        name = "labels" if n_left > 0 else "documents"
        spent[name] += cost
        whole[name] += cost.times(n_tokens / max(1, n_encoded))
        n_left -= n_texts
    return DenseProbe(spent, whole)


def _tagged(tagger: Tagger, sample: Source) -> Cost:
    """What it costs to tag the sample's documents, or its labels' texts where there are none; a thousand."""
    texts = label_texts(sample.labels)
    named = DocumentBatch(list(sample.labels.ids.to_pylist()), texts, None, None, texts)
    batch = next(sample.batches(), named.take(np.arange(min(len(texts), N_DOCS))))
    if not len(batch):
        return Cost()
    tagger.tag_batch(batch, tagger.options())  # the first call makes what the others use
    many = batch.take(np.arange(max(N_TAGGED, len(batch))) % len(batch))
    with measured() as found:
        tagger.tag_batch(many, tagger.options())
    return found[0].times(1000 / len(many))


def _matching(model: Model, sample: Source) -> Cost:
    """The difference between all of the sample's names and a quarter of them, for a name and a document."""
    matcher, batch = model.matcher, next(sample.batches(), None)
    if matcher is None or batch is None or len(matcher.starts) < 9:
        return Cost()
    words = model.encoder.lexical
    features, leads = words.features_of(batch)
    few = len(matcher.starts) // 4
    first = LabelMatcher(matcher.features[: matcher.starts[few]], matcher.starts[: few + 1])
    costs = []
    for each in (first, matcher):
        with measured() as found:
            for _ in each.blocks(features, leads):
                pass
        costs.append(found[0])
    n_more = matcher.features.shape[0] - first.features.shape[0]
    return (costs[1] - costs[0]).times(1 / (max(1, n_more) * len(batch)))


def probe_search(dim: int, seed: int) -> Cost:
    """What a row more costs an exact search for a query, for vectors of length ``dim``."""
    random = np.random.default_rng(seed)
    queries = random.standard_normal((N_QUERIES, dim), dtype=np.float32)
    costs = []
    for n_rows in SEARCHED:
        index = make_index("exact", dim, "ip")
        index.add(np.arange(n_rows), random.standard_normal((n_rows, dim), dtype=np.float32))
        index.compact()
        index.search(queries, N_NEAR)
        with measured() as found:
            index.search(queries, N_NEAR)
        costs.append(found[0])
    return (costs[1] - costs[0]).times(1 / ((SEARCHED[1] - SEARCHED[0]) * N_QUERIES))
