"""Documents whose vectors take longer than they may."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.tag.jobs import LABELS, job, quarantined, tagged, write
from tests.tag.overlap import OverlapTagger
from xmc.data.corpus import Corpus
from xmc.data.labels import LabelSet
from xmc.data.records import DocumentBatch
from xmc.deadline import check_time
from xmc.errors import InputError
from xmc.tag.job import TagJob


class Slow(OverlapTagger):
    """Takes a second for a document with the word ``slow``, in steps, and notes the batches."""

    def __init__(self, labels: LabelSet) -> None:
        super().__init__(labels)
        self.batches: list[list[str]] = []

    def encode(self, batch: DocumentBatch) -> list[set[str]]:
        self.batches.append(batch.ids)
        for text in batch.texts or []:
            for _ in range(110 if "slow" in text else 1):
                time.sleep(0.01)
                check_time()
        return super().encode(batch)


def slow_lines() -> list[str]:
    texts = ["fisheries", "slow", "slow " * 300, "fisheries " * 200, "air", "air transport", "fisheries"]
    return [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]


def test_a_long_document_that_takes_too_long_is_quarantined_and_changes_no_other(tmp_path: Path) -> None:
    docs, out, slow = write(tmp_path, slow_lines()), tmp_path / "tags.jsonl", Slow(LABELS)
    report = job(docs, out, slow, max_seconds=1, shard_size=3).run()
    assert slow.batches == [["d0", "d1"], ["d2"], ["d3"], ["d4", "d5"], ["d6"]]
    assert tagged(out) == ["d0", "d1", "d3", "d4", "d5", "d6"]
    (found,) = quarantined(out)
    assert (found["place"], found["id"]) == (f"{docs}:3", "d2")
    assert "took more than 1 s; raise tag.max_seconds=1" in found["reason"]
    assert report.n_quarantined == 1
    untimed = tmp_path / "untimed.jsonl"
    job(docs, untimed, shard_size=3).run()
    lines = untimed.read_text().splitlines()
    assert out.read_text().splitlines() == lines[:2] + lines[3:]


def test_a_run_is_resumed_with_the_document_that_took_too_long_left_out(tmp_path: Path) -> None:
    docs, out, slow = write(tmp_path, slow_lines()), tmp_path / "tags.jsonl", Slow(LABELS)

    def stop(n_docs: int, seen: list[int] = []) -> None:  # noqa: B006 (counts over calls)
        seen.append(n_docs)
        if len(seen) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        job(docs, out, slow, max_seconds=1, shard_size=3, progress=stop).run()
    again = Slow(LABELS)
    assert job(docs, out, again, max_seconds=1, shard_size=3).run().n_reused > 0
    assert ["d2"] not in again.batches
    assert tagged(out) == ["d0", "d1", "d3", "d4", "d5", "d6"]
    assert [found["id"] for found in quarantined(out)] == ["d2"]


def test_a_document_that_takes_too_long_ends_a_strict_job(tmp_path: Path) -> None:
    corpus = Corpus([write(tmp_path, slow_lines())])
    with pytest.raises(InputError, match="took more than 1 s"):
        TagJob(Slow(LABELS), corpus, tmp_path / "tags.jsonl", shard_size=3, max_seconds=1).run()
