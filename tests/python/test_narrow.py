# SPDX-License-Identifier: BSD-3-Clause
"""A part of a run: only its sessions, workers, times; what is unknown stays unknown."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pytest
from fabtrace.errors import FabtraceError
from fabtrace.model import Run, build
from fabtrace.model.states import UNKNOWN, state_label
from fabtrace.views.select import Selector, select
from synthetic import GET, PUT, Trace


def make() -> Trace:
    """Two sessions of a put with two workers, and get's ends with the numbers exchanged."""
    trace = Trace()
    for instance, role in ((GET, "get"), (PUT, "put")):
        trace.process(instance, role)
        for session in (0, 1):
            local, peer = (f"g{session}", f"p{1 - session}")
            if instance == PUT:
                local, peer = (f"p{session}", f"g{1 - session}")
            trace.add("session_open", 10, instance, session=session, worker=session)
            for kind, address in (("local", local), ("peer", peer)):
                trace.add(
                    "session_address", 11, instance, session=session, address_kind=kind, address=address
                )  # fmt: skip
            trace.add("session_start", 12, instance, session=session)
            trace.add("worker", 5, instance, worker=session, tid=session)
    for op in range(100):
        session = op % 2
        trace.add("op_post", 100 + 10 * op, PUT, session=session, op=op, kind="write")
        trace.add(
            "op_complete", 105 + 10 * op, PUT, session=session, op=op, kind="write", payload_bytes=7
        )  # fmt: skip
    trace.add("op_defer", 500, PUT, session=1, op=5000, kind="write")
    for session in (0, 1):
        trace.add("session_count", 1100, PUT, session=session, payload_bytes=350, ops_posted=50)
        trace.add(
            "session_close", 1100, PUT, session=session, payload_bytes=350, elapsed_ns=1100 - 12
        )  # fmt: skip
    return trace


def chosen(run: Run, **options: Any) -> Run:
    usual = {
        "group": None,
        "process": None,
        "session": None,
        "worker": None,
        "begin": None,
        "end": None,
    }
    return select(run, argparse.Namespace(**{**usual, **options}))


def labels(run: Run) -> list[str]:
    return [session.label for session in run.sessions]


def test_nothing_asked_for_is_everything() -> None:
    run = build(make().tables())
    assert chosen(run) is run


def test_a_session_by_number_comes_with_its_other_end() -> None:
    run = build(make().tables())
    part = chosen(run, session=Selector("put", 0))
    assert labels(part) == ["put:0"]
    assert set(labels(chosen(run, session=Selector(None, 0)))) == {
        "get:0",
        "put:0",
        "get:1",
        "put:1",
    }
    assert np.all(part.operations.op % 2 == 0) and len(part.operations) == 50
    assert [row.deferred_for_ever for row in part.pairing] == [0]
    assert [r.deferred_for_ever for r in chosen(run, session=Selector("put", 1)).pairing] == [1]


def test_a_process_and_a_worker() -> None:
    run = build(make().tables())
    part = chosen(run, process="put", worker=Selector(None, 1))
    assert labels(part) == ["put:1"] and [w.number for w in part.workers] == [1]
    assert [process.label for process in part.processes] == ["put"]
    assert labels(chosen(run, process=str(PUT))) == ["put:0", "put:1"]


@pytest.mark.parametrize("begin, end", [(0, 1100), (200, 600), (333, 334), (1099, 1100)])
def test_operations_belong_to_the_time_of_their_post(begin: int, end: int) -> None:
    run = build(make().tables())
    part = chosen(run, begin=begin, end=end)
    posts = [100 + 10 * op for op in range(100)]
    expected = sum(begin <= post <= end for post in posts)
    assert len(part.operations) == (100 if (begin, end) == (0, 1100) else expected)
    put = [session for session in part.sessions if session.role == "put"]
    assert all(s.elapsed_ns == max(0, min(1100, end) - max(12, begin)) for s in put)
    assert sum(s.counters["ops_posted"] for s in put) == pytest.approx(
        100 * (min(end, 1100) - max(begin, 10)) / (1100 - 10), abs=2
    )
    assert all(s.peer in part.sessions for s in part.sessions)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"process": "put7"}, "get (pid 100)"),
        ({"session": Selector(None, 9)}, "put:0 to put:1"),
        ({"worker": Selector("get", 4)}, "get:0"),
        ({"begin": 5_000}, "the run takes"),
        ({"begin": 500, "end": 400}, "nothing is between"),
    ],
)
def test_what_is_not_there_is_said(options: dict[str, Any], says: str) -> None:
    run = build(make().tables())
    with pytest.raises(FabtraceError, match="--") as caught:
        chosen(run, **options)
    assert says in str(caught.value)


def states_of(trace: Trace) -> list[tuple[str, int, int]]:
    run = build(trace.tables())
    mine = run.states.of(run.sessions[0].key)
    return [
        (state_label("state", state), begin, end)
        for state, begin, end in zip(
            mine.state.tolist(), mine.begin_ns.tolist(), mine.end_ns.tolist()
        )
    ]


def test_after_a_lost_transition_the_state_is_unknown() -> None:
    """
    Description: of four transitions the third is lost: what the session waited for is known up to the
    event before the gap, and again from the next one on.
    """
    trace = Trace()
    trace.process(PUT, "put")
    trace.add("session_open", 0, PUT, session=0)
    for time, state in ((10, "setup"), (20, "memory"), (30, "provider"), (40, "memory")):
        trace.add("session_state", time, PUT, session=0, state=state)
    trace.add("session_close", 50, PUT, session=0)
    assert states_of(trace) == [
        ("setup", 10, 20), ("memory", 20, 30), ("provider", 30, 40), ("memory", 40, 50)
    ]  # fmt: skip
    trace.drop("session_state", 2)
    assert states_of(trace) == [
        ("setup", 10, 20), ("memory", 20, 20), ("unknown", 20, 40), ("memory", 40, 50)
    ]  # fmt: skip


def test_a_loss_concerns_all_sessions_of_the_writer_and_no_other() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    for session, thread in ((0, 1), (1, 1), (2, 2)):
        trace.add("session_open", 0, PUT, thread, session=session)
    for time, session, thread in (
        (10, 0, 1), (11, 1, 1), (12, 2, 2), (20, 0, 1), (30, 1, 1), (40, 0, 1), (60, 1, 1), (70, 2, 2)
    ):  # fmt: skip
        trace.add("session_state", time, PUT, thread, session=session, state="memory")
    for session in range(3):
        trace.add("session_close", 100, PUT, session=session)
    trace.drop("session_state", 4)  # the one at 30
    run = build(trace.tables())
    unknown = run.states.rows(run.states.state == UNKNOWN)
    found = sorted(zip(unknown.owner.tolist(), unknown.begin_ns.tolist(), unknown.end_ns.tolist()))
    assert found == [(0, 20, 40), (1, 20, 60)]
