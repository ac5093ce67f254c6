# SPDX-License-Identifier: BSD-3-Clause
"""The sessions of each process, and which two of them are the ends of one.

A session's counters come from two sources: the last `session_count` event, which all levels record, and
the operations in the trace. Either can only be too small (counters are up to 100 ms old when a process
is killed; events can be lost, or be older than the recording), so the larger one is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fabtrace import catalogue
from fabtrace.model.keys import (
    NO_SESSION,
    Index,
    Keys,
    bounds,
    counts,
    last_rows,
    session_index,
    session_keys,
    split,
)
from fabtrace.model.operations import Operations
from fabtrace.model.processes import Process
from fabtrace.tables import Tables

OPEN = "open"  # the outcome of a session whose end is not in the trace

COUNTERS = (
    "payload_bytes",
    "reported_bytes",
    "credit_bytes",
    "ops_posted",
    "ops_completed",
    "writes",
    "fragments",
    "deferred",
    "out_of_order",
    "vectors",
    "progresses",
    "registrations",
    "registration_ns",
)

# Events that mention a session by its number.
SESSION_EVENTS = (
    "session_open",
    "session_phase",
    "session_start",
    "session_count",
    "session_close",
    "op_post",
    "op_complete",
    "session_state",
)


@dataclass
class Session:
    """One end of a session.

    open_ns     when its worker got it, None if that is not in the trace
    start_ns    when payload could flow (`session_start`), None if that is not in the trace
    close_ns    when it ended, None if that is not in the trace
    begin_ns, last_ns   its first and last event
    elapsed_ns  from start to the last payload byte; of an open session to its last counters; None
                if its start is not known either
    counters    of COUNTERS, from its start
    peer        the other end, if it is in the trace
    """

    process: Process
    number: int
    key: int
    worker: int | None
    peer_pid: int
    run_id: int
    workload: str
    total_bytes: int | None
    outcome: str
    reason: str
    payload_bytes: int
    elapsed_ns: int | None
    handshake_ns: int | None
    open_ns: int | None
    start_ns: int | None
    close_ns: int | None
    begin_ns: int
    last_ns: int
    counters: dict[str, int]
    errors: int
    addresses: dict[str, str] = field(default_factory=dict)
    peer: Session | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """How the views name it: process and number."""
        return f"{self.process.label}:{self.number}"

    @property
    def role(self) -> str:
        """get or put."""
        return self.process.role

    @property
    def mib_per_s(self) -> float | None:
        """Payload throughput in 2^20 bytes a second."""
        if not self.elapsed_ns:
            return None
        return self.payload_bytes / 2**20 / (self.elapsed_ns / 1e9)


@dataclass(frozen=True)
class Owners:
    """Whose a table's rows are: session keys, ascending, and each row's place among them."""

    keys: Keys
    index: Index


def find_owners(tables: Tables, operations: Operations) -> dict[str, Owners]:
    """Of each table that mentions sessions, once for all who need it."""
    events = operations.events
    found = {}
    for event in SESSION_EVENTS:
        if event == "op_post":
            found[event] = Owners(events.keys, events.post_owner)
        elif event == "op_complete":
            found[event] = Owners(events.keys, events.end_owner[: len(events.done)])
        else:
            keys, (index,) = session_index(tables[event])
            found[event] = Owners(keys, index)
    return found


def build_sessions(
    tables: Tables,
    processes: Mapping[int, Process],
    owners: Mapping[str, Owners],
) -> list[Session]:
    """All sessions that the trace mentions, by process and number, ends joined."""
    spans = session_spans(tables, owners)
    counted = count_operations(tables, owners["op_post"], owners["op_complete"])
    return assemble_sessions(tables, processes, spans, counted)


def assemble_sessions(
    tables: Tables,
    processes: Mapping[int, Process],
    spans: Mapping[int, tuple[int, int]],
    counted: Mapping[str, Mapping[int, int]],
) -> list[Session]:
    """All sessions, given the times of their first and last events and what their operations count."""
    lookups = Lookups(tables)
    order = {instance: place for place, instance in enumerate(processes)}
    keys = sorted(spans, key=lambda key: (order[split(key)[0]], split(key)[1]))
    sessions = [lookups.session(key, processes[split(key)[0]], spans[key], counted) for key in keys]
    join_ends(sessions)
    return sessions


def session_spans(tables: Tables, owners: Mapping[str, Owners]) -> dict[int, tuple[int, int]]:
    """Time of the first and the last event of each session."""
    spans: dict[int, tuple[int, int]] = {}
    for event, owned in owners.items():
        times = tables[event].times
        first, last = bounds(owned.index, len(owned.keys))
        for key, low, high in zip(owned.keys.tolist(), first.tolist(), last.tolist()):
            if split(key)[1] == NO_SESSION or low < 0:
                continue
            begin, end = int(times[low]), int(times[high])
            old = spans.get(key, (begin, end))
            spans[key] = (min(begin, old[0]), max(end, old[1]))
    return spans


def count_operations(tables: Tables, posts: Owners, ends: Owners) -> dict[str, dict[int, int]]:
    """What the operations in the trace say of the counters, by session. `posts`, `ends`: of op_post and
    op_complete."""
    known = catalogue.load()
    is_write = np.zeros(256, bool)
    is_write[[known.code("kind", kind) for kind in ("write", "fragment")]] = True
    # A buffer in k pieces was split k - 1 times: the last piece is what remained.
    pieces = tables["fragment"]
    piece_keys, (piece_owner,) = session_index(pieces)

    def count(keys: Keys, owner: Index) -> dict[int, int]:
        return dict(zip(keys.tolist(), np.bincount(owner, minlength=len(keys)).tolist()))

    return {
        "ops_posted": count(posts.keys, posts.index),
        "ops_completed": count(ends.keys, ends.index),
        "writes": count(posts.keys, posts.index[is_write[tables["op_post"]["kind"]]]),
        "out_of_order": count(ends.keys, ends.index[tables["op_complete"]["earlier_pending"] > 0]),
        "deferred": counts(session_keys(tables["op_defer"])),
        "fragments": count(piece_keys, piece_owner[pieces["last"] == 0]),
    }


def address_book(tables: Tables) -> dict[int, dict[str, str]]:
    """The addresses of each session, by its key and their kind."""
    known, table = catalogue.load(), tables["session_address"]
    # They are repeated every second: only the last one of a kind is looked at.
    cells = (session_keys(table) << 3) | table["address_kind"]
    newest = table.rows(np.array(sorted(last_rows(cells).values()), np.int64))
    book: dict[int, dict[str, str]] = {}
    for key, kind, address in zip(
        session_keys(newest).tolist(), newest["address_kind"].tolist(), newest["address"]
    ):
        book.setdefault(key, {})[known.label("address_kind", kind)] = address
    return book


class Lookups:
    """The rows of the descriptive events by session."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.catalogue = catalogue.load()
        self.last = {
            event: last_rows(session_keys(tables[event]))
            for event in ("session_open", "session_start", "session_count", "session_close")
        }
        opened = tables["session_open"]
        start = self.catalogue.code("cause", "start")
        self.opened = {
            key: time
            for key, time, cause in zip(
                session_keys(opened).tolist(), opened.times.tolist(), opened["cause"].tolist()
            )
            if cause == start
        }
        self.errors = counts(session_keys(tables["error"]))
        self.addresses = address_book(tables)

    def value(self, event: str, key: int, column: str) -> int | None:
        """A column of the last such event of a session; None if there is none."""
        row = self.last[event].get(key)
        return None if row is None else int(self.tables[event][column][row])

    def time(self, event: str, key: int) -> int | None:
        """When the last such event of a session was; None if there is none."""
        row = self.last[event].get(key)
        return None if row is None else int(self.tables[event].times[row])

    def session(
        self,
        key: int,
        process: Process,
        span: tuple[int, int],
        counted: Mapping[str, Mapping[int, int]],
    ) -> Session:
        """One session."""
        counters = {
            name: max(
                self.value("session_count", key, name) or 0, counted.get(name, {}).get(key, 0)
            )
            for name in COUNTERS
        }
        row = self.last["session_close"].get(key)
        closed = self.tables["session_close"]
        outcome, reason = OPEN, ""
        if row is not None:
            outcome = self.catalogue.label("outcome", int(closed["outcome"][row]))
            reason = str(closed["reason"][row])
        payload_bytes = self.value("session_close", key, "payload_bytes")
        workload = self.value("session_open", key, "workload")
        return Session(
            process=process,
            number=split(key)[1],
            key=key,
            worker=self.value("session_open", key, "worker"),
            peer_pid=self.value("session_open", key, "peer_pid") or 0,
            run_id=self.value("session_open", key, "run_id") or 0,
            workload="" if workload is None else self.catalogue.label("workload", workload),
            total_bytes=self.value("session_open", key, "total_bytes"),
            outcome=outcome,
            reason=reason,
            payload_bytes=counters["payload_bytes"] if payload_bytes is None else payload_bytes,
            elapsed_ns=self.elapsed(key),
            handshake_ns=self.value("session_start", key, "handshake_ns"),
            open_ns=self.opened.get(key),
            start_ns=self.time("session_start", key),
            close_ns=self.time("session_close", key),
            begin_ns=span[0],
            last_ns=span[1],
            counters=counters,
            errors=self.errors.get(key, 0),
            addresses=self.addresses.get(key, {}),
        )

    def elapsed(self, key: int) -> int | None:
        """Time in which the payload flowed; see Session."""
        elapsed = self.value("session_close", key, "elapsed_ns")
        if elapsed is not None:
            return elapsed
        start, last = self.time("session_start", key), self.time("session_count", key)
        return None if start is None or last is None else max(0, last - start)


