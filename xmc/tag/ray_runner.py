"""Shards on many machines with Ray Data: same parts and journal as `LocalRunner`, so a run may change runner.

The shards that are left are first written to the run folder, which every machine must see under the same
path, as it must see the model's; or, with a `Store`, there, from where their parts come back to the run
folder, which then only the job's own machine sees. Workers that die are started again by Ray, and their shard
is tagged again: a part is renamed when it is whole, and the journal names it once. ``RAY_ADDRESS`` names a
cluster; without it Ray starts on this machine.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from xmc.errors import ResourceError, explained
from xmc.tag.run import ShardRecord, file_digest, part_path, quarantine_path
from xmc.tag.runner import Result
from xmc.tag.shards import Shard
from xmc.tag.spool import read_shard, spool_path, write_shard
from xmc.tag.store import Store
from xmc.tag.work import ShardFailure, ShardWork, failure

MISSING = 'tag.runner=ray needs Ray, which is not installed: pip install "xmc[ray]"'


class RayRunner:
    """A pool of workers, each with the model and as many CPUs as the tagger has threads, or a GPU.

    ``store``: the URL of a store that all machines reach, "" for the run folder. Each run has a folder of its
    own there, which is gone when it ends but for one that is killed.
    """

    def __init__(self, store: str = "") -> None:
        self._url = store.rstrip("/")

    def run(self, shards: Iterable[Shard], work: ShardWork) -> Generator[Result, None, None]:
        """One result a shard, in any order. Raises: ResourceError if Ray is missing or ends."""
        work = replace(work, folder=work.folder.resolve())  # workers may stand in another folder
        store = Store(f"{self._url}/xmc-{uuid4().hex}") if self._url else None
        try:
            if indices := [spooled(work.folder, shard, store) for shard in shards]:
                yield from self._run(indices, work, store)
        finally:
            if store is not None:
                store.remove()

    def _run(self, indices: list[int], work: ShardWork, store: Store | None) -> Generator[Result, None, None]:
        ray = _started()
        try:
            for row in _pooled(ray, indices, work, store).iter_rows():
                result = from_json(row["result"])
                spool_path(work.folder, result.index).unlink(missing_ok=True)
                yield result if store is None else collected(result, work.folder, store)
        except ray.exceptions.RayError as error:
            raise ResourceError(f"tag.runner=ray: {str(error).strip().splitlines()[-1]}") from error


class Worker:
    """What a worker does with the index of a shard. Ray makes one in each of its processes."""

    def __init__(self, work: ShardWork, store: Store | None = None) -> None:
        self.work, self.store = work, store
        work.tagger.begin()

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[str]]:
        """``shard``: indices; gives their results as JSON."""
        return {"result": [to_json(self._tagged(int(index))) for index in batch["shard"]]}

    def _tagged(self, index: int) -> Result:
        if self.store is None:
            return _worked(self.work, index)
        with TemporaryDirectory(prefix="xmc-") as folder:
            return _worked(replace(self.work, folder=Path(folder)), index, self.store)


def _worked(work: ShardWork, index: int, store: Store | None = None) -> Result:
    """The result of a shard. What fails is told by the job, which knows where its output is."""
    spool = spool_path(work.folder, index)
    try:
        if store is not None:
            store.fetch(spool)
        shard = read_shard(work.folder, index)
    except Exception as error:
        return ShardFailure(index, 0, str(spool), *explained(error))
    try:
        result = work(shard)
        if store is not None and isinstance(result, ShardRecord):
            for path in _files(work.folder, result):
                store.send(path)
        return result
    except Exception as error:
        return failure(shard, error)


def spooled(folder: Path, shard: Shard, store: Store | None) -> int:
    """Put a shard where the workers find it; returns its index."""
    write_shard(folder, shard)
    if store is not None:
        path = spool_path(folder, shard.index)
        store.send(path)
        path.unlink()
    return shard.index


def collected(result: Result, folder: Path, store: Store) -> Result:
    """The result, its files in the run folder as they were written; a failure where the store has others."""
    if isinstance(result, ShardFailure):
        return result
    wanted = [result.sha256, result.quarantine]
    try:
        for path, digest in zip(_files(folder, result), wanted, strict=False):
            store.fetch(path)
            if file_digest(path) != digest:
                raise ResourceError(f"tag.store={store.url}: {path.name} is not what a worker put there")
    except ResourceError as error:
        return ShardFailure(result.index, result.n_docs, f"shard {result.index}", *explained(error))
    return result


def _files(folder: Path, record: ShardRecord) -> list[Path]:
    """A finished shard's part, and what tells of its bad documents if there are any."""
    told = [quarantine_path(folder, record.index)] if record.quarantine else []
    return [part_path(folder, record.index), *told]


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


def _pooled(ray: Any, indices: list[int], work: ShardWork, store: Store | None) -> Any:
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
        fn_constructor_args=(work, store),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=n_workers),
        num_cpus=min(n_cpus, there.get("CPU", n_cpus)),
        num_gpus=1 if on_gpu else None,
    )
