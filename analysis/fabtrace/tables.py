# SPDX-License-Identifier: BSD-3-Clause
"""The boundary between readers and the model: a trace as tables of numpy columns.

A reader delivers `Tables`; the model needs nothing else and never sees where they came from.
doc/tables.md is the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue

Column = npt.NDArray[Any]

TIMESTAMP = "timestamp_ns"
STREAM = "stream"  # an index into Tables.streams
OWN_COLUMNS = {TIMESTAMP: "i64", STREAM: "u16"}  # which every table has before its event's fields

DTYPES: dict[str, Any] = {
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "hex64": np.uint64,
    "i32": np.int32,
    "i64": np.int64,
    "enum": np.uint8,
    "text": object,
    "bytes": object,
    "list64": object,
}

# The elements of what has a length of its own in each row.
ELEMENTS: dict[str, Any] = {"text": np.uint8, "bytes": np.uint8, "list64": np.uint64}

UNKNOWN_CPU = -1
MARKS_AT_ONCE = 256


def dtype_of(kind: str) -> Any:
    """The numpy type of a column whose field has this catalogue type."""
    return DTYPES[kind.partition(".")[0]]


def kinds_of(event: str) -> dict[str, str]:
    """The columns of an event's table, in their order, with their catalogue types."""
    fields = catalogue.load().events[event].fields
    return {**OWN_COLUMNS, **{item.name: item.kind for item in fields}}


@dataclass(frozen=True)
class Ragged:
    """A column whose rows have lengths of their own: row i is values[starts[i]:starts[i + 1]].

    starts  int64, one more than there are rows, ascending
    values  uint8 (bytes, and text as UTF-8) or uint64 (list64)
    """

    starts: npt.NDArray[np.int64]
    values: Column
    text: bool = False

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many elements each row has."""
        return np.diff(self.starts)

    def rows(self, selection: Any) -> Ragged:
        """The rows that a mask, an index array or a slice selects."""
        if isinstance(selection, slice) and selection.step in (None, 1):
            first, last, _ = selection.indices(len(self))
            return Ragged(self.starts[first : max(first, last) + 1], self.values, self.text)
        begins, lengths = self.starts[:-1][selection], self.lengths[selection]
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        # Each element's place: its row's begin, and how far it is in its row.
        places = np.repeat(begins - starts[:-1], lengths) + np.arange(starts[-1])
        return Ragged(starts, self.values[places], self.text)

    def objects(self) -> Column:
        """An object array of `str`, or of arrays (views, no copies)."""
        column = np.empty(len(self), object)
        bounds = self.starts.tolist()
        for index, (begin, end) in enumerate(zip(bounds, bounds[1:])):
            value = self.values[begin:end]
            column[index] = value.tobytes().decode(errors="replace") if self.text else value
        return column


@dataclass(frozen=True)
class Table:
    """All events of one name: equally long columns, rows in time order.

    `columns` has `timestamp_ns` (int64, nanoseconds since the Unix epoch), `stream` (uint16, an index
    into Tables.streams) and each field of the catalogue: integers in their own type, enumerations as
    uint8 codes, text and sequences as `Ragged`. Columns may be views of a file: don't write to them.
    """

    event: str
    columns: Mapping[str, Column | Ragged]

    def __len__(self) -> int:
        return len(self.columns[TIMESTAMP])

    def __getitem__(self, name: str) -> Column:
        """A column. Text and sequences become objects, row by row: for few rows only."""
        column = self.columns[name]
        return column.objects() if isinstance(column, Ragged) else column

    def ragged(self, name: str) -> Ragged:
        """A column of text or sequences as it is kept."""
        column = self.columns[name]
        if not isinstance(column, Ragged):
            raise TypeError(f"{self.event}.{name} is no sequence")
        return column

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """When the events happened, int64 nanoseconds since the Unix epoch."""
        return self[TIMESTAMP]

    def rows(self, selection: Column | slice) -> Table:
        """The rows that a mask, an index array or a slice selects."""
        chosen: dict[str, Column | Ragged] = {
            name: c.rows(selection) if isinstance(c, Ragged) else c[selection]
            for name, c in self.columns.items()
        }
        return Table(self.event, chosen)


@dataclass(frozen=True)
class Stream:
    """Where events come from: what one processor wrote of one channel of one trace.

    environment  an index into Tables.environments
    cpu          the processor, UNKNOWN_CPU if the trace doesn't say
    """

    name: str
    environment: int
    cpu: int = UNKNOWN_CPU


@dataclass(frozen=True)
class Discarded:
    """LTTng's own message that it dropped events. A hint: these counters are not exact."""

    stream: str
    count: int | None
    begin_ns: int | None
    end_ns: int | None


@dataclass(frozen=True)
class Problem:
    """Something that does not belong in a trace, or a part of it that could not be read, and why.

    `harmless`: no event is missing because of it.
    """

    path: str
    text: str
    harmless: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


