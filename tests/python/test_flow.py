# SPDX-License-Identifier: BSD-3-Clause
"""Memory, writes in flight and fragments over time equal a count by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fabtrace.model import build
from fabtrace.model.flow import build_flow, build_fragments, make_curve
from synthetic import PUT, Trace


def test_a_curve_by_hand() -> None:
    """10 come at 10, 4 go at 20, 6 at 30, 8 come at 40."""
    curve = make_curve(np.array([10, 40]), np.array([10, 8]), np.array([20, 30]), np.array([4, 6]))
    assert curve.values.tolist() == [10, 6, 0, 8]
    assert curve.time_below(1, 0, 50) == 10 + 10
    assert curve.time_below(7, 0, 50) == 10 + 20
    assert curve.mean(10, 40) == pytest.approx((10 * 10 + 6 * 10 + 0 * 10) / 30)
    assert curve.top == 10


@pytest.mark.parametrize("seed", range(20))
def test_curves_equal_brute_force(seed: int) -> None:
    chance = np.random.default_rng(seed)
    up_ns, down_ns = chance.integers(0, 100, 8), chance.integers(0, 100, 9)
    up, down = chance.integers(1, 9, 8), chance.integers(1, 9, 9)
    curve = make_curve(up_ns, up, down_ns, down)
    begin, end = sorted(chance.integers(0, 110, 2).tolist())
    level = [
        int(up[up_ns <= moment].sum() - down[down_ns <= moment].sum())
        for moment in range(begin, end)
    ]
    assert curve.time_below(3, begin, end) == sum(value < 3 for value in level)
    if level:
        assert curve.mean(begin, end) == pytest.approx(sum(level) / len(level))


def test_put_without_memory() -> None:
    """Two buffers of 30 bytes are offered, written one after the other, and offered again."""
    trace = Trace()
    trace.process(PUT, "put")
    for number, (offered, posts) in enumerate(((100, (110, 150)), (300, (310, 320)))):
        trace.add("op_post", 1, PUT, session=0, op=10 + number, kind="vector_rx", position=number)
        trace.add(
            "op_complete",
            offered,
            PUT,
            session=0,
            op=10 + number,
            kind="vector_rx",
            payload_bytes=60,
        )
        for index, time in enumerate(posts):
            op = 100 + 2 * number + index
            fields = {"session": 0, "op": op, "kind": "write", "payload_bytes": 30}
            trace.add("op_post", time, PUT, nsegs=1, len_bytes=30, **fields)
            trace.add("op_complete", time + 40, PUT, len_bytes=30, **fields)
    run = build(trace.tables())
    flow = build_flow(run.operations, run.sessions[0])
    assert flow is not None
    assert (flow.begin_ns, flow.end_ns, flow.offered_bytes) == (110, 320, 60)
    assert flow.starved_ns == 300 - 150
    assert flow.in_flight_top == 2
    assert flow.in_flight_mean == pytest.approx((40 + 40 + 10 + 0) / (320 - 110))


def test_a_get_has_no_flow() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    trace.add("session_open", 1, PUT, session=0)
    run = build(trace.tables())
    assert build_flow(run.operations, run.sessions[0]) is None
    assert build_fragments(run.tables, run.operations, run.sessions[0]) is None


@pytest.mark.parametrize("seed", range(20))
def test_fragments_equal_brute_force(seed: int) -> None:
    """Buffers in pieces, pieces lost, writes that never ended or carried pieces of two buffers."""
    chance = random.Random(seed)
    trace = Trace()
    trace.process(PUT, "put")
    times: dict[int, tuple[int, int | None]] = {}
    for op in range(1, 60):
        begin = op * 10
        trace.add("op_post", begin, PUT, session=3, op=op, kind="fragment")
        ends = chance.random() < 0.9
        times[op] = (begin, begin + chance.randrange(1, 500) if ends else None)
        if ends:
            trace.add("op_complete", times[op][1] or 0, PUT, session=3, op=op, kind="fragment")
    seen: dict[int, list[tuple[int, int, bool, int]]] = {}
    op = 1
    for parent in range(chance.randrange(1, 15)):
        pieces = chance.randrange(1, 5)
        for child in range(pieces):
            last, length = child == pieces - 1, chance.randrange(1, 40)
            if chance.random() < 0.9:
                trace.add(
                    "fragment", op * 10, PUT, session=3, parent=parent, child=child, op=op,
                    len_bytes=length, last=int(last),
                )  # fmt: skip
                seen.setdefault(parent, []).append((child, op, last, length))
            if chance.random() < 0.8:
                op += 1
    run = build(trace.tables())
    found = build_fragments(run.tables, run.operations, run.sessions[0])
    if not seen:
        assert found is None
        return
    assert found is not None
    whole = {p: rows for p, rows in seen.items() if rows[-1][2] and rows[-1][0] + 1 == len(rows)}
    assert found.split == len(seen) and found.incomplete == len(seen) - len(whole)
    assert found.pieces == sum(map(len, seen.values()))
    assert found.bytes == sum(row[3] for rows in seen.values() for row in rows)
    together = []
    for rows in whole.values():
        known = [end for row in rows if (end := times[row[1]][1]) is not None]
        if len(known) == len(rows):
            together.append(max(known) - min(times[row[1]][0] for row in rows))
    assert sorted(found.together_ns.tolist()) == sorted(together)
    assert found.histogram == {
        n: sum(len(rows) == n for rows in seen.values()) for n in {len(r) for r in seen.values()}
    }
