# SPDX-License-Identifier: BSD-3-Clause
"""The boundary between readers and the model: a trace as tables of numpy columns.

A reader delivers `Tables`; the model needs nothing else and never sees where they came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue

Column = npt.NDArray[Any]

TIMESTAMP = "timestamp_ns"

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

# What stands in a column for a field that an older schema did not have.
EMPTY: dict[str, Any] = {"text": "", "bytes": (), "list64": ()}


def dtype_of(kind: str) -> Any:
    """The numpy type of a column whose field has this catalogue type."""
    return DTYPES[kind.partition(".")[0]]


@dataclass(frozen=True)
class Table:
    """All events of one name: equally long columns, rows in time order.

    `columns` has `timestamp_ns` (int64, nanoseconds since the Unix epoch) and each field of the
    catalogue: integers in their own type, enumerations as uint8 codes, text as objects of `str`,
    sequences as objects of arrays.
    """

    event: str
    columns: Mapping[str, Column]

    def __len__(self) -> int:
        return len(self.columns[TIMESTAMP])

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """When the events happened, int64 nanoseconds since the Unix epoch."""
        return self.columns[TIMESTAMP]

    def rows(self, selection: Column | slice) -> Table:
        """The rows that a mask, an index array or a slice selects."""
        return Table(self.event, {name: c[selection] for name, c in self.columns.items()})


@dataclass(frozen=True)
class Discarded:
    """LTTng's own message that it dropped events. A hint: these counters are not exact."""

    stream: str
    count: int | None
    begin_ns: int | None
    end_ns: int | None


@dataclass(frozen=True)
class Tables:
    """A trace.

    `declared` has the names of the events that the trace could hold, which is how one tells an event
    that never happened, or was lost, from one that was not recorded.
    """

    tables: Mapping[str, Table]
    declared: frozenset[str]
    environments: tuple[Mapping[str, str | int], ...] = ()
    discarded: tuple[Discarded, ...] = ()
    source: str = ""
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


def make_table(event: str, columns: Mapping[str, Sequence[Any] | Column]) -> Table:
    """A table with all of the event's columns in their types, sorted by time.

    Columns that are not given are zero or empty; they have the length of the others.
    """
    length = max((len(column) for column in columns.values()), default=0)
    made: dict[str, Column] = {TIMESTAMP: _column(columns.get(TIMESTAMP), "i64", length)}
    for item in catalogue.load().events[event].fields:
        made[item.name] = _column(columns.get(item.name), item.kind, length)
    times = made[TIMESTAMP]
    if length > 1 and bool(np.any(times[1:] < times[:-1])):
        # Stable: events of one thread may carry the same time and keep their order.
        order = np.argsort(times, kind="stable")
        made = {name: column[order] for name, column in made.items()}
    return Table(event, made)


def _column(values: Sequence[Any] | Column | None, kind: str, length: int) -> Column:
    """A column of a type; numpy would take equally long sequences for a matrix, hence the loop."""
    dtype = dtype_of(kind)
    if values is None:
        return np.full(length, EMPTY[kind], dtype) if kind == "text" else _empties(kind, length)
    if dtype is object:
        column = np.empty(len(values), object)
        for index, value in enumerate(values):
            column[index] = value
        return column
    return np.asarray(values, dtype)


def _empties(kind: str, length: int) -> Column:
    if dtype_of(kind) is not object:
        return np.zeros(length, dtype_of(kind))
    column = np.empty(length, object)
    for index in range(length):
        column[index] = np.zeros(0, np.uint64)
    return column