@dataclass(frozen=True)
class Tables:
    """A trace.

    declared      names of the events that the trace could hold, which is how one tells an event that
                  never happened, or was lost, from one that was not recorded
    missing       for an event the fields that the trace does not have: its engine was older; their
                  columns are zero or empty
    environments  what the tracer says of itself and its host, one a CTF trace
    problems      what could not be read; all the rest is here
    """

    tables: Mapping[str, Table]
    declared: frozenset[str]
    environments: tuple[Mapping[str, str | int], ...] = ()
    discarded: tuple[Discarded, ...] = ()
    source: str = ""
    streams: tuple[Stream, ...] = ()
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    release: Callable[[], None] = lambda: None
    _empty: dict[str, Table] = field(default_factory=dict, repr=False, compare=False)

    def __getitem__(self, event: str) -> Table:
        """The table of an event; one without rows if there was none."""
        found = self.tables.get(event)
        if found is not None:
            return found
        return self._empty.setdefault(event, make_table(event, {}))

    @property
    def events(self) -> int:
        """How many events there are in all."""
        return sum(len(table) for table in self.tables.values())

    def cpus(self, table: Table) -> npt.NDArray[np.int16]:
        """The processor that wrote each row, int16; UNKNOWN_CPU where that is not known."""
        return self._of_streams(table, [stream.cpu for stream in self.streams], UNKNOWN_CPU)

    def hosts(self, table: Table) -> npt.NDArray[np.int16]:
        """For each row the index into `environments` of its trace, int16; -1 if not known."""
        return self._of_streams(table, [stream.environment for stream in self.streams], -1)

    def _of_streams(
        self, table: Table, values: Sequence[int], missing: int
    ) -> npt.NDArray[np.int16]:
        if not values:
            return np.full(len(table), missing, np.int16)
        return np.array(values, np.int16)[table[STREAM]]

    def windows(self, events: int) -> Iterator[Tables]:
        """Consecutive windows of time with about so many events each, all tables cut alike.

        No copies are made, and the memory of a window is released when the next one is asked for, so
        a trace of any length can be gone through. Events of one time are in one window.
        """
        first = {event: 0 for event in self.tables}
        for end_ns in self._window_ends(max(1, events)):
            cut = {}
            for event, table in self.tables.items():
                side: Any = len(table)
                if end_ns is not None:
                    side = int(np.searchsorted(table.times, end_ns, side="right"))
                cut[event] = table.rows(slice(first[event], side))
                first[event] = side
            yield Tables(
                cut,
                self.declared,
                self.environments,
                self.discarded,
                self.source,
                self.streams,
                self.missing,
                self.problems,
                self.release,
            )
            self.release()

    def _window_ends(self, events: int) -> list[int | None]:
        """The last times of the windows; None for the last one, which takes all that is left."""
        step = max(1, events // 64)
        # Every `step`-th time of each table stands for as many events.
        marks = []
        for table in self.tables.values():
            for begin in range(step - 1, len(table), step * MARKS_AT_ONCE):
                marks.append(table.times[begin : begin + step * MARKS_AT_ONCE : step].copy())
                self.release()  # looking here and there maps a good part of a file
        times = np.sort(np.concatenate(marks)) if marks else np.zeros(0, np.int64)
        ends = np.unique(times[events // step - 1 :: events // step]).tolist()
        return [*ends, None]


def join_tables(tables: Sequence[Table]) -> Table:
    """One table, in time order, of the rows of several of the same event."""
    first = tables[0]
    if len(tables) == 1:
        return first
    columns = {name: _join_columns([t.columns[name] for t in tables]) for name in first.columns}
    return make_table(first.event, columns)


def _join_columns(parts: Sequence[Column | Ragged]) -> Column | Ragged:
    ragged = [part for part in parts if isinstance(part, Ragged)]
    if not ragged:
        return np.concatenate([part for part in parts if not isinstance(part, Ragged)])
    lengths = np.concatenate([part.lengths for part in ragged])
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    values = [part.values[part.starts[0] : part.starts[-1]] for part in ragged]
    return Ragged(starts, np.concatenate(values), ragged[0].text)


def make_table(event: str, columns: Mapping[str, Sequence[Any] | Column | Ragged]) -> Table:
    """A table with all of the event's columns in their types, sorted by time.

    Columns that are not given are zero or empty; they have the length of the others.
    """
    length = max((len(column) for column in columns.values()), default=0)
    made = Table(
        event,
        {name: _column(columns.get(name), kind, length) for name, kind in kinds_of(event).items()},
    )
    times = made.times
    if length > 1 and bool(np.any(times[1:] < times[:-1])):
        # Stable: events of one thread may carry the same time and keep their order.
        return made.rows(np.argsort(times, kind="stable"))
    return made


def _column(
    values: Sequence[Any] | Column | Ragged | None, kind: str, length: int
) -> Column | Ragged:
    if isinstance(values, Ragged):
        return values
    if kind in ELEMENTS:
        return make_ragged([] if values is None else values, kind, length)
    return (
        np.zeros(length, dtype_of(kind)) if values is None else np.asarray(values, dtype_of(kind))
    )


def make_ragged(values: Sequence[Any] | Column, kind: str, length: int | None = None) -> Ragged:
    """A column of text or sequences from single values; empty ones up to `length` rows."""
    text = kind == "text"
    rows = [
        value.encode(errors="surrogateescape") if text else np.asarray(value, ELEMENTS[kind])
        for value in values
    ]
    rows += [b"" if text else np.zeros(0, ELEMENTS[kind])] * ((length or 0) - len(rows))
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=starts[1:])
    if text:
        return Ragged(starts, np.frombuffer(b"".join(rows), np.uint8), text)
    return Ragged(starts, np.concatenate([np.zeros(0, ELEMENTS[kind]), *rows]), text)
