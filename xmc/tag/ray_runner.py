"""Shards on many machines with Ray Data: same parts and journal as `LocalRunner`, so a run may change runner.

The shards that are left are first written to the run folder, which every machine must see under the same
path, as it must see the model's. Workers that die are started again by Ray, and their shard is tagged again:
a part is renamed when it is whole, and the journal names it once. ``RAY_ADDRESS`` names a cluster; without it
Ray starts on this machine.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Iterable
from dataclasses import asdict, replace
from typing import Any

from xmc.errors import ResourceError, explained
from xmc.tag.run import ShardRecord
from xmc.tag.runner import Result
from xmc.tag.shards import Shard
from xmc.tag.spool import read_shard, spool_path, write_shard
from xmc.tag.work import ShardFailure, ShardWork, failure

MISSING = 'tag.runner=ray needs Ray, which is not installed: pip install "xmc[ray]"'


class RayRunner:
    """A pool of workers, each with the model and as many CPUs as the tagger has threads, or a GPU."""

    def run(self, shards: Iterable[Shard], work: ShardWork) -> Generator[Result, None, None]:
        """One result a shard, in any order. Raises: ResourceError if Ray is missing or ends."""
        work = replace(work, folder=work.folder.resolve())  # workers may stand in another folder
        indices = []
        for shard in shards:
            write_shard(work.folder, shard)
            indices.append(shard.index)
        if not indices:
            return
        ray = _started()
        try:
            for row in _pooled(ray, indices, work).iter_rows():
                result = from_json(row["result"])
                spool_path(work.folder, result.index).unlink(missing_ok=True)
                yield result
        except ray.exceptions.RayError as error:
            raise ResourceError(f"tag.runner=ray: {str(error).strip().splitlines()[-1]}") from error


class Worker:
    """What a worker does with the index of a shard. Ray makes one in each of its processes."""

    def __init__(self, work: ShardWork) -> None:
        self.work = work
        work.tagger.begin()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """``shard``: indices; gives their results as JSON."""
        return {"result": [to_json(self._tagged(int(index))) for index in batch["shard"]]}

    def _tagged(self, index: int) -> Result:
        # What fails is told by the job, which knows where its output is.
        try:
            shard = read_shard(self.work.folder, index)
        except Exception as error:
            return ShardFailure(index, 0, str(spool_path(self.work.folder, index)), *explained(error))
        try:
            return self.work(shard)
        except Exception as error:
            return failure(shard, error)


def to_json(result: Result) -> str:
    """A result as text."""
    return json.dumps({type(result).__name__: asdict(result)})


def from_json(text: str) -> Result:
    """What `to_json` was given."""
    ((kind, fields),) = json.loads(text).items()
    return ShardRecord(**fields) if kind == ShardRecord.__name__ else ShardFailure(**fields)


def _started() -> Any:
    try:
        import ray
        import ray.data
    except ImportError:
        raise ResourceError(MISSING) from None
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    return ray


def _pooled(ray: Any, indices: list[int], work: ShardWork) -> Any:
    """A Ray data set of results; a block, and so a task, is one shard."""
    settings = work.tagger.run_settings
    on_gpu = str(settings.get("device", "cpu")).startswith("cuda")
    n_cpus = int(settings.get("threads", 1))
    there = ray.cluster_resources()
    most = there.get("GPU", 0) if on_gpu else there.get("CPU", 1) // n_cpus
    n_workers = int(max(1, min(most, len(indices))))
    rows = ray.data.from_items([{"shard": index} for index in indices], override_num_blocks=len(indices))
    return rows.map_batches(
        Worker,
        fn_constructor_args=(work,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=n_workers),
        num_cpus=min(n_cpus, there.get("CPU", n_cpus)),
        num_gpus=1 if on_gpu else None,
    )
