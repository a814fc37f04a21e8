"""Shards on the disk, for runners whose workers are other processes: a JSON file each."""

from __future__ import annotations

import json
from pathlib import Path

from xmc.data.records import DocumentBatch, Fault
from xmc.errors import InputError, ResourceError, SettingError
from xmc.tag.durable import disk_errors
from xmc.tag.run import ADVICE
from xmc.tag.shards import Shard


def spool_path(folder: Path, index: int) -> Path:
    """The file of a shard in a run folder; its name keeps it from being taken for a part."""
    return folder / f"{index:08d}.docs"


def write_shard(folder: Path, shard: Shard) -> None:
    """Put a shard's documents where a worker finds them.

    Raises: SettingError for documents that are rows of features; ResourceError if the disk is full.
    """
    batch = shard.batch
    if batch.features is not None:
        raise SettingError("tag.runner=ray: takes texts; documents that are features need tag.runner=local")
    faults = [(f.place, str(f.error), f.id, f.ends_file) for f in batch.faults]
    saved = {"ids": batch.ids, "texts": batch.texts, "places": batch.places, "faults": faults}
    content = json.dumps(saved).encode()
    path = spool_path(folder, shard.index)
    with disk_errors(path, len(content), ADVICE):
        path.write_bytes(content)


def read_shard(folder: Path, index: int) -> Shard:
    """A shard as `write_shard` left it, without gold labels. Raises: ResourceError where it is not seen."""
    path = spool_path(folder, index)
    try:
        saved = json.loads(path.read_bytes())
    except OSError as error:
        wanted = "wanted OUT in a folder that all machines see under the same path"
        raise ResourceError(f"{path}: {error.strerror}; {wanted}") from None
    faults = [Fault(place, InputError(told), *more) for place, told, *more in saved["faults"]]
    return Shard(index, DocumentBatch(saved["ids"], saved["texts"], None, None, saved["places"], faults))
