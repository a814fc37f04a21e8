from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import pytest

from tests.tag.overlap import OverlapTagger, label_set
from xmc.data.corpus import Corpus
from xmc.errors import SettingError
from xmc.tag.job import TagJob
from xmc.tag.runner import LocalRunner, Result, open_runner
from xmc.tag.shards import Shard
from xmc.tag.suggestions import TagOptions
from xmc.tag.work import ShardWork
from xmc.tag.writers import format_of


class BackwardsRunner:
    """Gives results in the reverse order, as a runner on several machines may."""

    def run(self, shards: Iterable[Shard], work: ShardWork) -> Generator[Result, None, None]:
        yield from map(work, reversed(list(shards)))


def test_runners_by_name() -> None:
    assert isinstance(open_runner("local"), LocalRunner)
    with pytest.raises(SettingError, match=r"tag\.runner=cloud: wanted one of local, ray"):
        open_runner("cloud")


def test_the_local_runner_takes_few_shards_ahead(tmp_path: Path) -> None:
    docs = tmp_path / "docs.jsonl"
    docs.write_text("".join(f'{{"id": "d{i}", "text": "ships"}}\n' for i in range(40)))
    taken: list[int] = []

    def shards() -> Iterator[Shard]:
        for i, batch in enumerate(Corpus([docs]).batches(2)):
            taken.append(i)
            yield Shard(i, batch)

    work = ShardWork(OverlapTagger(label_set(("L1", "ships"))), TagOptions(), format_of("-"), tmp_path)
    for n, found in enumerate(LocalRunner().run(shards(), work)):
        assert found.index == n
        assert (tmp_path / f"{n:08d}.part").exists()
        assert taken[-1] <= n + 6  # one in each step, and one waiting before each


def test_the_order_of_results_does_not_matter(tmp_path: Path) -> None:
    docs = tmp_path / "docs.jsonl"
    docs.write_text("".join(f'{{"id": "d{i}", "text": "ships {i}"}}\n' for i in range(7)))
    tagger = OverlapTagger(label_set(("L1", "ships")))
    for runner in (LocalRunner(), BackwardsRunner()):
        out = tmp_path / f"{type(runner).__name__}.jsonl"
        TagJob(tagger, Corpus([docs]), out, shard_size=2, runner=runner).run()
    outputs = [f.read_bytes() for f in sorted(tmp_path.glob("*Runner.jsonl"))]
    assert len(outputs) == 2
    assert outputs[0] == outputs[1]
