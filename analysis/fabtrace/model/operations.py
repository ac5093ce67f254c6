# SPDX-License-Identifier: BSD-3-Clause
"""Operations: each post joined with its completion, or with the word that it was abandoned.

The join is by (process instance, session, op), so order, reused contexts and lost events in between do
not matter. What has no partner stays, open-ended, and is counted.

It has to be cheap, a tenth of what decoding the events costs. Operation numbers count from 1 in each
session, so they are addresses: the ends are written into a table with a place an operation, the posts
look there. Columns are taken from the events' tables when somebody asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model import loops
from fabtrace.model.keys import Groups, Index, Keys, session_index, session_keys
from fabtrace.tables import Table, Tables

Mask = npt.NDArray[Any]  # of bool
Times = npt.NDArray[np.int64]

UNKNOWN_NS = np.iinfo(np.int64).min  # a time that the trace does not hold


class End(IntEnum):
    """How the trace says that an operation ended."""

    NOT_SEEN = 0
    COMPLETED = 1
    ABANDONED = 2


@dataclass(frozen=True)
class OperationEvents:
    """The events that operations are made of. `keys`: the sessions; owners: places therein."""

    posts: Table
    done: Table
    left: Table
    keys: Keys
    post_owner: Index
    end_owner: Index  # of done, then of left
    deferred: Table
    defer_owner: Index


class Operations:
    """Columns with a row an operation: those whose post is known in the order of their posts, then those
    of which only the end is.

    session, owner  whose it is: its key, and the key's place in `keys`
    begin_ns        when the posting call began, UNKNOWN_NS if no op_post is in the trace
    end_ns          when its completion was read or it was abandoned, UNKNOWN_NS if neither is there
    end, status     End and the completion's status code
    len_bytes       of the message or payload; of the completion where there is one
    payload_bytes   payload that it accounts for, as completed, else as posted
    position        of a write: its place in the stream; of a vector or progress: its number
    earlier         operations posted earlier and still pending when it completed
    """

    def __init__(self, events: OperationEvents, post_row: Index, end_row: Index) -> None:
        self.events = events
        self.post_row = post_row  # -1: not in the trace
        self.end_row = end_row  # of `done`, then of `left`; -1: not in the trace

    def __len__(self) -> int:
        return len(self.post_row)

    def rows(self, selection: Any) -> Operations:
        """The rows that a mask or index array selects."""
        return Operations(self.events, self.post_row[selection], self.end_row[selection])

    @property
    def keys(self) -> Keys:
        """The sessions that have operations, ascending; a listening endpoint is one."""
        return self.events.keys

    @cached_property
    def groups(self) -> Groups:
        """Rows by owner."""
        return Groups(self.owner, len(self.keys))

    def of(self, session: int) -> Operations:
        """The operations of one session, given by its key."""
        place = int(np.searchsorted(self.keys, session))
        if place == len(self.keys) or self.keys[place] != session:
            return self.rows(slice(0, 0))
        return self.rows(self.groups.of(place))

    @cached_property
    def posted(self) -> Mask:
        """Whether the post is in the trace."""
        return self.post_row >= 0

    @cached_property
    def ended(self) -> Mask:
        """Whether the completion, or the word that it was abandoned, is in the trace."""
        return self.end_row >= 0

    @cached_property
    def completed(self) -> Mask:
        """Whether it completed, well or not."""
        return self.ended & (self.end_row < len(self.events.done))

    @property
    def end(self) -> npt.NDArray[np.uint8]:
        """How it ended: codes of `End`."""
        how = np.where(self.completed, np.uint8(End.COMPLETED), np.uint8(End.ABANDONED))
        how[~self.ended] = End.NOT_SEEN
        return how

    @cached_property
    def owner(self) -> Index:
        """The place of its session in `keys`."""
        return self._first_of(self.events.post_owner, self.events.end_owner)

    @property
    def session(self) -> Keys:
        """Its session's key."""
        return self.keys[self.owner] if len(self) else np.zeros(0, np.int64)

    @cached_property
    def op(self) -> npt.NDArray[np.uint64]:
        """Its number in its session."""
        return self._first_of(self.events.posts["op"], self._ends("op"))

    @cached_property
    def kind(self) -> npt.NDArray[np.uint8]:
        """Its kind, a code."""
        return self._first_of(self.events.posts["kind"], self._ends("kind"))

    @cached_property
    def begin_ns(self) -> Times:
        posts = self.events.posts
        begin = pick(posts.times, self.post_row, UNKNOWN_NS)
        begin[self.posted] -= posts["call_ns"][self.post_row[self.posted]]
        return begin

    @property
    def call_ns(self) -> Times:
        return pick(self.events.posts["call_ns"], self.post_row, 0).astype(np.int64)

    @cached_property
    def end_ns(self) -> Times:
        return self._from_ends("timestamp_ns", UNKNOWN_NS, True)

    @cached_property
    def status(self) -> npt.NDArray[np.uint8]:
        return self._from_ends("status", 0)

    @property
    def earlier(self) -> npt.NDArray[np.uint16]:
        return self._from_ends("earlier_pending", 0)

    @property
    def position(self) -> npt.NDArray[np.uint64]:
        return pick(self.events.posts["position"], self.post_row, 0)

    @property
    def segments(self) -> npt.NDArray[np.uint8]:
        return pick(self.events.posts["nsegs"], self.post_row, 0)

    @cached_property
    def len_bytes(self) -> npt.NDArray[np.int64]:
        return self._end_else_post("len_bytes")

    @cached_property
    def payload_bytes(self) -> npt.NDArray[np.int64]:
        return self._end_else_post("payload_bytes")

    @cached_property
    def succeeded(self) -> Mask:
        """Whether it completed without error and both of its times are known."""
        ok = catalogue.load().code("status", "ok")
        mask: Mask = self.posted & self.completed & (self.status == ok)
        return mask

    @property
    def latency_ns(self) -> Times:
        """From the begin of the posting call to the completion; only where both are known."""
        return self.end_ns - self.begin_ns

    def _ends(self, name: str) -> npt.NDArray[Any]:
        done, left = self.events.done, self.events.left
        return done[name] if not len(left) else np.concatenate([done[name], left[name]])

    def _first_of(self, posts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What the post says, or the end where there is no post."""
        column = pick(posts, self.post_row, 0)
        alone = np.flatnonzero(~self.posted)
        if len(alone):
            column[alone] = ends[self.end_row[alone]]
        return column

    def _from_ends(self, name: str, missing: int, of_left: bool = False) -> npt.NDArray[Any]:
        """A column of op_complete, and with `of_left` also of op_abandon."""
        done, left = self.events.done, self.events.left
        column = pick(done[name], np.where(self.completed, self.end_row, -1), missing)
        if of_left and len(left):
            abandoned = np.flatnonzero(self.end_row >= len(done))
            column[abandoned] = left[name][self.end_row[abandoned] - len(done)]
        return column

    def _end_else_post(self, name: str) -> npt.NDArray[np.int64]:
        column = self._from_ends(name, 0).astype(np.int64)
        rest = np.flatnonzero(~self.completed & self.posted)
        column[rest] = self.events.posts[name][self.post_row[rest]].astype(np.int64)
        return column


def build_operations(tables: Tables) -> Operations:
    """All operations of a run."""
    posts, done, left = tables["op_post"], tables["op_complete"], tables["op_abandon"]
    deferred = tables["op_defer"]
    keys, owners = session_index(posts, done, left, deferred)
    post_owner, done_owner, left_owner, defer_owner = owners
    end_owner = np.concatenate([done_owner, left_owner]) if len(left) else done_owner
    end_ops = np.concatenate([done["op"], left["op"]]) if len(left) else done["op"]
    events = OperationEvents(posts, done, left, keys, post_owner, end_owner, deferred, defer_owner)
    return Operations(events, *join(len(keys), post_owner, posts["op"], end_owner, end_ops))


def pick(column: npt.NDArray[Any], rows: npt.NDArray[Any], missing: int) -> npt.NDArray[Any]:
    """column[rows], with `missing` where a row is -1."""
    if not len(column):
        return np.full(len(rows), missing, column.dtype)
    taken: npt.NDArray[Any] = column[rows]
    absent = rows < 0
    if absent.any():
        taken[absent] = missing
    return taken


def join(
    owners: int,
    left_owner: Index,
    left_ops: npt.NDArray[Any],
    right_owner: Index,
    right_ops: npt.NDArray[Any],
) -> tuple[Index, Index]:
    """Rows of both sides joined by (owner, op): the left ones in order, then what only the right has."""
    joined = join_by_place(owners, left_owner, left_ops, right_owner, right_ops)
    if joined is None:
        rows, partners = outer_join(left_owner, left_ops, right_owner, right_ops)
        joined = rows.astype(np.int32), partners.astype(np.int32)
    return joined


def join_by_place(
    owners: int,
    post_owner: Index,
    post_ops: npt.NDArray[Any],
    end_owner: Index,
    end_ops: npt.NDArray[Any],
) -> tuple[Index, Index] | None:
    """Rows of posts and ends joined by (owner, op), -1 for no partner; unmatched ends come last.

    None if the numbers are no addresses: one stands twice, or they are far too large, as in a damaged
    trace.
    """
    largest = max(int(post_ops.max(initial=0)), int(end_ops.max(initial=0)))
    rows = len(post_ops) + len(end_ops)
    if largest >= 1 << 40:
        return None
    starts = op_starts(owners, post_owner, post_ops, end_owner, end_ops, largest, rows)
    if starts is None:
        return None
    found = loops.join(starts, (post_owner, post_ops), (end_owner, end_ops))
    if found is None:
        found = join_places(starts, (post_owner, post_ops), (end_owner, end_ops))
    if found is None or isinstance(found, bool):
        return None
    partner, alone = found
    posts = np.arange(len(post_ops), dtype=np.int32)
    if not len(alone):
        return posts, partner
    return (
        np.concatenate([posts, np.full(len(alone), -1, np.int32)]),
        np.concatenate([partner, alone]),
    )


def join_places(
    starts: npt.NDArray[np.int64],
    posts: tuple[Index, npt.NDArray[Any]],
    ends: tuple[Index, npt.NDArray[Any]],
) -> tuple[Index, Index] | None:
    """`loops.join` without the library; None if a place is taken twice."""
    (post_owner, post_ops), (end_owner, end_ops) = posts, ends
    post_place = starts[post_owner] + post_ops.astype(np.int64)
    end_place = starts[end_owner] + end_ops.astype(np.int64)
    end_at = np.full(int(starts[-1]), -1, np.int32)
    numbers = np.arange(len(end_ops), dtype=np.int32)
    end_at[end_place] = numbers
    if not np.array_equal(end_at[end_place], numbers):
        return None
    partner: Index = end_at[post_place]
    # A post takes its end out of the table: what remains has no post; who comes second, finds none.
    taken = np.full(len(end_at), False)
    taken[post_place] = True
    if int(np.count_nonzero(taken)) != len(post_ops):
        return None
    return partner, np.flatnonzero(~taken[end_place]).astype(np.int32)


def op_starts(
    owners: int,
    post_owner: Index,
    post_ops: npt.NDArray[Any],
    end_owner: Index,
    end_ops: npt.NDArray[Any],
    largest: int,
    rows: int,
) -> npt.NDArray[np.int64] | None:
    """Where each owner's places begin (one more than owners), None if there would be too many."""
    most = 4 * rows + (1 << 16)
    if owners * (largest + 1) <= most:
        return np.arange(owners + 1, dtype=np.int64) * (largest + 1)
    room = np.zeros(owners, np.int64)
    for owner, ops in ((post_owner, post_ops), (end_owner, end_ops)):
        if not len(ops):
            continue
        groups = Groups(owner, owners)
        filled = np.flatnonzero(np.diff(groups.starts))
        tops = np.maximum.reduceat(ops[groups.order], groups.starts[filled])
        room[filled] = np.maximum(room[filled], tops.astype(np.int64) + 1)
    starts = np.concatenate([[0], np.cumsum(room)])
    return starts if int(starts[-1]) <= most else None


def outer_join(
    left_sessions: npt.NDArray[Any],
    left_ops: npt.NDArray[Any],
    right_sessions: npt.NDArray[Any],
    right_ops: npt.NDArray[Any],
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Rows of both sides joined by (session, op), the left ones in order; -1 stands for no partner.

    Should a key stand several times on a side, its first rows join and so on, so nothing gets lost.
    """
    left_keys, right_keys = dense_keys(left_sessions, left_ops, right_sessions, right_ops)
    left_order = np.argsort(left_keys, kind="stable")
    right_order = np.argsort(right_keys, kind="stable")
    left_sorted, right_sorted = left_keys[left_order], right_keys[right_order]
    # The n-th row of a key on one side finds the n-th on the other.
    rank = np.arange(len(left_sorted)) - np.searchsorted(left_sorted, left_sorted)
    place = np.searchsorted(right_sorted, left_sorted) + rank
    inside = place < len(right_sorted)
    found = np.zeros(len(left_sorted), bool)
    found[inside] = right_sorted[place[inside]] == left_sorted[inside]
    partner = np.full(len(left_sorted), -1, np.int64)
    partner[left_order[found]] = right_order[place[found]]
    alone = np.ones(len(right_sorted), bool)
    alone[partner[partner >= 0]] = False
    rest = np.flatnonzero(alone)
    return (
        np.concatenate([np.arange(len(left_sorted)), np.full(len(rest), -1, np.int64)]),
        np.concatenate([partner, rest]),
    )


def dense_keys(
    left_sessions: npt.NDArray[Any],
    left_ops: npt.NDArray[Any],
    right_sessions: npt.NDArray[Any],
    right_ops: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(session, op) pairs of both sides as integers that are equal exactly if the pairs are."""
    sessions = np.unique(np.concatenate([left_sessions, right_sessions]), return_inverse=True)[1]
    ops, op = np.unique(np.concatenate([left_ops, right_ops]), return_inverse=True)
    keys = sessions.astype(np.int64) * max(len(ops), 1) + op
    return keys[: len(left_ops)], keys[len(left_ops) :]


@dataclass(frozen=True)
class Pairing:
    """How many operations of one process and kind found their partner.

    paired               post and end are both there (abandoned ones included)
    abandoned            of these, still posted when their endpoint was closed
    posts_without_end    posted, and no end in the trace: lost, in flight when the trace ended, or
                         the process was killed
    ends_without_post    the end is there but not the post: lost, or posted before the trace began
    deferred_for_ever    deferred by the provider, and neither posted nor ended later
    """

    instance: int
    kind: int
    paired: int
    abandoned: int
    posts_without_end: int
    ends_without_post: int
    deferred_for_ever: int


def build_pairing(operations: Operations, deferred: Table) -> list[Pairing]:
    """The pairing of each process and kind of operation, in that order.

    `deferred`: the op_defer events of operations that were never posted.
    """
    keys, kinds = operations.keys, 256
    # A cell an owner and kind; then owners of one process are added up.
    cell = operations.owner.astype(np.int32) * np.int32(kinds) + operations.kind
    places = max(len(keys), 1) * kinds
    posted, ended = operations.posted, operations.ended

    def count(mask: Mask | None) -> npt.NDArray[np.int64]:
        chosen = cell if mask is None else cell[mask]
        return np.bincount(chosen, minlength=places).reshape(-1, kinds)

    every = count(None)
    open_ended = count(posted & ~ended) if not bool(ended.all()) else np.zeros_like(every)
    alone = count(~posted) if not bool(posted.all()) else np.zeros_like(every)
    left = count(posted & ended & ~operations.completed)
    table: dict[tuple[int, int], list[int]] = {}
    for owner, kind in zip(*(place.tolist() for place in np.nonzero(every))):
        row = table.setdefault((int(keys[owner]) >> 32, kind), [0] * 5)
        whole, open_, without, gone = (
            int(column[owner, kind]) for column in (every, open_ended, alone, left)
        )
        for column, value in enumerate((whole - open_ - without, gone, open_, without)):
            row[column] += value
    for key, kind in zip(session_keys(deferred).tolist(), deferred["kind"].tolist()):
        table.setdefault((key >> 32, kind), [0] * 5)[4] += 1
    return [Pairing(instance, kind, *row) for (instance, kind), row in sorted(table.items())]


def never_posted(operations: Operations) -> Table:
    """The op_defer events whose operation the trace does not mention again."""
    deferred, owner = operations.events.deferred, operations.events.defer_owner
    if not len(deferred):
        return deferred
    # Few are deferred: only operations with the number of a deferred one are looked at.
    ops = operations.op
    largest = np.uint64(min(int(deferred["op"].max()), int(ops.max(initial=0))))
    wanted = np.zeros(min(int(largest), 4 * len(ops) + (1 << 16)) + 2, bool)
    last = np.uint64(len(wanted) - 1)  # the place of all numbers that are larger
    wanted[np.minimum(deferred["op"], last)] = True
    alike = np.flatnonzero(wanted[np.minimum(ops, last)])
    owners = len(operations.keys)
    partner = join(owners, owner, deferred["op"], operations.owner[alike], ops[alike])[1]
    return deferred.rows(np.flatnonzero(partner[: len(deferred)] < 0))
