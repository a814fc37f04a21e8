"""A plan as a table for people and as JSON, and what to say where the machine is too small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xmc.artifacts.space import size_text
from xmc.plan.run import JobPlan, Plan

LESS_MEMORY = {
    "index": "fewer --docs or labels, or preset=fast",
    "train": "`xmc index`, preset=fast, a lower train.max_features or train.dim, or fewer --docs",
}
LESS_DISK = "preset=fast, another disk for -o, or fewer --docs"


def lines(plan: Plan) -> Iterator[str]:
    """The plan as text."""
    size, sample = plan.size, plan.sample
    yield (
        f"{size.n_labels:,} labels, {plan.n_seen:,} of them with documents; {size.n_docs:,} documents"
        f" with {plan.labels_a_document:.1f} labels each"
    )
    yield (
        f"measured in {plan.probing.wall:.0f} s ({plan.probing.cpu:.0f} CPU s) on {sample.n_docs:,} documents"
        f" and {sample.n_labels:,} labels; seconds are of this machine under its load of now"
    )
    yield ""
    yield from _table(plan.jobs)


def _table(jobs: list[JobPlan]) -> Iterator[str]:
    yield f"{'':24}" + "".join(f"{'xmc ' + job.command:>24}" for job in jobs)
    yield f"{'':24}" + "".join(f"{'CPU s':>12}{'wall s':>12}" for job in jobs)
    for name in dict.fromkeys(name for job in jobs for name in job.stages):
        costs = [job.stages.get(name) for job in jobs]
        cells = ["".join(f"{x:12,.0f}" for x in (c.cpu, c.wall)) if c else " " * 24 for c in costs]
        yield f"{name:24}" + "".join(cells)
    yield f"{'together':24}" + "".join(f"{job.total.cpu:12,.0f}{job.total.wall:12,.0f}" for job in jobs)
    for what, value in (
        ("memory at most", lambda job: size_text(job.need.memory)),
        ("model on disk", lambda job: size_text(job.need.model)),
        ("disk meanwhile", lambda job: size_text(job.need.disk)),
        ("tagging 1,000, CPU s", lambda job: f"{job.tagging.cpu:,.1f}"),
        ("and once to load, CPU s", lambda job: f"{job.loading.cpu:,.1f}"),
    ):
        yield f"{what:24}" + "".join(f"{value(job):>24}" for job in jobs)


def warnings(plan: Plan, memory: int | None, disk: int) -> Iterator[str]:
    """What does not fit into ``memory`` (None: not known) and ``disk`` bytes that are there."""
    for job in plan.jobs:
        name = f"xmc {job.command}"
        if memory is not None and job.need.memory > memory:
            yield (
                f"{name} needs ≈ {size_text(job.need.memory)} of memory, {size_text(memory)} available;"
                f" less: {LESS_MEMORY[job.command]}"
            )
        if job.need.disk > disk:
            needed = f"{name} needs ≈ {size_text(job.need.disk)} of disk"
            yield f"{needed}, {size_text(disk)} free; less: {LESS_DISK}"


def record(plan: Plan, memory: int | None, disk: int) -> dict[str, Any]:
    """The plan as JSON: seconds and bytes."""
    return {
        "documents": plan.size.n_docs,
        "labels": plan.size.n_labels,
        "labels_with_documents": plan.n_seen,
        "labels_a_document": plan.labels_a_document,
        "sample": {"documents": plan.sample.n_docs, "labels": plan.sample.n_labels},
        "probing": {"cpu_s": plan.probing.cpu, "wall_s": plan.probing.wall},
        "available": {"memory_bytes": memory, "disk_bytes": disk},
        "jobs": {job.command: _job(job) for job in plan.jobs},
        "warnings": list(warnings(plan, memory, disk)),
    }


def _job(job: JobPlan) -> dict[str, Any]:
    return {
        "cpu_s": job.total.cpu,
        "wall_s": job.total.wall,
        "stages": {name: {"cpu_s": cost.cpu, "wall_s": cost.wall} for name, cost in job.stages.items()},
        "memory_bytes": job.need.memory,
        "model_bytes": job.need.model,
        "disk_bytes": job.need.disk,
        "tagging_1000_documents": {"cpu_s": job.tagging.cpu, "wall_s": job.tagging.wall},
        "loading": {"cpu_s": job.loading.cpu, "wall_s": job.loading.wall},
    }
