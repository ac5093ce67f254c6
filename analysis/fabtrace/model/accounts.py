# SPDX-License-Identifier: BSD-3-Clause
"""Accounts: what the wall time of each session and each worker went to.

A session's account comes from the engine (`session_time`): for each state the time in which its worker
served it, polled, served others, slept, or had given its processor away. These add up to its wall time.

What the engine cannot see is that its thread was preempted. A worker's `load` events have its CPU time, so

    off the processor = wall - asleep - CPU time
                      = given away (seen by the engine) + preempted (the rest)

and the preempted part is taken, in proportion, from all that the worker seemed to do while it was awake:
whoever took the processor away did not look at what the thread was doing.

All counters are totals, written every 100 ms. Between two events they are taken to grow evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model.counters import growth
from fabtrace.model.keys import bounds, dense, session_index, worker_keys
from fabtrace.model.sessions import Session
from fabtrace.model.workers import Worker, born_ns
from fabtrace.tables import Table, Tables

PARTS = ("own_ns", "polling_ns", "others_ns", "asleep_ns", "off_cpu_ns")
OWN, POLLING, OTHERS, ASLEEP, OFF_CPU = range(len(PARTS))
AWAKE = [OWN, POLLING, OTHERS]

# Categories of a session's account and the states that make them up, by role.
HANDSHAKE, MEMORY, PEER, PROVIDER = "set_up", "peer_memory", "peer_writes", "provider"
CATEGORIES: dict[str, tuple[str, ...]] = {
    HANDSHAKE: ("setup",),
    MEMORY: ("memory",),
    PEER: ("peer",),
    PROVIDER: ("provider", "report"),
    "deferred": ("deferred",),
    "payload": ("payload",),
    "registration": ("registration",),
    "posting": ("post",),
    "protocol": ("service",),
    "draining": ("eof", "drain", "done"),
}

LONGEST_NS = 2.0**60  # 36 years

Matrix = npt.NDArray[np.float64]  # a row a category or state, a column a part of PARTS; ns


@dataclass(frozen=True)
class SessionAccount:
    """A session's time between two moments.

    wall_ns      from its first to its last moment in the account
    parts_ns     CATEGORIES x PARTS
    preempted    the share of its worker's waking time that was moved to `off_cpu`
    """

    session: Session
    begin_ns: int
    end_ns: int
    parts_ns: Matrix
    preempted: float

    @property
    def wall_ns(self) -> int:
        """All of its time."""
        return self.end_ns - self.begin_ns

    @property
    def unattributed_ns(self) -> float:
        """What the account does not explain; negative if it explains too much."""
        return self.wall_ns - float(self.parts_ns.sum())

    def share(self, category: str | None = None, parts: Sequence[int] = range(len(PARTS))) -> float:
        """The share of a category (of all without one), or of some parts of it, in the wall time."""
        rows = (
            self.parts_ns if category is None else self.parts_ns[[list(CATEGORIES).index(category)]]
        )
        return float(rows[:, list(parts)].sum()) / self.wall_ns if self.wall_ns else 0.0

    def flat_ns(self) -> dict[str, float]:
        """The account as a list that adds up to the wall time.

        A wait in which the worker served others or was off its processor counts as that; `asleep` is
        part of the wait, since a worker sleeps when it has nothing to do.
        """
        keep = [OWN, POLLING, ASLEEP]
        flat = {name: float(self.parts_ns[row, keep].sum()) for row, name in enumerate(CATEGORIES)}
        flat["worker_busy"] = float(self.parts_ns[:, OTHERS].sum())
        flat["worker_off_cpu"] = float(self.parts_ns[:, OFF_CPU].sum())
        flat["unattributed"] = self.unattributed_ns
        return flat


@dataclass(frozen=True)
class WorkerAccount:
    """A worker's time between two moments, in ns; the parts add up to wall_ns.

    serving      it served sessions                     (of which by what: `work_ns`)
    completions  it read completions that had come
    polling      it looked and found nothing
    asleep       it slept in epoll_pwait or backed off
    off_cpu      it had given its processor away, or was preempted
    """

    worker: Worker
    wall_ns: float
    serving_ns: float
    completions_ns: float
    polling_ns: float
    asleep_ns: float
    off_cpu_ns: float
    preempted: float
    switches: tuple[int, int]  # voluntary, involuntary
    work_ns: Mapping[str, float]


@dataclass(frozen=True)
class Accounts:
    """All accounts of a run; empty where the trace has none (an older engine)."""

    sessions: list[SessionAccount]
    workers: list[WorkerAccount]


def build_accounts(
    tables: Tables,
    sessions: Sequence[Session],
    workers: Sequence[Worker],
    begin_ns: int,
    end_ns: int,
) -> Accounts:
    """The accounts of some sessions and workers between two times."""
    made = [account_worker(tables["load"], worker, begin_ns, end_ns) for worker in workers]
    known = [account for account in made if account is not None]
    preempted = {account_key(account.worker): account.preempted for account in known}
    states = grown(tables["session_time"], begin_ns, end_ns)
    accounts = []
    for session in sessions:
        if session.key not in states:
            continue
        share = preempted.get((session.process.instance, session.worker), 0.0)
        since, until, matrix = states[session.key]
        # Its own events delimit its life; without them only the counters do.
        since = since if session.open_ns is None else session.open_ns
        until = until if session.close_ns is None else session.close_ns
        span = max(since, begin_ns), min(until, end_ns)
        if span[1] > span[0]:
            accounts.append(account_session(session, *span, matrix, share))
    return Accounts(accounts, [with_work(account, accounts) for account in known])


def account_key(worker: Worker) -> tuple[int, int | None]:
    """What a worker and its sessions have in common."""
    return worker.process.instance, worker.number


def grown(table: Table, begin_ns: int, end_ns: int) -> dict[int, tuple[int, int, Matrix]]:
    """By how much each session's counters grew between two times: by session key since when and until
    when its account runs, and states x PARTS in ns."""
    states = len(catalogue.load().enums["state"])
    keys, (owner,) = session_index(table)
    if not len(keys):
        return {}
    known = np.minimum(table["state"], states - 1).astype(np.int64)
    cells, cell = dense(owner.astype(np.int64) * states + known)
    _, last = bounds(owner, len(keys))
    total = np.zeros(len(keys) * states)
    newest = table.rows(bounds(cell, len(cells))[1])
    total[cells] = np.sum([newest[part].astype(np.float64) for part in PARTS], axis=0)
    until = table.times[last]
    # A damaged total may be larger than any time.
    lived = np.minimum(total.reshape(-1, states).sum(axis=1), LONGEST_NS)
    since = until - lived.astype(np.int64)
    whole = np.zeros((len(keys) * states, len(PARTS)))
    born = since[cells // states]
    whole[cells] = growth(table, cell, len(cells), PARTS, (begin_ns, end_ns), born)
    return {
        key: (int(since[place]), int(until[place]), whole[place * states : (place + 1) * states])
        for place, key in enumerate(keys.tolist())
    }


def account_session(
    session: Session, begin_ns: int, end_ns: int, states_ns: Matrix, preempted: float
) -> SessionAccount:
    """A session's account from its states."""
    labels = catalogue.load().enums["state"]
    adjusted = states_ns.copy()
    moved = adjusted[:, AWAKE] * preempted
    adjusted[:, AWAKE] -= moved
    adjusted[:, OFF_CPU] += moved.sum(axis=1)
    parts = np.zeros((len(CATEGORIES), len(PARTS)))
    for row, (category, states) in enumerate(CATEGORIES.items()):
        for state in states:
            # put waits for its peer only for the acknowledgement: that is the handshake.
            target = 0 if category == PEER and session.role == "put" else row
            parts[target] += adjusted[labels.index(state)]
    return SessionAccount(session, begin_ns, end_ns, parts, preempted)


