"""Label records into an Arrow table: cleaned, checked, duplicates merged, a block at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa

from xmc.data.options import ReadReport
from xmc.data.records import Label
from xmc.data.text import clean, has_surrogate, is_blank, needs_cleaning, shorten
from xmc.errors import InputError

_STRING = pa.large_string()
_NAMES = pa.list_(pa.field("item", _STRING))
TABLE_SCHEMA = pa.schema(
    [
        ("id", _STRING),
        ("text", _STRING),
        ("alt", _NAMES),
        ("description", _STRING),
        ("broader", _NAMES),
        ("retired", pa.bool_()),
    ]
)
_SCHEMA = TABLE_SCHEMA.append(pa.field("place", _STRING))
BLOCK = 1 << 16


def hashes(ids: Sequence[str]) -> np.ndarray:
    """(n_ids,) int64 hashes, good within this process."""
    return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))


def strings(values: Sequence[str]) -> pa.LargeStringArray:
    """(n_values,) strings; half a surrogate pair, which Arrow cannot hold, becomes U+FFFD."""
    try:
        return pa.array(values, _STRING)
    except UnicodeEncodeError:
        return pa.array([clean(value)[0] if has_surrogate(value) else value for value in values], _STRING)


class LabelBuilder:
    """Collects label records; `finish` gives the table."""

    def __init__(self, report: ReadReport) -> None:
        self._report = report
        self._block: list[Label] = []
        self._tables: list[pa.Table] = []
        self._hashes: list[np.ndarray] = []

    def add(self, label: Label) -> None:
        """Take one more label."""
        self._block.append(label)
        if len(self._block) == BLOCK:
            self._flush()

    def _flush(self) -> None:
        """Check and clean a block; `InputError` where an id cannot be one."""
        columns = _columns(self._block)
        if columns:
            ids, texts, alts, descriptions = columns[:4]
            self._check(ids, texts)
            # Most blocks have nothing to clean, which one look at all of their text finds out.
            names = list(chain.from_iterable(alts))
            if names or needs_cleaning("".join(chain(texts, descriptions))):
                columns = _columns([self._clean(label) for label in self._block])
        self._tables.append(_table(columns))
        self._hashes.append(hashes(columns[0] if columns else ()))
        self._block = []

    def _check(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        joined = "".join(ids)
        if "\n" in joined or has_surrogate(joined) or not all(ids):
            for label in self._block:
                check_id(label.id, "label", label.place)
        for i, text in enumerate(texts):
            if is_blank(text):
                self._report.count("labels had no text", ids[i])

    def _clean(self, label: Label) -> Label:
        cleaned = [clean(field) for field in (label.text, label.description, *label.alt)]
        for what in dict.fromkeys(name for _, names in cleaned for name in names):
            self._report.count(f"labels had {what}", label.id)
        text, description, *alt = (field for field, _ in cleaned)
        names = tuple(dict.fromkeys(name for name in alt if not is_blank(name)))
        return label._replace(text=text, description=description, alt=names)

    def finish(self) -> pa.Table:
        """The table of all labels; `InputError` where an id stands twice and its labels differ."""
        self._flush()
        table = pa.concat_tables(self._tables)
        groups = self._duplicates(table)
        if groups:
            table = self._merged(table, groups)
        return table.select(TABLE_SCHEMA.names)

    def _duplicates(self, table: pa.Table) -> list[list[int]]:
        """Rows of each id that stands more than once, in file order."""
        found = np.concatenate(self._hashes)
        order = np.argsort(found, kind="stable")
        repeats = np.flatnonzero(found[order][1:] == found[order][:-1])
        rows = np.unique(order[np.union1d(repeats, repeats + 1)])
        groups: dict[str, list[int]] = {}
        for row, label_id in zip(rows.tolist(), table.column("id").take(rows).to_pylist(), strict=True):
            groups.setdefault(label_id, []).append(row)
        return [group for group in groups.values() if len(group) > 1]

    def _merged(self, table: pa.Table, groups: list[list[int]]) -> pa.Table:
        conflicts: list[str] = []
        merged: dict[int, Label] = {}
        for rows in groups:
            labels = [Label(**record) for record in table.take(rows).to_pylist()]
            conflict = _conflict(labels)
            if conflict:
                conflicts.append(conflict)
            merged[rows[0]] = _union(labels)
            self._report.count("labels stood twice and were merged", labels[0].id, n=len(rows) - 1)
        if conflicts:
            more = f" (and {len(conflicts) - 1} more such ids)" if len(conflicts) > 1 else ""
            raise InputError(f"{conflicts[0]}{more}; keep one of them")
        return _replace(table, merged, drop=[row for rows in groups for row in rows[1:]])


def check_id(value: str, what: str, where: str) -> None:
    """Raise `InputError` for an id that is empty, holds a line end or half a surrogate pair."""
    if not value:
        raise InputError(f"{where}: a {what} has no id; a string was wanted")
    if "\n" in value:
        raise InputError(
            f"{where}: {what} id {shorten(value)!r} holds a line end; any other character is allowed"
        )
    if has_surrogate(value):
        raise InputError(
            f"{where}: {what} id {shorten(value)!r} holds half a surrogate pair; Unicode text was wanted"
        )


def _columns(labels: Sequence[Label]) -> list[tuple]:
    return list(zip(*labels, strict=True))


def _table(columns: list[tuple]) -> pa.Table:
    columns = columns or [()] * len(_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _conflict(labels: list[Label]) -> str:
    first = labels[0]
    for other in labels[1:]:
        for name in ("text", "description", "retired"):
            a, b = getattr(first, name), getattr(other, name)
            if a != b and not (name == "description" and "" in (a, b)):
                shown = [shorten(str(value)) for value in (a, b)]
                where = f"{first.place} {shown[0]!r}, {other.place} {shown[1]!r}"
                return f"label id {first.id!r} stands twice with different {name}: {where}"
    return ""


def _union(labels: list[Label]) -> Label:
    """One label of several that agree: the names and broader ids of all."""
    alt = dict.fromkeys(name for label in labels for name in label.alt)
    broader = dict.fromkeys(name for label in labels for name in label.broader)
    description = next((label.description for label in labels if label.description), "")
    return labels[0]._replace(alt=tuple(alt), broader=tuple(broader), description=description)


def _replace(table: pa.Table, labels: dict[int, Label], drop: list[int]) -> pa.Table:
    """The table with some rows replaced and some dropped."""
    rows = sorted(labels)
    source = np.arange(table.num_rows)
    source[rows] = table.num_rows + np.arange(len(rows))
    both = pa.concat_tables([table, _table(_columns([labels[row] for row in rows]))])
    return both.take(np.delete(source, drop))
