# SPDX-License-Identifier: BSD-3-Clause
"""Accounts of sessions and workers add up to their wall time, whole or in part, and name the cause."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from fabtrace.model import Run, build
from fabtrace.model.accounts import CATEGORIES, OFF_CPU, PARTS, Accounts, build_accounts
from fabtrace.model.counters import growth
from fabtrace.model.verdict import NORMAL, find
from fabtrace.tables import make_table
from synthetic import GET, PUT, Trace

MS = 1_000_000


def accounts_of(run: Run, begin_ns: int | None = None, end_ns: int | None = None) -> Accounts:
    begin = run.begin_ns if begin_ns is None else begin_ns
    end = run.end_ns if end_ns is None else end_ns
    return build_accounts(run.tables, run.sessions, run.workers, begin, end)


def account(
    trace: Trace, instance: int, session: int, begin: int, parts: Mapping[tuple[str, str], int],
    steps: int = 1,
) -> int:  # fmt: skip
    """A session that lives as long as its parts take, written in `steps` windows; when it ends."""
    whole = sum(parts.values())
    trace.add("session_open", begin, instance, session=session, cause="start")
    states = dict.fromkeys(state for state, _ in parts)
    for step in range(1, steps + 1):
        for state in states:
            fields = {
                f"{part}_ns": ns * step // steps for (of, part), ns in parts.items() if of == state
            }
            at = begin + whole * step // steps
            trace.add("session_time", at, instance, session=session, state=state, **fields)
    trace.add("session_close", begin + whole, instance, session=session, payload_bytes=1000)
    return begin + whole


def worker_load(trace: Trace, time: int, instance: int = PUT, **fields: int) -> None:
    trace.add("worker", 0, instance, worker=0, tid=7, pinned_cpu=-1)
    trace.add("load", time, instance, worker=0, **fields)


def test_an_account_adds_up() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    parts = {
        ("setup", "own"): 10 * MS, ("peer", "polling"): 5 * MS, ("memory", "polling"): 20 * MS,
        ("memory", "others"): 7 * MS, ("provider", "asleep"): 30 * MS, ("deferred", "own"): 3 * MS,
        ("provider", "off_cpu"): 4 * MS, ("payload", "own"): 6 * MS, ("registration", "own"): 2 * MS,
        ("post", "own"): 8 * MS, ("service", "own"): 1 * MS, ("drain", "polling"): 4 * MS,
    }  # fmt: skip
    account(trace, PUT, 0, 1000, parts)
    (found,) = accounts_of(build(trace.tables())).sessions
    assert found.wall_ns == 100 * MS and found.unattributed_ns == 0
    assert {name: round(ns / MS) for name, ns in found.flat_ns().items()} == {
        "set_up": 15, "peer_memory": 20, "peer_writes": 0, "provider": 30, "deferred": 3, "payload": 6,
        "registration": 2, "posting": 8, "protocol": 1, "draining": 4, "worker_busy": 7,
        "worker_off_cpu": 4, "unattributed": 0,
    }  # fmt: skip


def test_get_waits_for_writes_where_put_shakes_hands() -> None:
    trace = Trace()
    for instance, role in ((GET, "get"), (PUT, "put")):
        trace.process(instance, role)
        account(trace, instance, 0, 0, {("peer", "polling"): 50 * MS})
    get, put = accounts_of(build(trace.tables())).sessions
    assert get.share("peer_writes") == 1.0 and put.share("set_up") == 1.0


def test_what_is_missing_is_said() -> None:
    """An account that lacks a state (its event was lost) leaves that time unattributed."""
    trace = Trace()
    trace.process(PUT, "put")
    account(trace, PUT, 0, 0, {("memory", "polling"): 60 * MS, ("provider", "polling"): 40 * MS})
    trace.drop("session_time", 1)
    (found,) = accounts_of(build(trace.tables())).sessions
    assert found.unattributed_ns == 40 * MS


def test_preemption_is_taken_from_waking_time() -> None:
    """Half of the waking time has no CPU time: half of each waking part moves, sleep stays."""
    trace = Trace()
    trace.process(PUT, "put")
    parts = {
        ("memory", "polling"): 40 * MS, ("memory", "asleep"): 20 * MS, ("service", "own"): 40 * MS
    }  # fmt: skip
    end = account(trace, PUT, 0, 0, parts)
    worker_load(
        trace, end, busy_ns=40 * MS, idle_ns=40 * MS, asleep_ns=20 * MS, cpu_time_ns=40 * MS,
        serving_ns=40 * MS,
    )  # fmt: skip
    accounts = accounts_of(build(trace.tables()))
    (session,), (worker,) = accounts.sessions, accounts.workers
    assert session.preempted == 0.5
    assert session.share(parts=[OFF_CPU]) == 0.4 and session.share("protocol", [0]) == 0.2
    assert session.flat_ns()["peer_memory"] == 40 * MS
    assert session.unattributed_ns == 0
    assert (worker.serving_ns, worker.off_cpu_ns, worker.asleep_ns) == (20 * MS, 40 * MS, 20 * MS)
    whole = worker.serving_ns + worker.completions_ns + worker.polling_ns
    assert whole + worker.asleep_ns + worker.off_cpu_ns == worker.wall_ns == 100 * MS
    assert worker.work_ns == {"protocol": 20 * MS}


def test_given_away_time_is_not_counted_twice() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    end = account(
        trace, PUT, 0, 0, {("memory", "off_cpu"): 60 * MS, ("memory", "polling"): 40 * MS}
    )
    worker_load(trace, end, idle_ns=100 * MS, off_cpu_ns=60 * MS, cpu_time_ns=40 * MS)
    accounts = accounts_of(build(trace.tables()))
    assert accounts.sessions[0].preempted == 0.0
    assert accounts.sessions[0].share(parts=[OFF_CPU]) == 0.6
    assert accounts.workers[0].off_cpu_ns == 60 * MS


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_a_run_add_up_to_the_whole(seed: int) -> None:
    """Cut anywhere: the accounts before and after the cut are the account of the whole."""
    chance = np.random.default_rng(seed)
    trace = Trace()
    trace.process(PUT, "put")
    states = ("setup", "memory", "provider", "service", "drain")
    for session in range(4):
        parts = {
            (str(chance.choice(states)), str(chance.choice(PARTS))[:-3]): int(
                chance.integers(1, 300 * MS)
            )
            for _ in range(6)
        }
        begin = int(chance.integers(0, 50 * MS))
        account(trace, PUT, session, begin, parts, steps=int(chance.integers(1, 20)))
    run = build(trace.tables())
    cut = int(chance.integers(run.begin_ns + 1, run.end_ns))
    whole = {a.session.key: a.parts_ns for a in accounts_of(run).sessions}
    added = {key: np.zeros_like(parts) for key, parts in whole.items()}
    for part in (accounts_of(run, end_ns=cut), accounts_of(run, begin_ns=cut)):
        for found in part.sessions:
            added[found.session.key] += found.parts_ns
            assert np.all(found.parts_ns >= -1e-6)
    for key, matrix in whole.items():
        assert np.allclose(added[key], matrix, atol=1.0)


def test_counters_grow_evenly_but_not_before_their_window() -> None:
    table = make_table(
        "session_count",
        {
            "timestamp_ns": [1000 * MS, 2000 * MS],
            "writer": [1, 1],
            "session": [0, 0],
            "payload_bytes": [100, 300],
        },
    )
    index, born = np.zeros(2, np.int32), np.zeros(1, np.int64)

    def grown(begin_ms: int, end_ms: int) -> float:
        span = (begin_ms * MS, end_ms * MS)
        return float(growth(table, index, 1, ("payload_bytes",), span, born)[0, 0])

    assert grown(0, 5000) == 300
    assert grown(0, 900) == 0 and grown(0, 950) == 50 and grown(0, 1000) == 100
    assert grown(1000, 1900) == 0 and grown(1900, 1950) == 100 and grown(1950, 3000) == 100


CAUSES: dict[str, Mapping[tuple[str, str], int]] = {
    "off_cpu": {("memory", "off_cpu"): 60 * MS, ("memory", "polling"): 40 * MS},
    "worker_busy": {("provider", "others"): 50 * MS, ("provider", "polling"): 50 * MS},
    "deferred": {("deferred", "own"): 40 * MS, ("memory", "polling"): 60 * MS},
    "registration": {("registration", "own"): 8 * MS, ("memory", "polling"): 92 * MS},
    "payload": {("payload", "own"): 60 * MS, ("provider", "polling"): 40 * MS},
    "posting": {("post", "own"): 70 * MS, ("provider", "polling"): 30 * MS},
    "memory": {("memory", "polling"): 90 * MS, ("post", "own"): 10 * MS},
    "provider": {("provider", "polling"): 90 * MS, ("post", "own"): 10 * MS},
    "set_up": {("setup", "own"): 90 * MS, ("memory", "polling"): 10 * MS},
}  # fmt: skip


@pytest.mark.parametrize("cause", NORMAL)
def test_each_cause_is_named_first(cause: str) -> None:
    trace = Trace()
    trace.process(PUT, "put")
    account(trace, PUT, 0, 0, CAUSES[cause])
    run = build(trace.tables())
    findings = find(run, accounts_of(run))
    assert findings[0].cause == cause and findings[0].stands_out
    assert findings[0].process == "put" and "put" in findings[0].text and findings[0].advice
    assert [f.score for f in findings] == sorted((f.score for f in findings), reverse=True)


def test_memory_is_not_to_blame_for_a_get_that_does_not_run() -> None:
    """put lacks memory because get's worker is off its processor: that comes first."""
    trace = Trace()
    for instance, role, local, peer in ((GET, "get", "g", "p"), (PUT, "put", "p", "g")):
        trace.process(instance, role)
        for kind, address in (("local", local), ("peer", peer)):
            trace.add("session_address", 1, instance, session=0, address_kind=kind, address=address)
    account(trace, GET, 0, 0, {("peer", "off_cpu"): 70 * MS, ("peer", "polling"): 30 * MS})
    account(trace, PUT, 0, 0, {("memory", "polling"): 95 * MS, ("post", "own"): 5 * MS})
    run = build(trace.tables())
    findings = find(run, accounts_of(run))
    assert (findings[0].cause, findings[0].process) == ("off_cpu", "get")
    memory = next(f for f in findings if f.cause == "memory")
    assert memory.share == pytest.approx(0.95 * 0.3)


