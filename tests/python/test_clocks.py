# SPDX-License-Identifier: BSD-3-Clause
"""Times of hosts whose clocks differ are set to one; those of one clock are left alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fabtrace.model import Run, build
from fabtrace.model.delays import build_delays
from fabtrace.model.loss import build_loss
from fabtrace.tables import Tables
from synthetic import GET, PUT, Trace

BASE = 1_700_000_000_000_000_000


def conversation(
    offset_ns: int, drift: float, hosts: tuple[str, str], messages: int = 300, seed: int = 0
) -> Tables:
    """A get and a put that talk for a second; put's clock is off by `offset_ns` and drifts."""
    chance = random.Random(seed)
    trace = Trace()

    def put_time(time: int) -> int:
        return time + offset_ns + round(drift * (time - BASE))

    for instance, role, host in ((GET, "get", hosts[0]), (PUT, "put", hosts[1])):
        at = BASE if instance == GET else put_time(BASE)
        trace.process(instance, role, time=at, hostname=host)
        local, peer = ("g", "p") if instance == GET else ("p", "g")
        for kind, address in (("local", local), ("peer", peer)):
            trace.add(
                "session_address", at, instance, session=0, address_kind=kind, address=address
            )
    arrival = BASE + 1000
    op = {GET: 0, PUT: 0}
    for number in range(messages):
        for sender, receiver, kind in ((GET, PUT, "vector"), (PUT, GET, "progress")):
            # Each answers what it received, a microsecond later; now and then it takes milliseconds.
            time = arrival + 1_000
            slow = chance.randrange(8_000_000) if chance.random() < 0.5 else 0
            arrival = time + 8_000 + round(chance.expovariate(1 / 30_000)) + slow
            clock = {GET: lambda t: t, PUT: put_time}
            for who, at, what in (
                (receiver, BASE + 500 + number, "rx post"),
                (sender, time, "tx post"),
                (receiver, arrival, "rx done"),
            ):
                if what == "rx done":
                    trace.add(
                        "op_complete", clock[who](at), who, session=0, op=10_000 + number,
                        kind=f"{kind}_rx", payload_bytes=10,
                    )  # fmt: skip
                    continue
                op[who] += 1
                is_rx = what == "rx post"
                trace.add(
                    "op_post", clock[who](at), who, session=0,
                    op=10_000 + number if is_rx else op[who],
                    kind=f"{kind}_rx" if is_rx else f"{kind}_tx", position=number,
                )  # fmt: skip
    return trace.tables()


def check_causality(run: Run) -> None:
    delays = build_delays(run)
    assert {d.kind for d in delays} == {"vector", "progress"}
    assert all(d.min_ns is not None and d.min_ns >= 0 for d in delays)


@pytest.mark.parametrize(
    "offset_ns, drift", [(3_000_000_000, 200e-6), (-3_000_000_000, -200e-6), (50_000, 0.0)]
)
def test_hosts_are_aligned(offset_ns: int, drift: float) -> None:
    run = build(conversation(offset_ns, drift, ("here", "there")))
    (link,) = run.clocks
    assert (link.clock, link.against, link.applied) == ("there", "here", True)
    assert link.skew is not None
    at = np.array([link.skew.first_ns, link.skew.last_ns])
    truth = offset_ns + np.rint(drift * (at - BASE))
    assert np.all(np.abs(link.skew.at(at) - truth) <= max(link.skew.bound_ns) + 3)
    assert max(link.skew.bound_ns) < 50_000
    check_causality(run)
    # Everything of put was moved, get was not, and rows are in time order.
    assert run.begin_ns >= BASE - 50_000 and run.end_ns < BASE + 2_000_000_000
    for table in run.tables.tables.values():
        assert np.all(np.diff(table.times) >= 0)


def test_no_clock_sync_leaves_times_alone() -> None:
    tables = conversation(3_000_000_000, 0.0, ("here", "there"))
    run = build(tables, align_clocks=False)
    assert run.tables is tables and run.clocks == []
    assert any((d.min_ns or 0) < 0 for d in build_delays(run))


def test_processes_of_a_host_share_its_clock() -> None:
    tables = conversation(0, 0.0, ("here", "here"))
    run = build(tables)
    assert run.tables is tables and run.clocks == []
    check_causality(run)


def test_processes_of_a_host_that_can_not_share_a_clock() -> None:
    """Containers may have one host name and clocks of their own: messages prove it."""
    run = build(conversation(-2_000_000, 0.0, ("here", "here")))
    (link,) = run.clocks
    assert (link.clock, link.against, link.applied) == ("here/put", "here", True)
    check_causality(run)


def test_loss_is_the_same_after_moving() -> None:
    tables = conversation(1_000_000_000, 100e-6, ("here", "there"))
    run = build(tables)
    raw = build_loss(tables, run.by_instance)
    assert raw.total == run.loss.total == 0


def test_a_late_event_is_not_taken_for_a_late_send() -> None:
    """A sender that lost its processor between call and event seems to send after the arrival."""
    trace = Trace()
    for instance, role, local, peer in ((GET, "get", "g", "p"), (PUT, "put", "p", "g")):
        trace.process(instance, role, hostname="here")
        for kind, address in (("local", local), ("peer", peer)):
            trace.add("session_address", 1, instance, session=0, address_kind=kind, address=address)
    trace.add("op_post", 10, PUT, session=0, op=1, kind="vector_rx", position=0)
    trace.add("op_post", 100, GET, session=0, op=1, kind="progress_rx", position=0)
    trace.add("op_post", 900_000, GET, session=0, op=2, kind="vector_tx", position=0, call_ns=50)
    trace.add("op_complete", 40_000, PUT, session=0, op=1, kind="vector_rx")
    run = build(trace.tables())
    assert run.clocks == []
    (delays,) = build_delays(run)
    assert delays.min_ns == 40_000 - 100
