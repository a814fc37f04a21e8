"""Runners: where the shards of a tagging job are worked on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from xmc.errors import SettingError
from xmc.tag.run import ShardRecord
from xmc.tag.shards import Shard

Work = Callable[[Shard], ShardRecord]


class Runner(Protocol):
    """Applies ``work`` to each shard once and gives the results back as they are done, in any order.

    Shards come from a stream and are large: a runner takes one only when it can start on it. ``work`` leaves
    its result on the disk that the job's output is on, so that results stay small.
    """

    def run(self, shards: Iterable[Shard], work: Work) -> Iterator[ShardRecord]:
        """One result a shard."""


class LocalRunner:
    """One shard after another, in this process."""

    def run(self, shards: Iterable[Shard], work: Work) -> Iterator[ShardRecord]:
        """One result a shard, in order."""
        return map(work, shards)


RUNNERS: dict[str, Callable[[], Runner]] = {"local": LocalRunner}


def open_runner(name: str) -> Runner:
    """The runner that ``tag.runner`` names. Raises: SettingError for another name."""
    if name not in RUNNERS:
        raise SettingError(f"tag.runner={name}: wanted one of {', '.join(RUNNERS)}")
    return RUNNERS[name]()