def test_without_accounts_there_is_nothing_to_say() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    trace.add("session_open", 1, PUT, session=0)
    run = build(trace.tables())
    accounts = accounts_of(run)
    assert accounts.sessions == [] and find(run, accounts) == []
    assert len(CATEGORIES) == 10


def test_findings_speak_of_wall_time_as_the_tables_do() -> None:
    """
    Description: a worker was off its processor for half of the time, and its sessions waited 40 % for
    writes. The text says so, with the share of the time that the worker ran, by which it is ranked.
    """
    trace = Trace()
    trace.process(PUT, "put")
    parts = {
        ("provider", "polling"): 40 * MS, ("provider", "off_cpu"): 50 * MS, ("post", "own"): 10 * MS
    }  # fmt: skip
    end = account(trace, PUT, 0, 0, parts)
    worker_load(
        trace, end, busy_ns=30 * MS, idle_ns=70 * MS, off_cpu_ns=50 * MS, serving_ns=10 * MS,
        cpu_time_ns=50 * MS,
    )  # fmt: skip
    run = build(trace.tables())
    accounts = accounts_of(run)
    found = {finding.cause: finding for finding in find(run, accounts)}
    shares = {name: ns / 1e8 for name, ns in accounts.sessions[0].flat_ns().items()}
    for cause, category in (
        ("provider", "provider"),
        ("posting", "posting"),
        ("off_cpu", "worker_off_cpu"),
    ):
        assert found[cause].share == pytest.approx(shares[category]), cause
    assert found["provider"].running_share == pytest.approx(0.8)
    assert found["provider"].score == pytest.approx(0.8 / NORMAL["provider"])
    assert "waits 40 % (80 % of the time that its workers run) for" in found["provider"].text


def test_utilisation_is_the_same_everywhere() -> None:
    """The report's, and that of a session which waits for its worker."""
    trace = Trace()
    trace.process(PUT, "put")
    end = account(trace, PUT, 0, 0, {("memory", "others"): 60 * MS, ("post", "own"): 40 * MS})
    worker_load(
        trace, end, busy_ns=75 * MS, idle_ns=25 * MS, serving_ns=50 * MS, cpu_time_ns=60 * MS
    )
    run = build(trace.tables())
    (busy,) = [f for f in find(run, accounts_of(run)) if f.cause == "worker_busy"]
    assert run.workers[0].utilisation == 0.75 and "at 75 % utilisation" in busy.text
