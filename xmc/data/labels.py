"""LabelSet: the labels of a vocabulary. Ids are strings outside and rows inside, a row for life."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmc.data.label_builder import TABLE_SCHEMA, LabelBuilder, hashes, strings
from xmc.data.options import ReadReport
from xmc.data.records import Label
from xmc.errors import ArtifactError, InputError, some


class LabelSet:
    """Labels in rows 0 to n_labels - 1, each with id, text, other names, description and broader ids.

    Immutable; an Arrow table lies behind it, so that millions of labels take little more than their text.
    Retired labels keep their row.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table.cast(TABLE_SCHEMA).combine_chunks()

    @staticmethod
    def from_records(
        records: Iterable[Label], report: ReadReport | None = None, known: LabelSet | None = None
    ) -> LabelSet:
        """Labels in the order in which they come, a row each.

        An id that stands twice with the same text is one label, counted; with another text it is an
        `InputError` that names both places. Broader ids of labels that do not exist, neither here nor among
        the ``known`` ones, are counted.
        """
        report = report if report is not None else ReadReport()
        builder = LabelBuilder(report)
        for record in records:
            builder.add(record)
        labels = LabelSet(builder.finish())
        labels._count_unknown_broader(report, known)
        return labels

    def _count_unknown_broader(self, report: ReadReport, known: LabelSet | None) -> None:
        broader = self.broader.flatten().unique()
        if known is not None and len(broader):
            broader = broader.filter(pa.array(known.rows(broader.to_pylist()) < 0))
        if not len(broader):
            return
        unknown = broader.filter(pa.array(self.rows(broader.to_pylist()) < 0)).to_pylist()
        for label_id in unknown:
            report.count("broader ids were not in the vocabulary", label_id)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def _column(self, name: str) -> pa.Array:
        column = self.table.column(name)
        return column.chunk(0) if column.num_chunks else pa.array([], column.type)

    @cached_property
    def ids(self) -> pa.LargeStringArray:
        """(n_labels,) ids."""
        return self._column("id")

    @cached_property
    def texts(self) -> pa.LargeStringArray:
        """(n_labels,) texts as they are shown; "" for a label without one."""
        return self._column("text")

    @cached_property
    def alts(self) -> pa.ListArray:
        """(n_labels,) lists of other names."""
        return self._column("alt")

    @cached_property
    def descriptions(self) -> pa.LargeStringArray:
        """(n_labels,) descriptions; "" for a label without one."""
        return self._column("description")

    @cached_property
    def broader(self) -> pa.ListArray:
        """(n_labels,) lists of ids of broader labels; an id need not exist."""
        return self._column("broader")

    @cached_property
    def retired(self) -> np.ndarray:
        """(n_labels,) bool: labels that keep their row and are never suggested."""
        return np.asarray(self._column("retired").to_numpy(zero_copy_only=False), dtype=bool)

    def id(self, row: int) -> str:
        """The id of a row."""
        return str(self.ids[int(row)])

    def text(self, row: int) -> str:
        """The text of a row."""
        return str(self.texts[int(row)])

    def names(self) -> tuple[pa.LargeStringArray, np.ndarray]:
        """(n_names,) the text and the other names of every label, and (n_labels + 1,) where each one's begin.

        A label without text and other names has none.
        """
        n = len(self)
        has_text = np.asarray(pc.not_equal(pc.utf8_trim_whitespace(self.texts), ""), dtype=bool)
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(has_text + np.asarray(pc.list_value_length(self.alts), dtype=np.int64), out=starts[1:])
        is_text = np.zeros(starts[-1], dtype=bool)
        is_text[starts[:-1][has_text]] = True
        source = np.empty(starts[-1], dtype=np.int64)
        source[is_text] = np.flatnonzero(has_text)
        source[~is_text] = n + np.arange(np.count_nonzero(~is_text))
        return pa.concat_arrays([self.texts, self.alts.flatten()]).take(pa.array(source)), starts

    @cached_property
    def _by_hash(self) -> tuple[np.ndarray, np.ndarray]:
        """(n_labels,) hashes of the ids in order, and the row of each: 16 bytes a label."""
        found = hashes(self.ids.to_pylist())
        order = np.argsort(found, kind="stable")
        return found[order], order

    def rows(self, ids: Sequence[str]) -> np.ndarray:
        """(n_ids,) int64 rows of labels; -1 for an id that is not in the vocabulary."""
        rows = np.full(len(ids), -1, dtype=np.int64)
        known, row_of = self._by_hash
        wanted, query = hashes(ids), strings(ids)
        at = np.searchsorted(known, wanted)
        left = np.arange(len(ids))
        while len(left):  # a second round only where two different ids have the same hash
            left = left[at[left] < len(known)]
            left = left[known[at[left]] == wanted[left]]
            candidates = row_of[at[left]]
            same = np.asarray(pc.equal(self.ids.take(candidates), query.take(left)), dtype=bool)
            rows[left[same]] = candidates[same]
            left = left[~same]
            at[left] += 1
        return rows

    def rows_named(self, names: Sequence[str]) -> np.ndarray:
        """(n_names,) int64 the first label with each text, or else with such another name; -1 for none.

        Retired labels only where no other has the name.
        """
        query, rows = strings(names), np.full(len(names), -1, dtype=np.int64)
        owners = np.repeat(np.arange(len(self)), np.asarray(pc.list_value_length(self.alts), dtype=np.int64))
        every = ((self.texts, np.arange(len(self))), (self.alts.flatten(), owners))
        for retired in (False, True):
            for values, owner in every:
                kept = np.flatnonzero(self.retired[owner] == retired)
                found = pc.index_in(query, value_set=values.take(pa.array(kept)))
                at = np.asarray(pc.fill_null(found, -1), dtype=np.int64)
                new = (rows < 0) & (at >= 0)
                rows[new] = owner[kept[at[new]]]
        return rows

    def take(self, rows: np.ndarray) -> LabelSet:
        """A label set of some rows, in their order."""
        return LabelSet(self.table.take(pa.array(np.asarray(rows, dtype=np.int64))))

    def extended(self, other: LabelSet) -> LabelSet:
        """These labels and then another set's as new rows; an id of both is an `InputError`."""
        twice = other.take(np.flatnonzero(self.rows(other.ids.to_pylist()) >= 0)).ids.to_pylist()
        if twice:
            raise InputError(
                f"label ids already in the vocabulary: {some(twice)}; only new ones can be added"
            )
        return LabelSet(pa.concat_tables([self.table, other.table]))

    def replaced(self, rows: np.ndarray, other: LabelSet) -> LabelSet:
        """These labels with the names, descriptions and broader ids of ``other``'s in the (n,) rows.

        The labels in these rows keep their ids; ``other`` may retire one, not restore it.
        """
        source = np.arange(len(self))
        source[rows] = len(self) + np.arange(len(rows))
        table = pa.concat_tables([self.table, other.table]).take(pa.array(source))
        labels = LabelSet(table.set_column(0, TABLE_SCHEMA.field("id"), self.ids))
        return labels.with_retired(self.retired | labels.retired)

    def with_retired(self, retired: np.ndarray) -> LabelSet:
        """These labels, of which the (n_labels,) bool ``retired`` are retired."""
        at = TABLE_SCHEMA.get_field_index("retired")
        return LabelSet(self.table.set_column(at, TABLE_SCHEMA.field(at), pa.array(retired, pa.bool_())))

    def same_but_retired(self, other: LabelSet) -> bool:
        """Whether both have the same labels in all but which are retired."""
        mine, others = (labels.table.drop_columns(["retired"]) for labels in (self, other))
        return bool(mine.equals(others))

    def save(self, path: Path) -> None:
        """Write one Arrow IPC file."""
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, TABLE_SCHEMA) as writer:
            writer.write_table(self.table)

    @staticmethod
    def load(path: Path) -> LabelSet:
        """Read what `save` wrote, memory-mapped; anything else is an `ArtifactError`."""
        try:
            with pa.memory_map(str(path)) as source:
                table = pa.ipc.open_file(source).read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ArtifactError(
                f"{path}: not a readable label file: {reason}; build the artifact again"
            ) from None
        _check_table(table, path)
        return LabelSet(table)


def _check_table(table: pa.Table, path: Path) -> None:
    if not table.schema.equals(TABLE_SCHEMA):
        found = ", ".join(f"{f.name} {f.type}" for f in table.schema)
        wanted = ", ".join(f"{f.name} {f.type}" for f in TABLE_SCHEMA)
        raise ArtifactError(
            f"{path}: label columns are ({found}); wanted ({wanted}); build the artifact again"
        )
    lists = [table.column(name).combine_chunks().flatten() for name in ("alt", "broader")]
    if any(column.null_count for column in [*table.columns, *lists]):
        raise ArtifactError(f"{path}: a label has an empty field; build the artifact again")
    if pc.count_distinct(table.column("id")).as_py() != table.num_rows:
        raise ArtifactError(f"{path}: a label id stands twice; build the artifact again")
