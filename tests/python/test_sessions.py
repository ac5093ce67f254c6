# SPDX-License-Identifier: BSD-3-Clause
"""Sessions: the two ends find each other; figures stand on what the trace has."""

from __future__ import annotations

import pytest
from fabtrace.model import Run, build
from fabtrace.model.sessions import OPEN
from synthetic import GET, PUT, Trace


def addresses(trace: Trace, time: int, instance: int, session: int, local: str, peer: str) -> None:
    for kind, address in (("local", local), ("peer", peer)):
        trace.add(
            "session_address", time, instance, session=session, address_kind=kind, address=address
        )  # fmt: skip


def opened(trace: Trace, time: int, instance: int, session: int, worker: int = 0) -> None:
    trace.add("session_open", time, instance, session=session, worker=worker, total_bytes=1000)


def peers(run: Run) -> dict[str, str | None]:
    return {s.label: s.peer.label if s.peer else None for s in run.sessions}


def test_ends_are_joined_by_address_not_by_number() -> None:
    trace = Trace()
    trace.process(GET, "get")
    trace.process(PUT, "put")
    for session, other in ((0, 1), (1, 0)):
        opened(trace, 5, GET, session)
        opened(trace, 5, PUT, other)
        addresses(trace, 6, GET, session, f"g{session}", f"p{other}")
        addresses(trace, 6, PUT, other, f"p{other}", f"g{session}")
    expected = {"get:0": "put:1", "get:1": "put:0", "put:0": "get:1", "put:1": "get:0"}
    assert peers(build(trace.tables())) == expected


def test_several_puts_have_names_of_their_own() -> None:
    trace = Trace()
    trace.process(GET, "get")
    for number, instance in enumerate((PUT, PUT + 1)):
        trace.process(instance, "put", time=number)
        opened(trace, 5, instance, 0)
        opened(trace, 5, GET, number)
        addresses(trace, 6, GET, number, f"g{number}", f"p{number}")
        addresses(trace, 6, instance, 0, f"p{number}", f"g{number}")
    assert peers(build(trace.tables())) == {
        "get:0": "put0:0", "get:1": "put1:0", "put0:0": "get:0", "put1:0": "get:1"
    }  # fmt: skip


def test_addresses_used_again_join_those_that_lived_at_the_same_time() -> None:
    trace = Trace()
    for early, instance in ((0, PUT), (1000, PUT + 1)):
        trace.process(instance, "put", time=early)
        opened(trace, early + 10, instance, 0)
        addresses(trace, early + 11, instance, 0, "p", "g")
        trace.add("session_close", early + 500, instance, session=0)
    for late, instance in ((1000, GET), (0, GET + 1)):
        trace.process(instance, "get", time=late)
        opened(trace, late + 10, instance, 0)
        addresses(trace, late + 11, instance, 0, "g", "p")
        trace.add("session_close", late + 500, instance, session=0)
    run = build(trace.tables())
    joined = {s.process.instance: s.peer.process.instance for s in run.sessions if s.peer}
    assert joined == {PUT: GET + 1, GET + 1: PUT, PUT + 1: GET, GET: PUT + 1}


def test_an_address_used_again_does_not_join_strangers() -> None:
    """The early get's put was not recorded; a late put talks to a get at the same address."""
    trace = Trace()
    for time, instance, role, ours, theirs in (
        (0, GET, "get", "g", "p"), (1000, GET + 1, "get", "g", "p"), (1000, PUT, "put", "p", "g")
    ):  # fmt: skip
        trace.process(instance, role, time=time)
        opened(trace, time + 10, instance, 0)
        addresses(trace, time + 11, instance, 0, ours, theirs)
        trace.add("session_close", time + 500, instance, session=0)
    assert peers(build(trace.tables())) == {"get0:0": None, "get1:0": "put:0", "put:0": "get1:0"}


def test_an_end_without_the_other() -> None:
    trace = Trace()
    trace.process(GET, "get")
    opened(trace, 5, GET, 0)
    addresses(trace, 6, GET, 0, "g", "p")
    assert peers(build(trace.tables())) == {"get:0": None}


def test_a_closed_session_says_itself_how_it_was() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    opened(trace, 5, PUT, 0)
    trace.add("session_start", 10, PUT, session=0, handshake_ns=5)
    trace.add("session_count", 20, PUT, session=0, payload_bytes=400)
    trace.add(
        "session_close", 2_000_000_000, PUT, session=0, outcome="failed", payload_bytes=1 << 20,
        elapsed_ns=500_000_000, reason="peer died",
    )  # fmt: skip
    (session,) = build(trace.tables()).sessions
    assert (session.outcome, session.reason) == ("failed", "peer died")
    assert (session.payload_bytes, session.elapsed_ns, session.mib_per_s) == (
        1 << 20,
        5 * 10**8,
        2.0,
    )


