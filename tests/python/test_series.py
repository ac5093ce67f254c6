# SPDX-License-Identifier: BSD-3-Clause
"""What happened in slices of time equals a count by hand."""

from __future__ import annotations

import numpy as np
import pytest
from fabtrace.model import build
from fabtrace.model.series import (
    in_flight_in_slices,
    make_edges,
    payload_in_slices,
    states_in_slices,
    sum_in_slices,
    time_in_slices,
)
from synthetic import PUT, Trace


def test_edges_cover_the_span() -> None:
    assert make_edges(10, 20, 3).tolist() == [10, 13, 16, 20]
    assert np.all(np.diff(make_edges(5, 5, 4)) >= 1)


@pytest.mark.parametrize("seed", range(30))
def test_slices_equal_brute_force(seed: int) -> None:
    chance = np.random.default_rng(seed)
    edges = np.unique(chance.integers(0, 200, 8)).astype(np.int64)
    if len(edges) < 2:
        pytest.skip("one edge is no slice")
    begin = chance.integers(0, 220, 50).astype(np.int64)
    end = begin + chance.integers(0, 60, 50)
    values = chance.integers(0, 1000, 50)
    sums, inside = sum_in_slices(begin, values, edges), time_in_slices(begin, end, edges)
    for index, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist())):
        last = index == len(edges) - 2
        assert sums[index] == sum(
            value
            for time, value in zip(begin.tolist(), values.tolist())
            if low <= time < high or (last and time == high)
        )
        assert inside[index] == sum(
            1
            for first, after in zip(begin.tolist(), end.tolist())
            for moment in range(first, after)
            if low <= moment < high
        )


def make_run(level_light: bool) -> Trace:
    trace = Trace()
    trace.process(PUT, "put")
    trace.add("session_open", 0, PUT, session=0)
    trace.add("session_start", 0, PUT, session=0)
    trace.add("session_count", 50, PUT, session=0, payload_bytes=100)
    trace.add("session_count", 100, PUT, session=0, payload_bytes=400)
    if not level_light:
        trace.add("op_post", 10, PUT, session=0, op=1, kind="write")
        trace.add("op_complete", 40, PUT, session=0, op=1, kind="write", payload_bytes=100)
        trace.add("op_post", 30, PUT, session=0, op=2, kind="fragment")
        trace.add("op_complete", 80, PUT, session=0, op=2, kind="fragment", payload_bytes=300)
        trace.add("op_post", 20, PUT, session=0, op=3, kind="vector_rx")
        trace.add("session_state", 0, PUT, session=0, state="memory")
        trace.add("session_state", 75, PUT, session=0, state="provider")
    trace.add("session_close", 100, PUT, session=0, payload_bytes=400)
    return trace


def test_payload_from_operations() -> None:
    run = build(make_run(level_light=False).tables())
    edges = make_edges(0, 100, 2)
    assert payload_in_slices(run, run.sessions[0], edges).tolist() == [100, 300]


def test_payload_from_counters_at_level_light() -> None:
    run = build(make_run(level_light=True).tables())
    assert run.level == "light"
    edges = make_edges(0, 100, 4)
    assert payload_in_slices(run, run.sessions[0], edges).tolist() == [50, 50, 150, 150]


def test_writes_in_flight_without_receives() -> None:
    run = build(make_run(level_light=False).tables())
    flight = in_flight_in_slices(run, run.sessions[0], make_edges(0, 100, 2))
    assert flight.tolist() == [(30 + 20) / 50, 30 / 50]


def test_waits_of_a_slice() -> None:
    run = build(make_run(level_light=False).tables())
    states = run.states.of(run.sessions[0].key)
    assert states_in_slices(states, make_edges(0, 100, 2), "state") == [
        {"memory": 1.0}, {"memory": 0.5, "provider": 0.5}
    ]  # fmt: skip
