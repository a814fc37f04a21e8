"""The plan of a job: reads the files once, probes a sample of them, and scales up."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType

from xmc.builder import SMALL
from xmc.data.options import ReadReport
from xmc.label_text import label_texts
from xmc.plan.estimate import PASSES, Scale, Size, build_stages, train_stages
from xmc.plan.memory import Need, need, widths
from xmc.plan.probe import BuildProbe, probe_build, probe_search
from xmc.plan.sample import Sampler, sample_source
from xmc.plan.training import TrainProbe, Whole, probe_training
from xmc.plan.tuning import TuningProbe, probe_tuning
from xmc.progress import progress
from xmc.settings import BuildSettings, RerankSettings, TrainingSettings
from xmc.source import Source, read_source
from xmc.stages import Cost, measured, resident
from xmc.taught import learned_from
from xmc.train.run import recipe_for

WARM_UP = 150, 300  # documents and labels


@dataclass(frozen=True)
class JobPlan:
    """What one command needs: costs of its stages, bytes, and what tagging with its model costs.

    ``tagging``: of a thousand documents; ``loading``: of the model, once.
    """

    command: str
    stages: dict[str, Cost]
    need: Need
    tagging: Cost
    loading: Cost

    @property
    def total(self) -> Cost:
        """All stages."""
        return sum(self.stages.values(), Cost())


@dataclass(frozen=True)
class Plan:
    """The plans of the commands that suit the files, and what these hold; ``probing``: what planning took."""

    size: Size
    n_seen: int
    labels_a_document: float
    sample: Size
    jobs: list[JobPlan]
    probing: Cost


def plan_jobs(
    labels: str | Path | None,
    docs: Sequence[str | Path] | None,
    filter_pairs: str | Path | None,
    settings: TrainingSettings,
    report: ReadReport,
    dev: Sequence[str | Path] = (),
    began: Cost | None = None,
) -> Plan:
    """Plan `xmc index`, and where there are tagged documents `xmc train`, for these files and settings.

    ``began``: what it cost to start the process, which each command will do too. A cross-encoder is left out.

    Raises: InputError where the files are not what was asked for, as the commands would.
    """
    settings = replace(settings, rerank=RerankSettings())
    with measured() as probing:
        sampler = Sampler()
        with measured() as reading:
            source = read_source(labels, docs, filter_pairs, settings.read, report, dev, sampler.see)
        sample = sample_source(source, sampler, settings.run.seed)
        with progress(settings.run.progress, "measuring", "builds of a sample", lambda: 3) as done:
            # What is done first takes longer, and what is loaded for it stays in memory.
            _built(sample_source(source, sampler, settings.run.seed, *WARM_UP), _untrained(settings))
            done(1)
            sizes = _size(source), _size(sample)
            job = _Job(source, sample, settings, began or Cost(), reading[0], resident(), *sizes)
            jobs = [job.index()]
            done(1)
            if source.gold[: source.n_own].nnz:
                jobs.append(job.train())
            done(1)
    return Plan(job.whole, _n_seen(source), _labels_a_document(source), job.part, jobs, probing[0])


def _built(sample: Source, settings: BuildSettings) -> BuildProbe:
    with tempfile.TemporaryDirectory(prefix="xmc-plan-") as work:
        return probe_build(sample, settings, Path(work))


def _untrained(settings: TrainingSettings) -> BuildSettings:
    """The settings that `xmc index` reads."""
    return BuildSettings(**{each.name: getattr(settings, each.name) for each in fields(BuildSettings)})


def _size(source: Source) -> Size:
    n_names = int(source.labels.names()[1][-1]) if source.has_text else 0
    return Size(len(source.ids), len(source.labels), n_names, source.n_dev)


def _characters(sample: Source) -> tuple[int, int]:
    """Of the documents, and of the labels, where there are texts; else as many as there are rows."""
    if not sample.has_text:
        return len(sample.ids), 0
    texts = [text for batch in sample.batches() for text in batch.texts or ()]
    return sum(map(len, texts)), sum(map(len, label_texts(sample.labels)))


def _n_seen(source: Source) -> int:
    return int((source.gold[: source.n_own].getnnz(axis=0) > 0).sum())


def _labels_a_document(source: Source) -> float:
    return float(source.gold.nnz / max(1, source.gold.shape[0]))


@dataclass(frozen=True)
class _Job:
    """What both plans start from.

    ``held``: bytes of memory once all was read; ``whole``, ``part``: sizes of the source and of its sample.
    """

    source: Source
    sample: Source
    settings: TrainingSettings
    began: Cost
    reading: Cost
    held: int
    whole: Size
    part: Size

    def index(self) -> JobPlan:
        probe = _built(self.sample, _untrained(self.settings))
        return self._plan("index", probe, self._scale(probe))

    def train(self) -> JobPlan:
        source, wanted, size = self.source, self.settings.train, self.whole
        recipe = recipe_for(source.gold[: source.n_own], wanted, self.settings.run.seed)
        brief = replace(self.settings, train=replace(wanted, epochs=1, loss=recipe.loss, dense="frozen"))
        whole = Whole(size.n_training, size.n_labels, _n_seen(source), _labels_a_document(source))
        with tempfile.TemporaryDirectory(prefix="xmc-plan-") as work:
            probe = probe_build(self.sample, brief, Path(work))
            training = probe_training(self.sample, probe.model, whole, recipe, wanted, Path(work))
        tuning = None
        if wanted.dense != "frozen":
            tuning = probe_tuning(probe.model, self.sample, wanted, size.n_training)
        again, scale = not source.n_dev and size.n_held > SMALL * size.n_docs, self._scale(probe)
        stages = train_stages(training, scale, recipe.epochs, again)
        if tuning is not None:
            stages = {"tuning": tuning.cost, **stages}
        return self._plan("train", probe, scale, stages, training, again, tuning)

    def _scale(self, probe: BuildProbe) -> Scale:
        search = probe_search(probe.model.encoder.dim, self.settings.run.seed)
        both = zip(learned_from(self.source.gold), learned_from(self.sample.gold), strict=True)
        more = [whole / max(1, part) for whole, part in both]
        return Scale(self.whole, self.part, search, _characters(self.sample), *more)

    def _plan(
        self,
        command: str,
        probe: BuildProbe,
        scale: Scale,
        more: Mapping[str, Cost] = MappingProxyType({}),
        training: TrainProbe | None = None,
        again: bool = False,
        tuning: TuningProbe | None = None,
    ) -> JobPlan:
        stages = {"starting": self.began, "reading": self.reading.times(PASSES if self.source.ids else 1)}
        stages |= {**build_stages(probe, scale), **more}
        of = widths(probe, self.sample, scale)
        found = need(self.held, probe, scale, of, training, again)
        if tuning is not None:
            found = replace(
                found, memory=max(found.memory, self.held + tuning.memory), disk=found.disk + tuning.disk
            )
        loading = self.began + probe.loading.times(found.model / max(1, sum(probe.sizes.values())))
        return JobPlan(command, stages, found, probe.tagging + scale.farther(probe).times(1000), loading)
