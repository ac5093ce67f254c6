# SPDX-License-Identifier: BSD-3-Clause
"""Workers: utilisation and load, also of traces that miss some of their events."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fabtrace.model import build
from fabtrace.model.series import busy_in_slices, make_edges
from synthetic import PUT, Trace


def load(trace: Trace, time: int, busy: int, idle: int, asleep: int, cpu: int = 0) -> None:
    trace.add(
        "load", time, PUT, worker=0, cpu=cpu, busy_ns=busy, idle_ns=idle, asleep_ns=asleep,
        average_fp8=384,
    )  # fmt: skip


def test_utilisation_is_the_busy_share_of_the_last_totals() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    load(trace, 100, 10, 80, 10)
    load(trace, 400, 100, 200, 100)
    (worker,) = build(trace.tables()).workers
    assert worker.utilisation == 0.25
    assert (worker.wall_ns, worker.load_average) == (400, 1.5)


def test_a_lost_load_event_loses_no_time() -> None:
    whole, gappy = Trace(), Trace()
    for trace in (whole, gappy):
        trace.process(PUT, "put")
        for step in range(1, 6):
            load(trace, 100 * step, 30 * step, 60 * step, 10 * step)
    gappy.drop("load", 2)
    (one,), (other,) = (build(trace.tables()).workers for trace in (whole, gappy))
    assert one.utilisation == other.utilisation == 0.3


def test_a_worker_without_load_events() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    trace.add("worker", 5, PUT, worker=0, tid=77, pinned_cpu=-1, wait_mode="epoll")
    (worker,) = build(trace.tables()).workers
    assert worker.utilisation is None and worker.load_average is None
    assert (worker.tid, worker.pinned_cpu, worker.wait_mode, worker.cpus) == (77, None, "epoll", ())


def test_processors_and_migrations() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    load(trace, 100, 1, 1, 1, cpu=3)
    trace.add("migrate", 150, PUT, worker=0, from_cpu=3, to_cpu=5)
    trace.add("migrate", 160, PUT, worker=0, from_cpu=5, to_cpu=3)
    (worker,) = build(trace.tables()).workers
    assert (worker.cpus, worker.migrations) == ((3, 5), 2)


def test_sessions_are_counted_once() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    for time, session in ((1, 0), (2, 1), (3, 0)):
        trace.add("session_open", time, PUT, session=session, worker=2)
    (worker,) = build(trace.tables()).workers
    assert (worker.number, worker.sessions) == (2, 2)


def test_load_over_time() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    load(trace, 100, 100, 0, 0)
    load(trace, 200, 100, 100, 0)
    load(trace, 300, 150, 150, 0)
    run = build(trace.tables())
    edges = np.array([0, 50, 150, 200, 300, 400], np.int64)
    busy = busy_in_slices(run, run.workers[0], edges)
    assert busy[:4].tolist() == pytest.approx([1.0, 0.5, 0.0, 0.5])
    assert math.isnan(busy[4])


def test_load_over_time_of_a_recording_that_began_later() -> None:
    """The first totals reach back to before the trace and say nothing about it."""
    trace = Trace()
    trace.process(PUT, "put", cause="state_dump", time=1000)
    load(trace, 1000, 900, 100, 0)
    load(trace, 1100, 900, 200, 0)
    run = build(trace.tables())
    busy = busy_in_slices(run, run.workers[0], make_edges(900, 1100, 2))
    assert math.isnan(busy[0]) and busy[1] == 0.0
