# SPDX-License-Identifier: BSD-3-Clause
"""Which events are missing, from the events themselves.

Each writer (thread) numbers the events of each name from 0, so for one writer and name

    seq seen     2 3 4 7 8        emitted says 11
    lost     0 1     5 6     9 10
             head   middle  tail

the middle is always a loss. The head is one only if the process started within the trace: a recording
that began later rightly lacks it. The tail is known when the writer's `emitted` event is there, which
it is not if the process was killed or still ran at the end. Names that the trace did not record are
left out, although a writer counts them if some other recording takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fabtrace import catalogue
from fabtrace.model.keys import WRITER_THREADS
from fabtrace.model.processes import Process
from fabtrace.tables import Table, Tables


@dataclass(frozen=True)
class Lost:
    """What one writer's events of one name lack. `gap_ns`: the first time known to be after a loss."""

    writer: int
    event: str
    seen: int
    head: int
    middle: int
    tail: int
    gap_ns: int | None

    @property
    def total(self) -> int:
        """All events that are missing."""
        return self.head + self.middle + self.tail


@dataclass(frozen=True)
class Loss:
    """Rows where something is missing, and the writers whose end is not in the trace."""

    rows: list[Lost]
    open_writers: list[int]

    @property
    def total(self) -> int:
        """How many events are missing in all."""
        return sum(row.total for row in self.rows)


def build_loss(tables: Tables, processes: Mapping[int, Process]) -> Loss:
    """What is missing, by writer and event."""
    promised = build_promised(tables)
    writers: set[int] = set()
    rows: list[Lost] = []
    for event in sorted(tables.declared | set(tables.tables), key=catalogue_order):
        table = tables[event]
        seen = np.unique(table["writer"])
        writers.update(seen.tolist())
        expecting = {writer for writer, name in promised if name == event}
        for writer in sorted(expecting | set(seen.tolist())):
            started = processes[writer // WRITER_THREADS].started
            lost = lost_of(table, writer, promised.get((writer, event)), started)
            if lost.total:
                rows.append(lost)
    closed = {writer for writer, _ in promised}
    return Loss(rows, sorted(writers - closed))


def catalogue_order(event: str) -> int:
    """The place of an event in the catalogue; a newer catalogue's events come last."""
    names = catalogue.load().enums["event"]
    return names.index(event) if event in names else len(names)


def build_promised(tables: Tables) -> dict[tuple[int, str], int]:
    """How many events of each name each writer says that it wrote."""
    table = tables["emitted"]
    known = catalogue.load()
    return {
        (writer, known.label("event", code)): count
        for writer, code, count in zip(
            table["writer"].tolist(), table["event"].tolist(), table["count"].tolist()
        )
    }


def lost_of(table: Table, writer: int, promised: int | None, started: bool) -> Lost:
    """What the events of one writer lack. `promised` is what `emitted` says, if it is there."""
    mine = table.rows(table["writer"] == writer)
    if not len(mine):
        # All of them are missing; but of a process that started before the trace one can't know.
        tail = promised if promised is not None and started else 0
        return Lost(writer, table.event, 0, 0, 0, tail, None)
    seq = np.unique(mine["seq"])
    first, last = int(seq[0]), int(seq[-1])
    tail = max(0, promised - last - 1) if promised is not None else 0
    middle = last - first + 1 - len(seq)
    head = first if started else 0
    gap = None
    if middle:
        jump = np.flatnonzero(np.diff(np.sort(mine["seq"])) > 1)[0]
        gap = int(mine.times[mine["seq"] == np.sort(mine["seq"])[jump + 1]][0])
    elif head:
        gap = int(mine.times[0])
    return Lost(writer, table.event, len(seq), head, middle, tail, gap)
