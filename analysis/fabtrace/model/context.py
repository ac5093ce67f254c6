# SPDX-License-Identifier: BSD-3-Clause
"""What was around an operation, and where sessions stood still."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fabtrace.model.flow import codes, of_kinds
from fabtrace.model.keys import worker_keys
from fabtrace.model.operations import Operations
from fabtrace.model.run import Run
from fabtrace.model.sessions import Session
from fabtrace.model.states import Intervals, state_label


def open_operations(operations: Operations) -> Operations:
    """Operations whose post is in the trace and whose end is not."""
    return operations.rows(np.flatnonzero(operations.posted & ~operations.ended))


def describe(run: Run, operations: Operations, row: int) -> dict[str, Any]:
    """The context of one operation, from its begin to its end.

    in_flight           operations of the same kinds of its session, itself included, at its post
    overtaken_by        of these, posted later and completed earlier
    deferred_us         from op_defer to its post; None if it was not deferred
    state_shares        what its session waited for
    worker_asleep_us    its worker's sleeps
    longest_silence_us  the longest time in which its session wrote no event
    """
    begin, end = int(operations.begin_ns[row]), int(operations.end_ns[row])
    key, op, kind = int(operations.session[row]), int(operations.op[row]), int(operations.kind[row])
    session = run.by_key.get(key)
    mine = run.operations.of(key)
    alike = of_kinds(mine, "write", "fragment") if kind in codes("write", "fragment") else None
    same = mine.rows(np.flatnonzero(mine.kind == kind)) if alike is None else alike
    posted = same.posted
    after = np.where(same.ended, same.end_ns, np.iinfo(np.int64).max)
    flying = posted & (same.begin_ns <= begin) & (after > begin)
    overtook = posted & (same.begin_ns > begin) & (after < end)
    return {
        "in_flight": int(np.count_nonzero(flying)),
        "overtaken_by": int(np.count_nonzero(overtook)),
        "deferred_us": deferral_us(run, key, op, begin),
        "state_shares": shares_within(run.states.of(key), begin, end),
        "worker_asleep_us": asleep_us(run, session, begin, end),
        "longest_silence_us": silence_ns(mine, begin, end) / 1e3,
    }


def deferral_us(run: Run, key: int, op: int, begin_ns: int) -> float | None:
    """How long before its post an operation was deferred."""
    events = run.operations.events
    table = events.deferred
    place = int(np.searchsorted(events.keys, key))
    mine = np.flatnonzero((events.defer_owner == place) & (table["op"] == op))
    return (begin_ns - int(table.times[mine[0]])) / 1e3 if len(mine) else None


def shares_within(states: Intervals, begin_ns: int, end_ns: int) -> dict[str, float]:
    """The share of each state of a session between two times."""
    inside = states.within(begin_ns, end_ns)
    whole = max(end_ns - begin_ns, 1)
    return {
        state_label("state", state): spent / whole for state, spent in inside.totals_ns().items()
    }


def asleep_us(run: Run, session: Session | None, begin_ns: int, end_ns: int) -> float:
    """How long a session's worker slept between two times."""
    if session is None or session.worker is None:
        return 0.0
    table = run.tables["worker_sleep"]
    # A sleep is written at its end; none is longer than 100 ms, so this finds all of them.
    low, high = np.searchsorted(table.times, [begin_ns, end_ns + 200_000_000])
    rows = table.rows(slice(int(low), int(high)))
    rows = rows.rows(
        np.flatnonzero(worker_keys(rows) == (session.process.instance << 32) | session.worker)
    )
    ends = rows.times
    begins = ends - rows["asleep_ns"].astype(np.int64)
    overlap = np.minimum(ends, end_ns) - np.maximum(begins, begin_ns)
    return float(overlap[overlap > 0].sum()) / 1e3


def silence_ns(mine: Operations, begin_ns: int, end_ns: int) -> int:
    """The longest time between two events of a session's operations, between two times."""
    moments = np.concatenate(
        [mine.begin_ns[mine.posted], mine.end_ns[mine.ended], [begin_ns, end_ns]]
    )
    inside = np.sort(moments[(moments >= begin_ns) & (moments <= end_ns)])
    return int(np.diff(inside).max(initial=0))


@dataclass(frozen=True)
class Stall:
    """A time in which a session's payload did not move: no write completed (put), or no progress message
    came (get). `states`: the shares of what it waited for."""

    session: Session
    begin_ns: int
    end_ns: int
    states: dict[str, float]


def find_stalls(run: Run, number: int) -> list[Stall]:
    """The longest stalls of all sessions between their start and their last payload byte."""
    found: list[tuple[int, int, Session]] = []
    for session in run.sessions:
        kinds = ("write", "fragment") if session.role == "put" else ("progress_rx",)
        mine = of_kinds(run.operations.of(session.key), *kinds)
        ends = np.sort(mine.end_ns[mine.ended])
        if session.start_ns is not None and session.start_ns >= run.begin_ns:
            ends = np.concatenate([[session.start_ns], ends])
        if len(ends) < 2:
            continue
        gaps = np.diff(ends)
        top = np.argsort(-gaps, kind="stable")[:number]
        found += [(int(ends[at]), int(ends[at + 1]), session) for at in top.tolist()]
    found.sort(key=lambda stall: stall[0] - stall[1])
    return [
        Stall(session, begin, end, shares_within(run.states.of(session.key), begin, end))
        for begin, end, session in found[:number]
        if end > begin
    ]
