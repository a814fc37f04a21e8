"""Jobs over a few lines, with a tagger that breaks where it is told to, for tests of what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.tag.overlap import OverlapTagger, label_set
from xmc.data.corpus import Corpus
from xmc.data.records import DocumentBatch
from xmc.errors import InputError
from xmc.tag.job import TagJob
from xmc.tag.readers import read_suggestions
from xmc.tag.suggestions import Suggestions, TagOptions

LABELS = label_set(("L1", "air transport"), ("L2", "fisheries"))


class Breaking(OverlapTagger):
    """Fails for every batch with one of the words in ``breaking``."""

    breaking = frozenset({"poison"})

    def suggest(self, batch: DocumentBatch, texts: list[set[str]], options: TagOptions) -> Suggestions:
        if any(text & self.breaking for text in texts):
            raise InputError("NaN or infinity for a text")
        return super().suggest(batch, texts, options)


def write(folder: Path, lines: list[str], name: str = "docs.jsonl") -> Path:
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def job(docs: Path, out: Path | str, tagger: OverlapTagger | None = None, **more: Any) -> TagJob:
    corpus = Corpus([docs], keep_faults=True, max_characters=more.pop("max_characters", None))
    return TagJob(tagger or Breaking(LABELS), corpus, out, **{"shard_size": 2, **more})


def tagged(out: Path) -> list[str]:
    return [document.id for document in read_suggestions(out)]


def quarantined(out: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in out.with_name(f"{out.name}.quarantine.jsonl").open()]
