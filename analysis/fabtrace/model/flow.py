# SPDX-License-Identifier: BSD-3-Clause
"""Flow control: target memory at hand, writes in flight, fragments, in the course of a session.

All of it from the operations; a session at a time, its operations in bulk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model.keys import session_index
from fabtrace.model.operations import Operations
from fabtrace.model.sessions import Session
from fabtrace.tables import Tables

WRITES = ("write", "fragment")


@cache
def codes(*kinds: str) -> tuple[int, ...]:
    """The codes of kinds of operations."""
    return tuple(catalogue.load().code("kind", kind) for kind in kinds)


def of_kinds(operations: Operations, *kinds: str) -> Operations:
    """The operations of some kinds."""
    wanted = np.zeros(256, bool)
    wanted[list(codes(*kinds))] = True
    return operations.rows(np.flatnonzero(wanted[operations.kind]))


@dataclass(frozen=True)
class Curve:
    """A quantity over time: from times_ns[i] on it is values[i]; before the first it is 0."""

    times_ns: npt.NDArray[np.int64]
    values: npt.NDArray[np.int64]

    def within(
        self, begin_ns: int, end_ns: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The values between two times and how long each lasted, in ns."""
        times = np.concatenate([[begin_ns], np.clip(self.times_ns, begin_ns, end_ns), [end_ns]])
        values = np.concatenate([[0], self.values])
        return values, np.diff(times)

    def time_below(self, least: int, begin_ns: int, end_ns: int) -> int:
        """For how many ns between two times there was less than that."""
        values, lasted = self.within(begin_ns, end_ns)
        return int(lasted[values < least].sum())

    def mean(self, begin_ns: int, end_ns: int) -> float:
        """The mean between two times, weighted by time."""
        values, lasted = self.within(begin_ns, end_ns)
        whole = int(lasted.sum())
        return float((values * (lasted / whole)).sum()) if whole else 0.0

    @property
    def top(self) -> int:
        """The largest value."""
        return int(self.values.max(initial=0))


def make_curve(
    up_ns: npt.NDArray[np.int64],
    up: npt.NDArray[np.int64],
    down_ns: npt.NDArray[np.int64],
    down: npt.NDArray[np.int64],
) -> Curve:
    """A quantity that grows by `up` and falls by `down` at some times; of equal times growth is first."""
    times = np.concatenate([up_ns, down_ns])
    steps = np.concatenate([up, -down])
    order = np.argsort(times, kind="stable")
    return Curve(times[order], np.cumsum(steps[order]))


def credit_curve(operations: Operations) -> Curve:
    """Target memory at hand in bytes, as one end sees it.

    put: offered by the vectors that it received, less what it wrote. get: offered by the vectors that
    it sent, less what put reported.
    """
    offers = of_kinds(operations, "vector_rx", "vector_tx")
    sent = offers.kind == codes("vector_tx")[0]
    known = offers.rows(np.flatnonzero(np.where(sent, offers.posted, offers.succeeded)))
    sent = known.kind == codes("vector_tx")[0]
    offered_ns = np.where(sent, known.begin_ns, known.end_ns)
    writes = of_kinds(operations, *WRITES)
    writes = writes.rows(np.flatnonzero(writes.posted))
    reports = of_kinds(operations, "progress_rx")
    reports = reports.rows(np.flatnonzero(reports.succeeded))
    return make_curve(
        offered_ns,
        known.payload_bytes,
        np.concatenate([writes.begin_ns, reports.end_ns]),
        np.concatenate([writes.payload_bytes, reports.payload_bytes]),
    )


def flight_curve(operations: Operations, end_ns: int) -> Curve:
    """How many of some operations were posted and not completed; open ones last until `end_ns`."""
    posted = operations.rows(np.flatnonzero(operations.posted))
    ends = np.where(posted.ended, posted.end_ns, end_ns)
    ones = np.ones(len(posted), np.int64)
    return make_curve(posted.begin_ns, ones, ends, ones)


@dataclass(frozen=True)
class Flow:
    """What limits a put session, from its operations between its first and its last post of a write.

    starved_ns    it had less target memory at hand than a payload buffer needs
    offered_bytes the most that it had at hand
    in_flight     mean and most writes in flight
    """

    begin_ns: int
    end_ns: int
    starved_ns: int
    offered_bytes: int
    in_flight_mean: float
    in_flight_top: int

    @property
    def starved_share(self) -> float:
        """The share of the time without memory, 0 to 1."""
        span = self.end_ns - self.begin_ns
        return self.starved_ns / span if span > 0 else 0.0


