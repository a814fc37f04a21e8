"""Runners: where the shards of a tagging job are worked on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import Protocol

from xmc.errors import SettingError
from xmc.tag.pipeline import side_by_side
from xmc.tag.run import ShardRecord
from xmc.tag.shards import Shard
from xmc.tag.work import ShardFailure, ShardWork

Result = ShardRecord | ShardFailure


class Runner(Protocol):
    """Applies ``work`` to each shard once and gives the results back as they are done, in any order.

    Shards come from a stream and are large: a runner takes one only when it can start on it. ``work`` leaves
    its result on the disk that the job's output is on, so that results stay small. Closed, it ends its work.
    """

    def run(self, shards: Iterable[Shard], work: ShardWork) -> Generator[Result, None, None]:
        """One result a shard."""


class LocalRunner:
    """In this process: a shard is read while one is encoded, one gets its suggestions and one is written."""

    def run(self, shards: Iterable[Shard], work: ShardWork) -> Generator[Result, None, None]:
        """One result a shard, in order."""
        with closing(side_by_side(shards, (work.encode, work.suggest), work.tagger.begin)) as tagged:
            yield from map(work.write, tagged)


def _ray_runner() -> Runner:
    from xmc.tag.ray_runner import RayRunner

    return RayRunner()


RUNNERS: dict[str, Callable[[], Runner]] = {"local": LocalRunner, "ray": _ray_runner}


def open_runner(name: str) -> Runner:
    """The runner that ``tag.runner`` names. Raises: SettingError for another name."""
    if name not in RUNNERS:
        raise SettingError(f"tag.runner={name}: wanted one of {', '.join(RUNNERS)}")
    return RUNNERS[name]()
