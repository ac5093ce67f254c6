# SPDX-License-Identifier: BSD-3-Clause
"""A part of a run: some sessions and workers, between two times.

Operations belong to the part if their post (or what is known of them) is in it. Counters grow evenly
between two `session_count` events, and so do those of `load`: windows of 100 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from fabtrace.model.counters import growth
from fabtrace.model.keys import NO_SESSION, session_index, session_keys, worker_keys
from fabtrace.model.latency import build_latency
from fabtrace.model.operations import Operations, build_pairing
from fabtrace.model.processes import Process
from fabtrace.model.run import Run
from fabtrace.model.sessions import COUNTERS, Session
from fabtrace.model.workers import LOAD_COUNTERS, Worker, born_ns
from fabtrace.tables import Table


@dataclass(frozen=True)
class Part:
    """What to keep. `listening`: the processes (instances) whose listening endpoints' operations, too."""

    begin_ns: int
    end_ns: int
    sessions: list[Session]
    workers: list[Worker]
    listening: frozenset[int]


def narrow(run: Run, part: Part) -> Run:
    """The part of a run."""
    kept = {session.process.instance for session in part.sessions} | part.listening
    kept |= {worker.process.instance for worker in part.workers}
    processes = [process for process in run.processes if keeps(process, kept, part)]
    whole = all(
        part.begin_ns <= process.begin_ns and process.last_ns <= part.end_ns
        for process in run.processes
        if process.instance in kept
    )
    hosts = {process.hostname or "?" for process in processes}
    clocks = hosts | {f"{process.hostname or '?'}/{process.label}" for process in processes}
    operations = narrow_operations(run.operations, part, whole)
    sessions, workers = part.sessions, part.workers
    if not whole:
        grown = grown_sessions(run, part)
        sessions = relink([cut_session(s, part, grown) for s in sessions], sessions)
        workers = cut_workers(run.tables["load"], workers, part)
    return replace(
        run,
        begin_ns=part.begin_ns,
        end_ns=part.end_ns,
        processes=processes,
        sessions=sessions,
        workers=workers,
        operations=operations,
        latency=build_latency(operations),
        pairing=build_pairing(operations, narrow_deferred(run.never_posted, part)),
        states=run.states if whole else run.states.within(part.begin_ns, part.end_ns),
        phases=run.phases if whole else run.phases.within(part.begin_ns, part.end_ns),
        clocks=[link for link in run.clocks if {link.clock, link.against} <= clocks],
        narrowed=True,
    )


def keeps(process: Process, kept: frozenset[int] | set[int], part: Part) -> bool:
    """Whether a process is in the part."""
    alive = process.begin_ns <= part.end_ns and process.last_ns >= part.begin_ns
    return alive and process.instance in kept


def narrow_operations(operations: Operations, part: Part, whole: bool) -> Operations:
    """The operations of the part's sessions and times."""
    wanted = np.full(len(operations.keys), False)
    for session in part.sessions:
        place = int(np.searchsorted(operations.keys, session.key))
        if place < len(wanted) and operations.keys[place] == session.key:
            wanted[place] = True
    listening = (operations.keys & NO_SESSION) == NO_SESSION
    wanted |= listening & np.isin(operations.keys >> 32, list(part.listening))
    mask = wanted[operations.owner] if len(operations) else np.zeros(0, bool)
    if not whole:
        known = np.where(operations.posted, operations.begin_ns, operations.end_ns)
        mask &= (known >= part.begin_ns) & (known <= part.end_ns)
    return operations.rows(np.flatnonzero(mask))


def narrow_deferred(deferred: Table, part: Part) -> Table:
    """The events of operations that were never posted, of the part's sessions and times."""
    mine = np.isin(session_keys(deferred), [session.key for session in part.sessions])
    inside = (deferred.times >= part.begin_ns) & (deferred.times <= part.end_ns)
    return deferred.rows(np.flatnonzero(mine & inside))


def grown_sessions(run: Run, part: Part) -> Mapping[int, Mapping[str, int]]:
    """By how much the counters of each session grew in the part."""
    table = run.tables["session_count"]
    keys, (owner,) = session_index(table)
    begins = {session.key: session.begin_ns for session in run.sessions}
    born = np.array([begins.get(key, run.begin_ns) for key in keys.tolist()], np.int64)
    span = (part.begin_ns, part.end_ns)
    grew = growth(table, owner, len(keys), COUNTERS, span, born)
    return {
        key: {name: round(value) for name, value in zip(COUNTERS, row)}
        for key, row in zip(keys.tolist(), grew.tolist())
    }


def cut_session(session: Session, part: Part, grown: Mapping[int, Mapping[str, int]]) -> Session:
    """A session with the counters and the time of the part only."""
    counters = dict(grown.get(session.key, {name: 0 for name in COUNTERS}))
    counters["credit_bytes"] = session.counters["credit_bytes"]  # no total
    elapsed = None
    if session.start_ns is not None and session.elapsed_ns is not None:
        begin = max(session.start_ns, part.begin_ns)
        elapsed = max(0, min(session.start_ns + session.elapsed_ns, part.end_ns) - begin)
    return replace(
        session, counters=counters, payload_bytes=counters["payload_bytes"], elapsed_ns=elapsed
    )


def relink(cut: list[Session], old: list[Session]) -> list[Session]:
    """Let the copies have copies for peers, where both are there."""
    copies = {id(before): after for before, after in zip(old, cut)}
    for before, after in zip(old, cut):
        if before.peer is not None:
            after.peer = copies.get(id(before.peer), before.peer)
    return cut


def cut_workers(load: Table, workers: list[Worker], part: Part) -> list[Worker]:
    """Workers with the times of the part only."""
    keys = worker_keys(load)
    found = []
    for worker in workers:
        key = (worker.process.instance << 32) | worker.number
        rows = load.rows(np.flatnonzero(keys == key))
        if not len(rows):
            found.append(worker)
            continue
        one, span = np.zeros(len(rows), np.int32), (part.begin_ns, part.end_ns)
        grew = growth(rows, one, 1, LOAD_COUNTERS, span, born_ns(rows))[0].tolist()
        found.append(replace(worker, **{n: round(v) for n, v in zip(LOAD_COUNTERS, grew)}))
    return found
