# SPDX-License-Identifier: BSD-3-Clause
"""How events name what they belong to, as integers that whole columns can be compared by.

Columns of millions of rows name few things (processes, sessions, writers), so nothing here sorts them:
`dense` looks numbers up in a table, which takes a few ns a row where np.unique takes a hundred.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.model import loops
from fabtrace.tables import Table

WRITER_THREADS = 1024  # a writer is a process instance x this + a thread
NO_SESSION = 0xFFFFFFFF  # the listening endpoint; -1 in signed fields

Keys = npt.NDArray[np.int64]
Index = npt.NDArray[np.int32]

# The largest table that `dense` makes for a few rows, and for many.
PLACES_FEW, PLACES_MANY, MANY = 1 << 12, 1 << 22, 1 << 16


def dense(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Index]:
    """The different values, ascending, and for each row the place of its value among them (int32)."""
    if not len(values):
        return values[:0], np.zeros(0, np.int32)
    low, high = int(values.min()), int(values.max())
    places = PLACES_FEW if len(values) < MANY else max(PLACES_MANY, 2 * len(values))
    if high - low >= places or high > np.iinfo(np.int64).max:
        unique, index = np.unique(values, return_inverse=True)
        return unique, index.astype(np.int32)
    place = values - values.dtype.type(low)
    seen = np.zeros(high - low + 1, bool)
    seen[place] = True
    found = np.flatnonzero(seen)
    number = np.empty(len(seen), np.int32)
    number[found] = np.arange(len(found), dtype=np.int32)
    return (found + low).astype(values.dtype), number[place]


def dense_writers(writers: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], Index]:
    """`dense` for writers: their instances are random, but a process has few threads."""
    found = loops.number_keys([(writers, None)], 0)
    if found is not None:
        return (found[0] >> np.uint64(32)).astype(np.uint32), found[1][0]
    instances_, index = dense(writers >> np.uint32(10))
    threads = writers & np.uint32(WRITER_THREADS - 1)
    pairs, place = dense(index * np.int32(WRITER_THREADS) + threads.astype(np.int32))
    unique = instances_[pairs // WRITER_THREADS].astype(np.int64) * WRITER_THREADS
    return (unique + pairs % WRITER_THREADS).astype(np.uint32), place


def instances(table: Table) -> Keys:
    """The process instance of each row."""
    return table["writer"].astype(np.int64) // WRITER_THREADS


def session_keys(table: Table) -> Keys:
    """(process instance, session) of each row as one number; -1 sessions as NO_SESSION."""
    sessions = table["session"].astype(np.int64) & NO_SESSION
    return (instances(table) << 32) | sessions


def session_index(*tables: Table) -> tuple[Keys, list[Index]]:
    """The session keys that occur in some tables, ascending, and for each table its rows' places."""
    found = loops.number_keys(
        [(table["writer"], table["session"].view(np.uint32)) for table in tables], 10
    )
    if found is not None:
        return found[0].astype(np.int64), found[1]
    writers = np.concatenate([table["writer"] for table in tables])
    processes, process = dense(writers >> np.uint32(10))
    # Seen as unsigned, -1 + 1 is 0: the listening endpoint comes first, and not 2^32 places later.
    raw = [table["session"].astype(np.uint32, copy=False) for table in tables]
    numbers, number = dense(np.concatenate(raw) + np.uint32(1))
    if len(processes) * len(numbers) > np.iinfo(np.int32).max:
        process = process.astype(np.int64)
    pairs, index = dense(process * process.dtype.type(max(len(numbers), 1)) + number)
    instance = processes.astype(np.int64)[pairs // max(len(numbers), 1)]
    session = (numbers.astype(np.int64)[pairs % max(len(numbers), 1)] - 1) & NO_SESSION
    keys = (instance << 32) | session
    order = np.argsort(keys, kind="stable")  # only where there is a listening endpoint it moves
    place = np.empty(len(keys), np.int32)
    place[order] = np.arange(len(keys), dtype=np.int32)
    split_at = np.cumsum([len(table) for table in tables])[:-1]
    return keys[order], list(np.split(place[index], split_at))


def worker_keys(table: Table) -> Keys:
    """(process instance, worker) of each row as one number."""
    return (instances(table) << 32) | table["worker"].astype(np.int64)


def session_key(instance: int, session: int) -> int:
    """The key of one session."""
    return (instance << 32) | (session & NO_SESSION)


def split(key: int) -> tuple[int, int]:
    """Process instance and session (or worker) of a key."""
    return int(key) >> 32, int(key) & NO_SESSION


def thread_name(writer: int) -> str:
    """What a writer is in its process."""
    thread = int(writer) % WRITER_THREADS
    return "main" if thread == 0 else f"worker {thread - 1}"


def bounds(index: Index, groups: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first and the last row of each group; -1 for a group without rows."""
    return extents(index, groups)[:2]


def extents(
    index: Index, groups: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The first and the last row of each group, -1 for a group without rows, and how many it has."""
    found = loops.bounds(index, groups)
    if found is not None:
        return found
    rows = np.arange(len(index))
    first, last = np.full(groups, -1), np.full(groups, -1)
    last[index] = rows  # of several assignments to a place the last one stays
    first[index[::-1]] = rows[::-1]
    return first, last, np.bincount(index, minlength=groups)


def last_rows(keys: npt.NDArray[Any]) -> dict[int, int]:
    """For each key the index of its last row; rows are in time order."""
    unique, index = dense(keys)
    return dict(zip(unique.tolist(), bounds(index, len(unique))[1].tolist()))


def first_rows(keys: npt.NDArray[Any]) -> dict[int, int]:
    """For each key the index of its first row."""
    unique, index = dense(keys)
    return dict(zip(unique.tolist(), bounds(index, len(unique))[0].tolist()))


def counts(keys: npt.NDArray[Any]) -> dict[int, int]:
    """How often each key occurs."""
    unique, index = dense(keys)
    return dict(zip(unique.tolist(), np.bincount(index, minlength=len(unique)).tolist()))


class Groups:
    """Rows by group: `of(g)` are the rows of group g, ascending. Made once, a few ns a row."""

    order: Index
    starts: npt.NDArray[np.int64]

    def __init__(self, index: npt.NDArray[Any], groups: int) -> None:
        found = loops.order(index, groups)
        if found is not None:
            self.order, self.starts = found
            return
        # numpy sorts 16-bit numbers by radix, wider ones by merging.
        small = index.astype(np.uint16) if groups <= 1 << 16 else index
        self.order = np.argsort(small, kind="stable").astype(np.int32)
        self.starts = np.concatenate([[0], np.cumsum(np.bincount(index, minlength=groups))])

    def of(self, group: int) -> Index:
        """The rows of a group."""
        return self.order[self.starts[group] : self.starts[group + 1]]
