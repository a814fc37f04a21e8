"""``xmc index`` and ``xmc train``: labels, and tagged documents if there are any, into a model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from xmc.artifacts import ArtifactWriter
from xmc.builder import Builder
from xmc.data.options import ReadReport
from xmc.model import KIND
from xmc.notices import notify
from xmc.settings import BuildSettings, TrainingSettings
from xmc.source import read_source


def build_model(
    labels: str | Path | None,
    docs: Sequence[str | Path] | None,
    filter_pairs: str | Path | None,
    out: str | Path,
    settings: BuildSettings,
    dev: Sequence[str | Path] = (),
) -> None:
    """Build the model ``out`` from a label file and document files.

    With the settings of ``xmc train`` it is trained. Killed and run again it takes up the texts that were
    encoded, and training at its last checkpoint. An existing model is not replaced.
    ``dev``: documents that all is fitted on and judged by, instead of a share of ``docs``.

    Raises:
        InputError: the files are not what was asked for.
        ResourceError: disk, memory, a device or a package is missing.
    """
    out, report = Path(out), ReadReport()
    work = out.parent / f".{out.name}.xmc-build"
    with (
        ArtifactWriter(out, KIND, settings=_recorded(settings), built_by=_command(settings)) as writer,
        _workplace(work),
    ):
        source = read_source(labels, docs, filter_pairs, settings.read, report, dev)
        notify(report.lines())
        builder = Builder(source, settings, work)
        model = builder.model()
        model.save(writer.path)
        notify(builder.summary(model))
    shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _workplace(work: Path) -> Iterator[None]:
    """Makes a directory to work in; in the end only encoded texts and checkpoints stay in it."""
    work.mkdir(exist_ok=True)
    try:
        yield
    finally:
        for leftover in work.glob("*.npy"):
            leftover.unlink()
        for name in ("windows", "features", "labels", "training/selected", "final/selected"):
            shutil.rmtree(work / name, ignore_errors=True)
        for folder in (work / "training", work / "final", work):
            with suppress(OSError):  # something is in it, or it was never made
                folder.rmdir()


def _command(settings: BuildSettings) -> str:
    return "xmc train" if isinstance(settings, TrainingSettings) else "xmc index"


def _recorded(settings: BuildSettings) -> dict[str, object]:
    trained = asdict(settings.train) if isinstance(settings, TrainingSettings) else {}
    return {f"train.{name}": value for name, value in trained.items()} | {
        "encoder.dense": settings.encoder.dense,
        "encoder.max_length": settings.encoder.max_length,
        **{f"encoder.lexical.{name}": value for name, value in asdict(settings.encoder.lexical).items()},
        "index.kind": settings.index.kind,
        "seed": settings.run.seed,
        "dtype": settings.run.dtype,
    }
