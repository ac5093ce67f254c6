# SPDX-License-Identifier: BSD-3-Clause
"""Which events of each name each writer wrote, window by window: rows, and runs of consecutive numbers.

    seq seen       0 1 2 3   5 6 7   9 10      runs (0, 3) (5, 7) (9, 10), between them the gaps

Memory grows with the gaps, up to MOST_RUNS a writer and name; then older runs are only counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fabtrace.model.keys import dense_writers, extents
from fabtrace.model.loss import Gap, Numbers
from fabtrace.model.writers import Written
from fabtrace.tables import Table, Tables

Times = npt.NDArray[np.int64]

MOST_RUNS = 4096


@dataclass
class Runs:
    """The numbers of one writer's events of one name as runs, ascending, none touching the next.

    A row of `rows` is: first and last number, and the times of these two.
    """

    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 4), np.int64))
    older: Numbers | None = None  # what was counted and is no longer kept as runs

    def add(self, more: npt.NDArray[np.int64]) -> Times:
        """Add some runs; gives the times of the last events before the gaps that this shows."""
        if len(self.rows) and len(more) == 1 and self.rows[-1, 1] + 1 == more[0, 0]:
            self.rows[-1, 1::2] = more[0, 1::2]  # as a rule it just goes on
            return np.zeros(0, np.int64)
        known = len(self.rows)
        if not known:
            self.rows = more
        elif more[0, 0] > self.rows[-1, 1] + 1:
            self.rows = np.concatenate([self.rows, more])
        else:
            self.rows = melt(np.concatenate([self.rows, more]))
        found = self.rows[max(known - 1, 0) : -1, 3].copy()
        if len(self.rows) > MOST_RUNS:
            self.forget(MOST_RUNS // 2)
        return found

    def forget(self, number: int) -> None:
        """Only count the first so many runs."""
        past = Runs(self.rows[: number + 1], self.older).numbers()
        # Of the run after them the gap before it is needed, and nothing else.
        kept = self.rows[number:]
        seen = past.seen - int(kept[0, 1] - kept[0, 0] + 1)
        self.older = Numbers(past.first, past.last, seen, past.gaps[:1])
        self.rows = kept.copy()

    def numbers(self) -> Numbers:
        """What the model of loss wants to know; of very many gaps it has the first and the latest."""
        gaps = tuple(
            Gap(begin, end, after - before - 1)
            for (_, before, _, begin), (after, _, end, _) in zip(
                self.rows[:-1].tolist(), self.rows[1:].tolist()
            )
        )
        seen = int((self.rows[:, 1] - self.rows[:, 0]).sum()) + len(self.rows)
        first, last = int(self.rows[0, 0]), int(self.rows[-1, 1])
        if self.older is None:
            return Numbers(first, last, seen, gaps)
        return Numbers(self.older.first, last, self.older.seen + seen, self.older.gaps + gaps)


def melt(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Runs in any order, overlapping or touching: as few, ascending ones."""
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    # A run begins where all before end before; of equal ends the first counts.
    reach = np.maximum.accumulate(rows[:, 1])
    begins = np.flatnonzero(np.concatenate([[True], rows[1:, 0] > reach[:-1] + 1]))
    ends = np.append(begins[1:], len(rows))
    at = [low + int(np.argmax(rows[low:high, 1])) for low, high in zip(begins, ends)]
    return np.stack([rows[begins, 0], rows[at, 1], rows[begins, 2], rows[at, 3]], axis=1)


def runs_of(
    table: Table, index: npt.NDArray[np.int32], place: int, first: int, last: int, count: int
) -> npt.NDArray[np.int64]:
    """One writer's numbers in a table as runs. `place`: the writer's in `index`; its rows."""
    seq, times = table["seq"].view(np.int64), table.times
    low, high = int(seq[first]), int(seq[last])
    if high - low + 1 == count:
        return np.array([[low, high, times[first], times[last]]], np.int64)
    mine = np.flatnonzero(index == place)
    numbers, at = np.unique(seq[mine], return_index=True)
    moments = times[mine[at]]
    jumps = np.flatnonzero(np.diff(numbers) > 1)
    begins, ends = np.append(0, jumps + 1), np.append(jumps, len(numbers) - 1)
    return np.stack([numbers[begins], numbers[ends], moments[begins], moments[ends]], axis=1)


@dataclass
class Entry:
    """One writer's events of one name: first and last row in the whole table, their number, runs."""

    first: int
    last: int
    count: int
    runs: Runs


@dataclass
class Ledger:
    """All writers of all names."""

    entries: dict[str, dict[int, Entry]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # of each table that have been seen

    def add(self, window: Tables) -> dict[str, dict[int, Times]]:
        """Add a window; gives, by event and writer, the last times before gaps that this shows."""
        found: dict[str, dict[int, Times]] = {}
        for event, table in window.tables.items():
            if len(table):
                found[event] = self.add_table(table)
                self.rows[event] += len(table)
        return found

    def add_table(self, table: Table) -> dict[int, Times]:
        """Add a table's rows."""
        base = self.rows.setdefault(table.event, 0)
        mine = self.entries.setdefault(table.event, {})
        writers, index = dense_writers(table["writer"])
        first, last, count = (rows.tolist() for rows in extents(index, len(writers)))
        found = {}
        for place, writer in enumerate(writers.tolist()):
            runs = runs_of(table, index, place, first[place], last[place], count[place])
            entry = mine.setdefault(writer, Entry(base + first[place], 0, 0, Runs()))
            entry.last = base + last[place]
            entry.count += count[place]
            gaps = entry.runs.add(runs)
            if len(gaps):
                found[writer] = gaps
        return found

    def written(self) -> dict[str, Written]:
        """Who wrote which rows of each table."""
        return {event: written_of(entries) for event, entries in self.entries.items()}

    def numbers(self, event: str, writer: int) -> Numbers:
        """The numbers of a writer's events of one name."""
        return self.entries[event][writer].runs.numbers()


def written_of(entries: Mapping[int, Entry]) -> Written:
    """The writers of one table."""
    ordered = sorted(entries.items())
    rows = np.array([(e.first, e.last, e.count) for _, e in ordered], np.int64)
    writers = np.array([writer for writer, _ in ordered], np.uint32)
    return Written(writers, rows[:, 0], rows[:, 1], rows[:, 2])