def test_an_open_session_is_known_from_its_counters() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    opened(trace, 5, PUT, 0)
    trace.add("session_start", 100, PUT, session=0)
    trace.add("session_count", 600, PUT, session=0, payload_bytes=400, ops_posted=7)
    (session,) = build(trace.tables()).sessions
    assert (session.outcome, session.payload_bytes, session.elapsed_ns) == (OPEN, 400, 500)
    assert session.counters["ops_posted"] == 7


def test_a_session_known_only_from_operations() -> None:
    trace = Trace()
    trace.process(PUT, "put", cause="state_dump")
    trace.add("op_post", 50, PUT, session=4, op=1, kind="write")
    (session,) = build(trace.tables()).sessions
    assert (session.label, session.worker, session.elapsed_ns) == ("put:4", None, None)
    assert session.mib_per_s is None and session.counters["writes"] == 1


@pytest.mark.parametrize("counted, events, expected", [(9, 2, 9), (1, 3, 3)])
def test_the_larger_of_counter_and_events_counts(counted: int, events: int, expected: int) -> None:
    """Counters can be old, events can be lost: both are lower bounds."""
    trace = Trace()
    trace.process(PUT, "put")
    trace.add("session_count", 10, PUT, session=0, ops_posted=counted, writes=counted)
    for op in range(events):
        trace.add("op_post", 20 + op, PUT, session=0, op=op, kind="write")
    (session,) = build(trace.tables()).sessions
    assert session.counters["ops_posted"] == session.counters["writes"] == expected


def test_a_split_buffer_has_one_fragment_less_than_pieces() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    opened(trace, 5, PUT, 0)
    for child, last in ((0, 0), (1, 0), (2, 1)):
        trace.add(
            "fragment", 10 + child, PUT, session=0, parent=1, child=child, op=child, last=last
        )
    (session,) = build(trace.tables()).sessions
    assert session.counters["fragments"] == 2


def test_the_listening_endpoint_is_no_session() -> None:
    trace = Trace()
    trace.process(GET, "get")
    trace.add("op_post", 5, GET, 0, session=0xFFFFFFFF, op=1, kind="initial_rx")
    trace.add("op_complete", 9, GET, 0, session=0xFFFFFFFF, op=1, kind="initial_rx")
    trace.add("error", 9, GET, 0, session=-1, text="lost it")
    run = build(trace.tables())
    assert run.sessions == []
    assert [(row.kind, row.count) for row in run.latency] == [("initial_rx", 1)]


def test_states_account_for_the_whole_time() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    opened(trace, 0, PUT, 0)
    opened(trace, 0, PUT, 1)
    for time, session, state in (
        (0, 0, "setup"), (5, 1, "setup"), (10, 0, "memory"), (40, 0, "provider"), (45, 1, "memory")
    ):  # fmt: skip
        trace.add("session_state", time, PUT, session=session, state=state)
    trace.add("session_close", 100, PUT, session=0)
    trace.add("op_post", 65, PUT, session=1, op=1, kind="write")
    run = build(trace.tables())
    first, second = (run.states.of(session.key).totals_ns() for session in run.sessions)
    assert list(first.values()) == [10, 30, 60]
    assert list(second.values()) == [40, 20]


def test_before_the_first_transition_nothing_is_known() -> None:
    """
    Description: sessions that were open when the recording began: what one waited for is unknown until
    it changes, and of one that never changes, always. A session that opened later is known throughout.
    """
    trace = Trace()
    trace.process(PUT, "put", cause="state_dump")
    for session, cause in ((0, "state_dump"), (1, "state_dump"), (2, "start")):
        trace.add("session_open", 10, PUT, session=session, cause=cause)
    trace.add("session_state", 10, PUT, session=2, state="setup")
    trace.add("session_state", 90, PUT, session=0, state="drain")
    for session in range(3):
        trace.add("session_close", 110, PUT, session=session)
    run = build(trace.tables())
    shares = {s.number: run.states.shares(s.key, "state") for s in run.sessions}
    assert shares == {0: {"unknown": 0.8, "drain": 0.2}, 1: {"unknown": 1.0}, 2: {"setup": 1.0}}
    assert len(run.phases.keys) == 0  # not recorded at all