def build_flow(operations: Operations, session: Session) -> Flow | None:
    """The flow of a put session; None if no write of it is in the trace."""
    mine = operations.of(session.key)
    writes = of_kinds(mine, *WRITES)
    writes = writes.rows(np.flatnonzero(writes.posted))
    if not len(writes):
        return None
    begin, end = int(writes.begin_ns.min()), int(writes.begin_ns.max())
    credit = credit_curve(mine)
    flight = flight_curve(writes, session.last_ns)
    return Flow(
        begin,
        end,
        credit.time_below(buffer_bytes(writes), begin, end),
        credit.top,
        flight.mean(begin, end),
        flight.top,
    )


def buffer_bytes(writes: Operations) -> int:
    """How large payload buffers are, as the largest writes show: payload a segment, at least 1 byte.

    put does not write a buffer into less memory, unless nothing else would get it further.
    """
    segments = np.maximum(writes.segments.astype(np.int64), 1)
    return max(1, int((writes.payload_bytes // segments).max()))


@dataclass(frozen=True)
class Fragments:
    """How a session's payload buffers were split.

    split        buffers that went out in pieces, and the pieces
    pieces       histogram: number of pieces -> number of buffers
    together_ns  from the post of a buffer's first piece to the completion of its last, of those buffers
                 of which all pieces are known
    incomplete   buffers of which some piece is not in the trace
    """

    session: Session
    split: int
    pieces: int
    histogram: dict[int, int]
    bytes: int
    smallest_bytes: int
    median_bytes: int
    largest_bytes: int
    together_ns: npt.NDArray[np.int64]
    incomplete: int


def build_fragments(tables: Tables, operations: Operations, session: Session) -> Fragments | None:
    """The fragments of a session; None if it has none."""
    table = tables["fragment"]
    keys, (owner,) = session_index(table)
    place = int(np.searchsorted(keys, session.key))
    if place == len(keys) or keys[place] != session.key:
        return None
    rows = table.rows(np.flatnonzero(owner == place))
    parents, buffer = np.unique(rows["parent"], return_inverse=True)
    pieces = np.bincount(buffer)
    # A tree is whole when its last piece is there and as many as the last one's index says.
    last = np.zeros(len(parents), np.int64)
    is_last = rows["last"] == 1
    last[buffer[is_last]] = rows["child"][is_last].astype(np.int64) + 1
    whole = last == pieces
    lengths = np.sort(rows["len_bytes"])
    numbers, times = np.unique(pieces, return_counts=True)
    return Fragments(
        session=session,
        split=len(parents),
        pieces=len(rows),
        histogram=dict(zip(numbers.tolist(), times.tolist())),
        bytes=int(rows["len_bytes"].astype(np.int64).sum()),
        smallest_bytes=int(lengths[0]),
        median_bytes=int(lengths[(len(lengths) - 1) // 2]),
        largest_bytes=int(lengths[-1]),
        together_ns=together(operations.of(session.key), rows["op"], buffer, whole),
        incomplete=int(np.count_nonzero(~whole)),
    )


def together(
    mine: Operations,
    ops: npt.NDArray[np.uint64],
    buffer: npt.NDArray[np.int64],
    whole: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """How long it took to write each whole buffer, all of its pieces."""
    good = mine.rows(np.flatnonzero(mine.succeeded))
    order = np.argsort(good.op)
    if not len(order):
        return np.zeros(0, np.int64)
    place = np.minimum(np.searchsorted(good.op[order], ops), len(order) - 1)
    row = order[place]
    known = good.op[row] == ops
    complete = whole.copy()
    complete[buffer[~known]] = False
    by_buffer = np.argsort(buffer, kind="stable")
    starts = np.flatnonzero(np.diff(buffer[by_buffer], prepend=-1))
    begin = np.minimum.reduceat(good.begin_ns[row][by_buffer], starts)
    end = np.maximum.reduceat(good.end_ns[row][by_buffer], starts)
    took: npt.NDArray[np.int64] = (end - begin)[complete]
    return took
