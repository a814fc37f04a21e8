r"""JSONL, CSV and Annif's TSV: formats whose parts are lines, merged by joining them.

All are UTF-8. A lone surrogate, which UTF-8 cannot hold, is written as the six characters of its JSON
escape, such as ``\ud800``: in JSON that is the surrogate itself, elsewhere it keeps two ids apart.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shutil
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from xmc.tag.writers import SuggestionFormat

if TYPE_CHECKING:
    from xmc.data.labels import LabelSet
    from xmc.tag.suggestions import Evidence, Suggestions

CSV_COLUMNS = ["doc_id", "rank", "label_id", "label_text", "score", "reason"]
# What spreadsheets take for the start of a formula, and the mark that keeps them from it.
FORMULA_STARTS = tuple("=+-@\t\r\n'＝＋－＠")
FORMULA_MARK = "'"
# Line ends to many readers, though JSON lets them stand in a string as they are.
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
_TSV_BREAKS = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_TSV_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3


def to_bytes(text: str) -> bytes:
    """UTF-8, a lone surrogate as its JSON escape."""
    return text.encode("utf-8", errors="backslashreplace")


def score_texts(scores: np.ndarray) -> list[str]:
    """The shortest text of each float32 that reads back as the same float32."""
    return np.asarray(scores, dtype=np.float32).astype(str).tolist()


def names_of(suggestions: Suggestions, labels: LabelSet) -> tuple[list[str], list[str]]:
    """Id and text of the label of each suggestion; a label without text has ""."""
    ids, texts = labels.ids.take(suggestions.rows), labels.texts.take(suggestions.rows)
    return ids.to_pylist(), [text or "" for text in texts.to_pylist()]


class LineFormat(SuggestionFormat):
    """A format of lines: a part is its lines, an output is a header and all lines, maybe compressed."""

    def __init__(self, compression: str = "") -> None:
        self.compression = compression

    def header(self) -> str:
        """What stands before the first line of an output."""
        return ""

    @abstractmethod
    def text(self, suggestions: Suggestions, labels: LabelSet) -> Iterator[str]:
        """The lines of a shard, with their line ends."""

    def encode(self, suggestions: Suggestions, labels: LabelSet) -> bytes:
        """The lines of a shard as they will stand in the output, not compressed."""
        return to_bytes("".join(self.text(suggestions, labels)))

    def merge(self, parts: Sequence[Path], out: Path, labels: LabelSet) -> None:
        """Join parts. One compressed stream, since some readers stop after the first of several."""
        with ExitStack() as stack:
            raw = stack.enter_context(out.open("wb"))
            sink = stack.enter_context(compressed(raw, self.compression))
            sink.write(to_bytes(self.header()))
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, sink, 1 << 20)


def compressed(raw: IO[bytes], compression: str) -> IO[bytes]:
    """A stream that compresses into ``raw``; the same input gives the same bytes, whatever name and time."""
    if compression == "gz":
        return gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0)  # type: ignore[return-value]
    if compression == "zst":
        import zstandard

        compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)
        return compressor.stream_writer(raw, closefd=False)
    return raw


class JsonLines(LineFormat):
    """A line a document: ``{"id", "suggestions": [{"id", "text", "score"}]}``.

    A document without suggestions has ``"reason"``; with evidence, each suggestion has
    ``"evidence": {"neighbours": [{"id", "similarity"}], "words": [...], "passage": {"start", "end", "text"},
    "shares": {...}}``, without a passage where there is none, and in the passage no text where it is long.
    """

    name = "JSONL"
    holds_evidence = True

    def text(self, suggestions: Suggestions, labels: LabelSet) -> Iterator[str]:
        """A JSON object a document."""
        found = self._suggested(suggestions, labels)
        encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
        indptr = suggestions.indptr.tolist()
        for i, doc_id in enumerate(suggestions.doc_ids):
            document: dict[str, object] = {"id": doc_id, "suggestions": found[indptr[i] : indptr[i + 1]]}
            if indptr[i] == indptr[i + 1] and suggestions.reasons[i]:
                document["reason"] = suggestions.reasons[i]
            yield _LINE_ENDS.sub(lambda m: f"\\u{ord(m[0]):04x}", encode(document)) + "\n"

    def _suggested(self, suggestions: Suggestions, labels: LabelSet) -> list[dict[str, object]]:
        ids, texts = names_of(suggestions, labels)
        found: list[dict[str, object]] = [
            {"id": i, "text": t, "score": float(s)}
            for i, t, s in zip(ids, texts, score_texts(suggestions.scores), strict=True)
        ]
        for entry, evidence in zip(found, suggestions.evidence or [], strict=False):
            entry["evidence"] = _evidence(evidence)
        return found


def _evidence(evidence: Evidence) -> dict[str, object]:
    similarities = score_texts(np.array([s for _, s in evidence.neighbours], dtype=np.float32))
    near = zip(evidence.neighbours, similarities, strict=True)
    found: dict[str, object] = {
        "neighbours": [{"id": doc_id, "similarity": float(s)} for (doc_id, _), s in near],
        "words": evidence.words,
    }
    if evidence.passage is not None:
        passage = evidence.passage._asdict()
        found["passage"] = {name: value for name, value in passage.items() if value is not None}
    return found | ({"shares": evidence.shares} if evidence.shares else {})


class Csv(LineFormat):
    """A row a suggestion, RFC 4180: ``doc_id,rank,label_id,label_text,score,reason``, rank from 1.

    A document without suggestions has one row, with ``reason`` and with rank, label and score left empty.
    A spreadsheet runs a cell that begins with one of ``= + - @``, their full-width forms, a tab or a line
    end as a formula. Such a cell of text, and one that begins with an apostrophe, gets an apostrophe in
    front; a reader takes one leading apostrophe away and has the original. Numbers stay as they are.
    """

    name = "CSV"

    def header(self) -> str:
        """The column names."""
        return ",".join(CSV_COLUMNS) + "\r\n"

    def text(self, suggestions: Suggestions, labels: LabelSet) -> Iterator[str]:
        """One block of rows a document."""
        ids, texts = names_of(suggestions, labels)
        scores = score_texts(suggestions.scores)
        indptr = suggestions.indptr.tolist()
        for i, doc_id in enumerate(suggestions.doc_ids):
            block = io.StringIO()
            table = csv.writer(block, lineterminator="\r\n")
            doc_cell = guarded(doc_id)
            for rank, j in enumerate(range(indptr[i], indptr[i + 1]), start=1):
                table.writerow([doc_cell, rank, guarded(ids[j]), guarded(texts[j]), scores[j], ""])
            if indptr[i] == indptr[i + 1]:
                table.writerow([doc_cell, "", "", "", "", suggestions.reasons[i]])
            yield block.getvalue()


def guarded(cell: str) -> str:
    """``cell`` such that no spreadsheet runs it; `unguarded` undoes it."""
    return FORMULA_MARK + cell if cell.startswith(FORMULA_STARTS) else cell


def unguarded(cell: str) -> str:
    """The text that `guarded` was given."""
    return cell.removeprefix(FORMULA_MARK)


class AnnifTsv(LineFormat):
    r"""Annif's suggestion lines ``<uri> TAB label TAB score``, each after the id of its document and a tab.

    ``annif suggest`` and ``annif index`` print these three columns, one file a document; one file for a
    corpus needs the document's id in front, and without that column (``cut -f2-``) the lines are Annif's own.
    A document without suggestions has one line: its id, three empty columns, the reason.
    In ids a tab, line end or backslash is written as ``\t``, ``\n``, ``\r``, ``\\``. Labels are for the
    eye: blanks replace tabs and line ends there.
    """

    name = "Annif's TSV"

    def text(self, suggestions: Suggestions, labels: LabelSet) -> Iterator[str]:
        """A line a suggestion."""
        ids, texts = names_of(suggestions, labels)
        scores = score_texts(suggestions.scores)
        indptr = suggestions.indptr.tolist()
        for i, doc_id in enumerate(suggestions.doc_ids):
            first = escaped(doc_id)
            for j in range(indptr[i], indptr[i + 1]):
                label = _TSV_BREAKS.sub(" ", texts[j])
                yield f"{first}\t<{escaped(ids[j])}>\t{label}\t{scores[j]}\n"
            if indptr[i] == indptr[i + 1]:
                yield f"{first}\t\t\t\t{suggestions.reasons[i]}\n"


def escaped(cell: str) -> str:
    """``cell`` without a tab or line end; `unescaped` undoes it."""
    return re.sub("[\\\\\t\n\r]", lambda m: _TSV_ESCAPES[m[0]], cell)


def unescaped(cell: str) -> str:
    """The text that `escaped` was given."""
    plain = {written: char for char, written in _TSV_ESCAPES.items()}
    return re.sub(r"\\[\\tnr]", lambda m: plain[m[0]], cell)
