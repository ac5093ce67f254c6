# SPDX-License-Identifier: BSD-3-Clause
"""Operations window by window: what has both ends is counted, what is open is kept for the next window.

    window 1   post 1, post 2, end 1            1 is counted, 2 stays open
    window 2   end 2, post 3                    2 is counted, 3 stays open

Memory grows with what is open at a time, up to MOST_OPEN; the oldest beyond it count as unpaired.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fabtrace import catalogue
from fabtrace.model.bounded.histogram import Histogram
from fabtrace.model.latency import KindLatency, by_kind
from fabtrace.model.operations import (
    Operations,
    Pairing,
    build_operations,
    build_pairing,
    never_posted,
)
from fabtrace.tables import TIMESTAMP, Column, Table, Tables

MOST_OPEN = 1 << 20

# Of each event the columns that are needed until the other end is found.
COLUMNS = {
    "op_post": (TIMESTAMP, "writer", "session", "op", "kind", "call_ns"),
    "op_complete": (TIMESTAMP, "writer", "session", "op", "kind", "status"),
    "op_abandon": (TIMESTAMP, "writer", "session", "op", "kind"),
    "op_defer": (TIMESTAMP, "writer", "session", "op", "kind"),
}


@dataclass
class KindTotal:
    """What is known of one kind of operation."""

    latency: Histogram = field(default_factory=Histogram)
    errors: int = 0
    cancelled: int = 0
    abandoned: int = 0


@dataclass
class OperationTotals:
    """All operations so far. `forgotten`: how many open ones were counted before their time."""

    kinds: dict[int, KindTotal] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Pairing] = field(default_factory=dict)
    open: dict[str, Table] = field(default_factory=dict)
    forgotten: int = 0

    def add(self, window: Tables) -> None:
        """Add a window."""
        tables = {event: extended(self.open.get(event), window[event]) for event in COLUMNS}
        operations = build_operations(Tables(tables, window.declared))
        deferred = never_posted(operations)
        whole = operations.posted & operations.ended
        self.count(operations.rows(np.flatnonzero(whole)), deferred.rows(slice(0, 0)))
        rest = operations.rows(np.flatnonzero(~whole))
        self.open = {**open_events(rest), "op_defer": deferred}
        for event, table in self.open.items():
            if len(table) > MOST_OPEN:
                self.forget(event, len(table) - MOST_OPEN // 2)

    def forget(self, event: str, number: int) -> None:
        """Count the oldest open events of one name as if the trace were at its end."""
        table = self.open[event]
        self.finish({event: table.rows(slice(0, number))})
        self.open[event] = copied(table.rows(slice(number, None)))
        self.forgotten += number

    def finish(self, tables: Mapping[str, Table] | None = None) -> None:
        """Count what has remained open; or only some of it."""
        left = Tables(self.open if tables is None else tables, frozenset())
        operations = build_operations(left)
        self.count(operations, never_posted(operations))

    def count(self, operations: Operations, deferred: Table) -> None:
        """Add operations, and deferred ones that were never posted, to the totals."""
        for part in by_kind(operations):
            total = self.kinds.setdefault(part.kind, KindTotal())
            total.latency.add(part.samples)
            total.errors += part.errors
            total.cancelled += part.cancelled
            total.abandoned += part.abandoned
        for row in build_pairing(operations, deferred):
            key = row.instance, row.kind
            self.pairs[key] = added(self.pairs[key], row) if key in self.pairs else row

    def latency(self) -> list[KindLatency]:
        """A row for each kind of operation that occurs, in the catalogue's order."""
        label = catalogue.load().label
        return [
            KindLatency(
                label("kind", kind),
                total.latency.summary(),
                total.errors,
                total.cancelled,
                total.abandoned,
            )
            for kind, total in sorted(self.kinds.items())
        ]

    def pairing(self) -> list[Pairing]:
        """The pairing of each process and kind of operation, in that order."""
        return [row for _, row in sorted(self.pairs.items())]


def open_events(operations: Operations) -> dict[str, Table]:
    """The events of operations that lack their other end."""
    events = operations.events
    posts = operations.post_row[operations.posted]
    ends = operations.end_row[~operations.posted]
    done = ends < len(events.done)
    return {
        "op_post": events.posts.rows(posts),
        "op_complete": events.done.rows(ends[done]),
        "op_abandon": events.left.rows(ends[~done] - len(events.done)),
    }


def extended(before: Table | None, table: Table) -> Table:
    """The needed columns of a table, behind those that were kept."""
    columns: dict[str, Column] = {}
    for name in COLUMNS[table.event]:
        columns[name] = table[name]
        if before is not None and len(before):
            columns[name] = np.concatenate([before[name], columns[name]])
    return Table(table.event, columns)


def copied(table: Table) -> Table:
    """A table that does not keep a larger one in memory."""
    return Table(table.event, {name: table[name].copy() for name in table.columns})


def added(one: Pairing, other: Pairing) -> Pairing:
    """The sum of two of the same process and kind."""
    return Pairing(
        one.instance,
        one.kind,
        one.paired + other.paired,
        one.abandoned + other.abandoned,
        one.posts_without_end + other.posts_without_end,
        one.ends_without_post + other.ends_without_post,
        one.deferred_for_ever + other.deferred_for_ever,
    )
