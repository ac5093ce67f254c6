# SPDX-License-Identifier: BSD-3-Clause
"""Operations: each post joined with its completion, or with the word that it was abandoned.

The join is by (process instance, session, op), so order, reused contexts and lost events in between do
not matter. What has no partner stays, open-ended, and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model.keys import session_keys
from fabtrace.tables import Table, Tables

Mask = npt.NDArray[Any]  # of bool

UNKNOWN_NS = np.iinfo(np.int64).min  # a time that the trace does not hold


class End(IntEnum):
    """How the trace says that an operation ended."""

    NOT_SEEN = 0
    COMPLETED = 1
    ABANDONED = 2


@dataclass(frozen=True)
class Operations:
    """Columns with a row an operation, in order of their begin (their end where that is unknown).

    begin_ns      when the posting call began, UNKNOWN_NS if no op_post is in the trace
    end_ns        when its completion was read or it was abandoned, UNKNOWN_NS if neither is there
    end, status   End and the completion's status code
    len_bytes     of the message or payload; of the completion where there is one
    payload_bytes payload that it accounts for, as completed, else as posted
    earlier       operations posted earlier and still pending when it completed
    """

    session: npt.NDArray[np.int64]
    op: npt.NDArray[np.uint64]
    kind: npt.NDArray[np.uint8]
    begin_ns: npt.NDArray[np.int64]
    call_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]
    end: npt.NDArray[np.uint8]
    status: npt.NDArray[np.uint8]
    len_bytes: npt.NDArray[np.int64]
    payload_bytes: npt.NDArray[np.int64]
    earlier: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.op)

    def rows(self, selection: Any) -> Operations:
        """The rows that a mask or index array selects."""
        return Operations(**{f.name: getattr(self, f.name)[selection] for f in fields(self)})

    @property
    def posted(self) -> Mask:
        """Whether the post is in the trace."""
        return np.not_equal(self.begin_ns, UNKNOWN_NS)

    @property
    def ended(self) -> Mask:
        """Whether the completion, or the word that it was abandoned, is in the trace."""
        return np.not_equal(self.end, End.NOT_SEEN)

    @property
    def succeeded(self) -> Mask:
        """Whether it completed without error and both of its times are known."""
        ok = catalogue.load().code("status", "ok")
        completed = np.equal(self.end, End.COMPLETED)
        mask: Mask = self.posted & completed & (self.status == ok)
        return mask

    @property
    def latency_ns(self) -> npt.NDArray[np.int64]:
        """From the begin of the posting call to the completion; only where both are known."""
        return self.end_ns - self.begin_ns


def build_operations(tables: Tables) -> Operations:
    """All operations of a run."""
    posts, done, left = tables["op_post"], tables["op_complete"], tables["op_abandon"]
    end_sessions = np.concatenate([session_keys(done), session_keys(left)])
    end_ops = np.concatenate([done["op"], left["op"]])
    post_row, end_row = outer_join(session_keys(posts), posts["op"], end_sessions, end_ops)

    def ends(name: str, missing: int, dtype: Any = np.int64) -> npt.NDArray[Any]:
        """A column of op_complete, with `missing` for abandoned operations."""
        filler = np.full(len(left), missing, dtype)
        return np.concatenate([done[name].astype(dtype), filler])

    def from_post(column: npt.NDArray[Any], missing: int) -> npt.NDArray[Any]:
        return pick(column, post_row, missing)

    def from_end(column: npt.NDArray[Any], missing: int) -> npt.NDArray[Any]:
        return pick(column, end_row, missing)

    how = np.repeat(np.array([End.COMPLETED, End.ABANDONED], np.uint8), [len(done), len(left)])
    completed = from_end(how, End.NOT_SEEN) == End.COMPLETED
    has_post = post_row >= 0
    call_ns = posts["call_ns"].astype(np.int64)
    kinds = np.concatenate([done["kind"], left["kind"]])
    operations = Operations(
        session=np.where(has_post, from_post(session_keys(posts), 0), from_end(end_sessions, 0)),
        op=np.where(has_post, from_post(posts["op"], 0), from_end(end_ops, 0)),
        kind=np.where(has_post, from_post(posts["kind"], 0), from_end(kinds, 0)),
        begin_ns=from_post(posts.times - call_ns, UNKNOWN_NS),
        call_ns=from_post(call_ns, 0),
        end_ns=from_end(np.concatenate([done.times, left.times]), UNKNOWN_NS),
        end=from_end(how, End.NOT_SEEN),
        status=from_end(ends("status", 0, np.uint8), 0),
        len_bytes=np.where(
            completed,
            from_end(ends("len_bytes", 0), 0),
            from_post(posts["len_bytes"].astype(np.int64), 0),
        ),
        payload_bytes=np.where(
            completed,
            from_end(ends("payload_bytes", 0), 0),
            from_post(posts["payload_bytes"].astype(np.int64), 0),
        ),
        earlier=from_end(ends("earlier_pending", 0), 0),
    )
    known = np.where(operations.posted, operations.begin_ns, operations.end_ns)
    return operations.rows(np.argsort(known, kind="stable"))


def pick(column: npt.NDArray[Any], rows: npt.NDArray[np.int64], missing: int) -> npt.NDArray[Any]:
    """column[rows], with `missing` where a row is -1."""
    if not len(column):
        return np.full(len(rows), missing, column.dtype)
    return np.where(rows >= 0, column[rows], np.array(missing, column.dtype))


def outer_join(
    left_sessions: npt.NDArray[Any],
    left_ops: npt.NDArray[Any],
    right_sessions: npt.NDArray[Any],
    right_ops: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows of both sides joined by (session, op); -1 stands for no partner.

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
    partner[found] = right_order[place[found]]
    alone = np.ones(len(right_sorted), bool)
    alone[partner[found]] = False
    rest = np.flatnonzero(alone)
    return (
        np.concatenate([left_order, np.full(len(rest), -1, np.int64)]),
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


def build_pairing(operations: Operations, tables: Tables) -> list[Pairing]:
    """The pairing of each process and kind of operation, in that order."""
    deferred = never_posted(operations, tables["op_defer"])
    instance = np.concatenate([operations.session, session_keys(deferred)]) >> 32
    kind = np.concatenate([operations.kind, deferred["kind"]])
    both = operations.posted & operations.ended
    columns = [
        both,
        both & (operations.end == End.ABANDONED),
        operations.posted & ~operations.ended,
        ~operations.posted,
    ]
    none = np.zeros(len(deferred), bool)
    masks = [np.concatenate([column, none]) for column in columns]
    masks.append(np.concatenate([np.zeros(len(operations), bool), ~none]))
    # One number for both: np.unique over two rows takes ten times as long.
    groups, group = np.unique((instance << 8) | kind, return_inverse=True)
    numbers = [np.bincount(group[mask], minlength=len(groups)) for mask in masks]
    return [
        Pairing(key >> 8, key & 0xFF, *(int(column[row]) for column in numbers))
        for row, key in enumerate(groups.tolist())
    ]


def never_posted(operations: Operations, deferred: Table) -> Table:
    """The op_defer events whose operation the trace does not mention again."""
    mine, partner = outer_join(
        session_keys(deferred), deferred["op"], operations.session, operations.op
    )
    return deferred.rows(np.sort(mine[(mine >= 0) & (partner < 0)]))
