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

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from fabtrace import catalogue
from fabtrace.model.keys import WRITER_THREADS
from fabtrace.model.processes import Process
from fabtrace.model.writers import Written, scan_writers
from fabtrace.tables import Table, Tables


@dataclass(frozen=True)
class Gap:
    """Events that one writer lost between two that it did not: their number and when those were."""

    begin_ns: int
    end_ns: int
    count: int


@dataclass(frozen=True)
class Numbers:
    """The numbers of one writer's events of one name: least, largest, how many different ones, gaps."""

    first: int
    last: int
    seen: int
    gaps: tuple[Gap, ...] = ()


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
    gaps: tuple[Gap, ...] = ()

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

    def gaps(self, event: str) -> dict[int, tuple[Gap, ...]]:
        """The gaps in the events of one name, by writer."""
        return {row.writer: row.gaps for row in self.rows if row.event == event and row.gaps}


def build_loss(
    tables: Tables,
    processes: Mapping[int, Process],
    written: Mapping[str, Written] | None = None,
    numbers: Callable[[str, int], Numbers] | None = None,
) -> Loss:
    """What is missing, by writer and event. `numbers` of an event and a writer, if they are known."""
    written = scan_writers(tables) if written is None else written
    promised = build_promised(tables)
    writers: set[int] = set()
    rows: list[Lost] = []
    for event in sorted(tables.declared | set(tables.tables), key=catalogue_order):
        seen = written.get(event)
        places = {} if seen is None else {w: n for n, w in enumerate(seen.writers.tolist())}
        writers.update(places)
        expecting = {writer for writer, name in promised if name == event}
        for writer in sorted(expecting | set(places)):
            started = processes[writer // WRITER_THREADS].started
            count = promised.get((writer, event))
            if seen is not None and writer in places:
                place, table = places[writer], tables[event]
                known = numbers(event, writer) if numbers else numbers_of(table, seen, place)
                since_ns = int(table.times[seen.first[place]])
                lost = lost_of(writer, event, known, since_ns, count, started)
            else:
                # All of them are missing; but of a process that started before the trace one can't
                # know.
                tail = count if count is not None and started else 0
                lost = Lost(writer, event, 0, 0, 0, tail, None)
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


def lost_of(
    writer: int, event: str, numbers: Numbers, since_ns: int, promised: int | None, started: bool
) -> Lost:
    """What the events of one writer lack, the first of which was at `since_ns`. `promised` is what
    `emitted` says, if it is there."""
    tail = max(0, promised - numbers.last - 1) if promised is not None else 0
    head = numbers.first if started else 0
    gaps = numbers.gaps
    gap = gaps[0].end_ns if gaps else since_ns if head else None
    middle = numbers.last - numbers.first + 1 - numbers.seen
    return Lost(writer, event, numbers.seen, head, middle, tail, gap, gaps)


def numbers_of(table: Table, seen: Written, place: int) -> Numbers:
    """The numbers of a writer, given by its place in `seen`."""
    number = int(seen.count[place])
    first = int(table["seq"][seen.first[place]])
    last = int(table["seq"][seen.last[place]])
    if last - first + 1 == number:
        return Numbers(first, last, number)
    # Something is missing, or the order of events with equal times is not theirs.
    return find_gaps(table, int(seen.writers[place]))


def find_gaps(table: Table, writer: int) -> Numbers:
    """The numbers of a writer, one by one."""
    mine = np.flatnonzero(table["writer"] == writer)
    seq, at = np.unique(table["seq"][mine], return_index=True)
    times = table.times[mine[at]]
    jumps = np.flatnonzero(np.diff(seq) > 1)
    gaps = tuple(
        Gap(int(times[jump]), int(times[jump + 1]), int(seq[jump + 1] - seq[jump]) - 1)
        for jump in jumps.tolist()
    )
    return Numbers(int(seq[0]), int(seq[-1]), len(seq), gaps)
