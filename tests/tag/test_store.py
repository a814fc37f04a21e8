"""Parts of a run through a store that is no folder: fsspec's memory, which has no renaming and no syncing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest

from tests.tag.overlap import OverlapTagger, label_set
from xmc.data.corpus import Corpus
from xmc.errors import ResourceError, SettingError
from xmc.tag.ray_runner import Worker, collected, from_json, spooled
from xmc.tag.run import ShardRecord, file_digest, part_path, quarantine_path
from xmc.tag.runner import Result, open_runner
from xmc.tag.shards import Shard, shards
from xmc.tag.store import Store
from xmc.tag.suggestions import TagOptions
from xmc.tag.work import ShardFailure, ShardWork
from xmc.tag.writers import format_of

LABELS = label_set(("L1", "air transport"), ("L2", "fisheries"))
LINES = ['{"id": "d1", "text": "air"}', "{no JSON", '{"id": "d2", "text": "fisheries"}']


@pytest.fixture
def store() -> Store:
    store = Store("memory://jobs/one")
    store.remove()
    return store


@pytest.fixture
def work(tmp_path: Path) -> ShardWork:
    (tmp_path / "run").mkdir()
    return ShardWork(OverlapTagger(LABELS), TagOptions(), format_of("o.jsonl"), tmp_path / "run", True)


@pytest.fixture
def cut(tmp_path: Path) -> list[Shard]:
    (tmp_path / "docs.jsonl").write_text("\n".join(LINES))
    return list(shards(Corpus([tmp_path / "docs.jsonl"], keep_faults=True), 1))


def through(work: ShardWork, store: Store, shard: Shard, tmp_path: Path) -> Result:
    """The result of a shard that a worker who does not see the run folder tagged."""
    index = spooled(work.folder, shard, store)
    blind = Worker(replace(work, folder=tmp_path / "not here"), pickle.loads(pickle.dumps(store)))
    ((told,),) = blind({"shard": [index]}).values()
    return from_json(told)


def test_parts_come_back_as_the_local_runner_writes_them(
    tmp_path: Path, work: ShardWork, store: Store, cut: list[Shard]
) -> None:
    (tmp_path / "local").mkdir()
    local = replace(work, folder=tmp_path / "local")
    for shard in cut:
        wanted = local(shard)
        assert collected(through(work, store, shard, tmp_path), work.folder, store) == wanted
    found = {path.name: path.read_bytes() for path in work.folder.iterdir()}
    assert found == {path.name: path.read_bytes() for path in local.folder.iterdir()}
    assert any(name.endswith(".quarantine") for name in found)
    store.remove()
    assert not fsspec.filesystem("memory").exists("/jobs/one")


@pytest.mark.parametrize("made", [part_path, quarantine_path])
def test_what_a_store_changed_is_a_failure_and_no_finished_shard(
    tmp_path: Path, work: ShardWork, store: Store, cut: list[Shard], made: Callable[[Path, int], Path]
) -> None:
    results = [through(work, store, shard, tmp_path) for shard in cut]
    (bad,) = [r for r in results if isinstance(r, ShardRecord) and r.quarantine]
    memory, name = fsspec.filesystem("memory"), f"/jobs/one/{made(Path(), bad.index).name}"
    memory.pipe_file(name, memory.cat_file(name) + b"more")
    failed = [r for r in (collected(r, work.folder, store) for r in results) if isinstance(r, ShardFailure)]
    assert [(r.index, r.exit_code) for r in failed] == [(bad.index, 3)]
    assert "is not what a worker put there" in failed[0].message


def test_a_shard_that_is_not_there_is_told(tmp_path: Path, work: ShardWork, store: Store) -> None:
    ((told,),) = Worker(work, store)({"shard": [7]}).values()
    result = from_json(told)
    assert isinstance(result, ShardFailure)
    assert result.message.startswith("tag.store=memory://jobs/one: FileNotFoundError")


def test_stores_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(ResourceError, match=r"tag\.store=nothing://x: ValueError"):
        Store("nothing://x").send(tmp_path / "f")
    with pytest.raises(SettingError, match=r"wanted tag\.runner=ray"):
        open_runner("local", "memory://x")


def test_files_of_a_folder_by_its_url(tmp_path: Path) -> None:
    store, path = Store(f"file://{tmp_path}/there"), tmp_path / "part"
    path.write_bytes(b"abc")
    digest = file_digest(path)
    store.send(path)
    path.unlink()
    store.fetch(path)
    assert file_digest(path) == digest