def account_worker(load: Table, worker: Worker, begin_ns: int, end_ns: int) -> WorkerAccount | None:
    """A worker's account; None without load events."""
    key = (worker.process.instance << 32) | worker.number
    rows = load.rows(np.flatnonzero(worker_keys(load) == key))
    if not len(rows):
        return None
    names = (
        "busy_ns", "idle_ns", "asleep_ns", "serving_ns", "off_cpu_ns", "cpu_time_ns",
        "switches_voluntary", "switches_involuntary",
    )  # fmt: skip
    if not worker.process.started:  # what the first one counts was before the trace
        begin_ns = max(begin_ns, int(rows.times[0]))
    one = np.zeros(len(rows), np.int32)
    grew = growth(rows, one, 1, names, (begin_ns, end_ns), born_ns(rows))
    busy, idle, asleep, serving, given, cpu, voluntary, involuntary = grew[0].tolist()
    wall = busy + idle + asleep
    off_cpu = max(0.0, wall - asleep - cpu, given)
    awake = wall - asleep - given
    preempted = min(1.0, (off_cpu - given) / awake) if awake > 0 else 0.0
    keep = 1.0 - preempted
    serving = min(serving, busy)
    return WorkerAccount(
        worker=worker,
        wall_ns=wall,
        serving_ns=serving * keep,
        completions_ns=(busy - serving) * keep,
        polling_ns=max(0.0, idle - given) * keep,
        asleep_ns=asleep,
        off_cpu_ns=off_cpu,
        preempted=preempted,
        switches=(round(voluntary), round(involuntary)),
        work_ns={},
    )


def with_work(account: WorkerAccount, sessions: Sequence[SessionAccount]) -> WorkerAccount:
    """The account with what the serving was: categories of its sessions' own time."""
    key = account_key(account.worker)
    mine = [s for s in sessions if (s.session.process.instance, s.session.worker) == key]
    work = {
        category: sum(float(s.parts_ns[row, OWN]) for s in mine)
        for row, category in enumerate(CATEGORIES)
    }
    return replace(account, work_ns={category: ns for category, ns in work.items() if ns > 0})
