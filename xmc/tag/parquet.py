"""Parquet output: a row a document, a row group a shard."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xmc.tag.lines import names_of, to_bytes
from xmc.tag.suggestions import PARTS
from xmc.tag.writers import SuggestionFormat

if TYPE_CHECKING:
    from xmc.data.labels import LabelSet
    from xmc.tag.suggestions import Evidence, Passage, Suggestions

_NEIGHBOUR = pa.struct([("id", pa.string()), ("similarity", pa.float32())])
_PASSAGE = pa.struct([("start", pa.int64()), ("end", pa.int64()), ("text", pa.string())])
_EVIDENCE = pa.struct(
    [
        ("neighbours", pa.list_(_NEIGHBOUR)),
        ("words", pa.list_(pa.string())),
        ("passage", _PASSAGE),
        ("shares", pa.struct([(part, pa.float64()) for part in PARTS])),
    ]
)
_SUGGESTION = [("id", pa.string()), ("text", pa.string()), ("score", pa.float32())]


def schema(evidence: bool = False) -> pa.Schema:
    """``id: string, suggestions: list<struct<id, text, score: float32[, evidence]>>, reason: string``."""
    entry = pa.struct([*_SUGGESTION, *([("evidence", _EVIDENCE)] if evidence else [])])
    return pa.schema([("id", pa.string()), ("suggestions", pa.list_(entry)), ("reason", pa.string())])


class Parquet(SuggestionFormat):
    """A row a document; ``reason`` is null where there are suggestions. Compressed with zstd inside.

    A lone surrogate is written as in CSV. Parts are Arrow IPC files; merging holds one shard at a time.
    """

    name = "Parquet"
    holds_evidence = True

    def __init__(self, evidence: bool = False) -> None:
        self.evidence = evidence

    def encode(self, suggestions: Suggestions, labels: LabelSet) -> bytes:
        """One Arrow IPC file."""
        table = to_table(suggestions, labels, self.evidence)
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return sink.getvalue()

    def merge(self, parts: Sequence[Path], out: Path, labels: LabelSet) -> None:
        """A row group a part."""
        with (
            out.open("wb") as raw,
            pq.ParquetWriter(raw, schema(self.evidence), compression="zstd") as writer,
        ):
            for part in parts:
                with part.open("rb") as source, pa.ipc.open_file(source) as reader:
                    table = reader.read_all()
                if len(table):
                    writer.write_table(table, row_group_size=len(table))


def to_table(suggestions: Suggestions, labels: LabelSet, evidence: bool = False) -> pa.Table:
    """(n_docs, 3) table of `schema`; evidence that the suggestions lack is null."""
    ids, texts = names_of(suggestions, labels)
    columns = [_strings(ids), _strings(texts), pa.array(suggestions.scores)]
    if evidence:
        found = suggestions.evidence
        plain = [None] * len(ids) if found is None else [_plain(e) for e in found]
        columns.append(pa.array(plain, _EVIDENCE))
    wanted = schema(evidence)
    entries = pa.StructArray.from_arrays(columns, fields=list(wanted.field("suggestions").type.value_type))
    offsets = pa.array(suggestions.indptr.astype(np.int32))
    reasons = [r or None for r in suggestions.reasons]
    nested = pa.ListArray.from_arrays(offsets, entries)
    return pa.table([_strings(suggestions.doc_ids), nested, pa.array(reasons, pa.string())], schema=wanted)


def _plain(evidence: Evidence) -> dict[str, object]:
    near = [{"id": _text(doc_id), "similarity": s} for doc_id, s in evidence.neighbours]
    return {
        "neighbours": near,
        "words": [_text(w) for w in evidence.words],
        "passage": _plain_passage(evidence.passage),
        "shares": evidence.shares or None,
    }


def _plain_passage(passage: Passage | None) -> dict[str, object] | None:
    if passage is None:
        return None
    return passage._asdict() | {"text": None if passage.text is None else _text(passage.text)}


def _strings(values: Sequence[str]) -> pa.Array:
    return pa.array([_text(v) for v in values], pa.string())


def _text(value: str) -> str:
    """``value``, any lone surrogate replaced by its escape."""
    return value if value.isascii() else to_bytes(value).decode()
