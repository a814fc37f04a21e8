"""``xmc index`` and ``xmc train``: labels, and tagged documents if there are any, into a model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

from xmc.artifacts import ArtifactWriter
from xmc.builder import Builder
from xmc.data.options import ReadReport
from xmc.errors import some
from xmc.model import KIND, Model
from xmc.notices import counted, notify, state
from xmc.reliability import HeldOutReliability
from xmc.settings import BuildSettings, TrainingSettings
from xmc.source import read_source
from xmc.start import Start


def build_model(
    labels: str | Path | None,
    docs: Sequence[str | Path] | None,
    filter_pairs: str | Path | None,
    out: str | Path,
    settings: BuildSettings,
    dev: Sequence[str | Path] = (),
    start: str | Path | None = None,
) -> None:
    """Build the model ``out`` from a label file and document files.

    With the settings of ``xmc train`` it is trained. Killed and run again it takes up the texts that were
    encoded, and training at its last checkpoint. An existing model is not replaced.
    ``dev``: documents that all is fitted on and judged by, instead of a share of ``docs``.
    ``start``: a trained model that training goes on from.

    Raises:
        InputError: the files are not what was asked for.
        ResourceError: disk, memory, a device or a package is missing.
    """
    out, report = Path(out), ReadReport()
    work, recorded = out.parent / f".{out.name}.xmc-build", _recorded(settings)
    before = None if start is None else _start(Path(start), settings, recorded)
    parents = {} if before is None else {"from": before.id}
    with (
        ArtifactWriter(out, KIND, parents, recorded, built_by=_command(settings)) as writer,
        _workplace(work),
    ):
        source = read_source(labels, docs, filter_pairs, settings.read, report, dev)
        notify(report.lines())
        builder = Builder(source, settings, work, start=before)
        model = builder.model()
        model.save(writer.path)
        notify(_summary(builder, model))
    shutil.rmtree(work, ignore_errors=True)


def _start(path: Path, settings: BuildSettings, recorded: Mapping[str, object]) -> Start:
    """The model to go on from; what its vectors follow from has to be the same in ``settings``."""
    same = {n: v for n, v in recorded.items() if n.startswith("encoder.") or n == "train.dim"}
    return Start.load(path, settings.run, same)


@contextmanager
def _workplace(work: Path) -> Iterator[None]:
    """Makes a directory to work in; in the end only encoded texts and checkpoints stay in it."""
    work.mkdir(exist_ok=True)
    try:
        yield
    finally:
        for leftover in work.glob("*.npy"):
            leftover.unlink()
        for name in ("windows", "features", "labels", "training/selected", "final/selected", "words"):
            shutil.rmtree(work / name, ignore_errors=True)
        for folder in (work / "training", work / "final", work / "linear", work / "cross", work):
            with suppress(OSError):  # something is in it, or it was never made
                folder.rmdir()


def _summary(builder: Builder, model: Model) -> list[str]:
    """What the user should know of the model that the builder made."""
    choice, notice = model.index.choice, model.index.notice
    lines = [f"index.kind={model.index.kind}: {choice}"] if choice else []
    lines.append(state(model))
    lines += _gone_on(builder, model)
    if builder.source.n_dev:
        lines.append(_judged(int(builder.held.sum()), builder.source.n_dev))
    if model.weights.calibration is not None:
        lines.append(HeldOutReliability.of(model.weights.calibration.sample).line())
    missing = np.flatnonzero(~model.index.has(np.arange(len(model.labels))) & ~model.labels.retired)
    if len(missing):
        named = some([model.labels.id(row) for row in missing[:5]] + [""] * max(0, len(missing) - 5))
        without = f"{counted(len(missing), 'label')} without words and documents"
        lines.append(f"{without}, not scoreable yet: {named}")
    if builder.training and model.encoder.trained is None:
        lines.append("no document has a label of the label set, so nothing was trained")
    return [*lines, notice] if notice else lines


def _gone_on(builder: Builder, model: Model) -> list[str]:
    """What became of the labels of the model that training went on from."""
    start = builder.start
    if start is None:
        return []
    rows = start.rows(model.labels)
    n_left = int((model.frequency[rows[rows >= 0]] == 0).sum())
    lines = [f"went on from {start.path} with {counted(int(builder.fresh.sum()), 'new document')}"]
    if n_left:
        left = f"{counted(n_left, 'label')} had documents there, and none among these"
        lines.append(f"{left}: known by name alone")
    return lines


def _judged(n_judges: int, n_dev: int) -> str:
    share = "" if n_judges == n_dev else f"{n_judges:,} of "
    return f"fitted on {share}{counted(n_dev, 'document')} of --dev, which the model does not hold"


def _command(settings: BuildSettings) -> str:
    return "xmc train" if isinstance(settings, TrainingSettings) else "xmc index"


def _recorded(settings: BuildSettings) -> dict[str, object]:
    trained = asdict(settings.train) if isinstance(settings, TrainingSettings) else {}
    return {f"train.{name}": value for name, value in trained.items()} | {
        "encoder.dense": settings.encoder.dense,
        "encoder.max_length": settings.encoder.max_length,
        **{f"encoder.lexical.{name}": value for name, value in asdict(settings.encoder.lexical).items()},
        "index.kind": settings.index.kind,
        **{f"rerank.{name}": value for name, value in asdict(settings.rerank).items()},
        "classifiers": settings.classifiers,
        "seed": settings.run.seed,
        "dtype": settings.run.dtype,
    }
