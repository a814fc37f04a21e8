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


def _local_runner(store: str) -> Runner:
    if store:
        raise SettingError(f"tag.store={store}: wanted tag.runner=ray, or no store")
    return LocalRunner()


def _ray_runner(store: str) -> Runner:
    from xmc.tag.ray_runner import RayRunner

    return RayRunner(store)


RUNNERS: dict[str, Callable[[str], Runner]] = {"local": _local_runner, "ray": _ray_runner}


def open_runner(name: str, store: str = "") -> Runner:
    """The runner that ``tag.runner`` names; ``store``: see `xmc.tag.store`, "" for none.

    Raises: SettingError for another name, or a store for a runner that takes none.
    """
    if name not in RUNNERS:
        raise SettingError(f"tag.runner={name}: wanted one of {', '.join(RUNNERS)}")
    return RUNNERS[name](store)