def join_ends(sessions: list[Session]) -> None:
    """Let the two ends of each session know each other.

    They are those whose local and peer addresses are each other's, in the same run as far as both know
    theirs. An address can be used again later in the trace; then those that lived at the same time
    longest belong together. (Not only those that did at all: the clocks of two hosts may differ.)
    """
    by_addresses: dict[tuple[str, str], list[Session]] = {}
    for session in sessions:
        local, peer = session.addresses.get("local"), session.addresses.get("peer")
        if local and peer:
            by_addresses.setdefault((local, peer), []).append(session)
    for (local, peer), ends in by_addresses.items():
        pairs = [
            (one, other)
            for one in ends
            for other in by_addresses.get((peer, local), [])
            if one.process is not other.process and same_run(one.run_id, other.run_id)
        ]
        for one, other in sorted(pairs, key=lambda pair: -overlap_ns(*pair)):
            if one.peer is None and other.peer is None:
                one.peer, other.peer = other, one


def same_run(one: int, other: int) -> bool:
    """Whether two run ids may be the same: 0 is not known (an older peer, or no `session_open`)."""
    return one == other or 0 in (one, other)


def session_runs(tables: Tables) -> dict[int, int]:
    """The run id of each session, by its key; 0: not known."""
    table = tables["session_open"]
    rows = last_rows(session_keys(table))
    return {key: int(table["run_id"][row]) for key, row in rows.items()}


def overlap_ns(one: Session, other: Session) -> int:
    """How long two sessions lived at the same time; negative: the time between them."""
    return min(one.last_ns, other.last_ns) - max(one.begin_ns, other.begin_ns)


def state_begins(sessions: list[Session]) -> dict[int, int]:
    """From when on the trace knows of each session that was open before: its first event."""
    return {session.key: session.begin_ns for session in sessions if session.open_ns is None}


def state_ends(sessions: list[Session]) -> dict[int, int]:
    """Until when the last state of each session lasted."""
    return {
        session.key: session.last_ns if session.close_ns is None else session.close_ns
        for session in sessions
    }
