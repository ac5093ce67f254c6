# SPDX-License-Identifier: BSD-3-Clause
"""Posts find their ends by number, whatever the order and whatever is lost."""

from __future__ import annotations

import random

import numpy as np
import pytest
from fabtrace import catalogue
from fabtrace.model.keys import session_key
from fabtrace.model.latency import build_latency
from fabtrace.model.operations import (
    UNKNOWN_NS,
    End,
    build_operations,
    build_pairing,
    never_posted,
    outer_join,
)
from synthetic import GET, PUT, Trace

WRITE = catalogue.load().code("kind", "write")


def test_latency_begins_with_the_posting_call() -> None:
    trace = Trace()
    trace.add("op_post", 1500, PUT, session=3, op=1, kind="write", call_ns=400)
    trace.add("op_complete", 9000, PUT, session=3, op=1, kind="write")
    operations = build_operations(trace.tables())
    assert operations.begin_ns.tolist() == [1100]
    assert operations.latency_ns.tolist() == [7900]
    (row,) = build_latency(operations)
    summary = row.summary
    assert (row.kind, summary.count) == ("write", 1)
    assert (summary.percentiles_ns, summary.max_ns) == ((7900,) * 5, 7900)


def test_same_numbers_in_other_sessions_and_processes_are_other_operations() -> None:
    trace = Trace()
    for instance in (GET, PUT):
        for session in (0, 1):
            trace.add("op_post", 100, instance, session=session, op=1, kind="write")
    trace.add("op_complete", 200, PUT, session=1, op=1, kind="write")
    operations = build_operations(trace.tables())
    ended = operations.rows(operations.ended)
    assert ended.session.tolist() == [session_key(PUT, 1)]
    assert len(operations) == 4


def test_only_successes_count_for_latency() -> None:
    trace = Trace()
    for op, status in enumerate(("ok", "error", "cancelled"), 1):
        trace.add("op_post", op, PUT, session=0, op=op, kind="vector_rx")
        trace.add("op_complete", 100 * op, PUT, session=0, op=op, kind="vector_rx", status=status)
    trace.add("op_post", 4, PUT, session=0, op=4, kind="vector_rx")
    trace.add("op_abandon", 1000, PUT, session=0, op=4, kind="vector_rx")
    (row,) = build_latency(build_operations(trace.tables()))
    assert (row.count, row.errors, row.cancelled, row.abandoned) == (1, 1, 1, 1)
    assert row.summary.max_ns == 99


def test_what_has_no_partner_stays_and_is_counted() -> None:
    trace = Trace()
    trace.add("op_post", 10, PUT, session=0, op=1, kind="write")  # in flight for ever
    trace.add("op_complete", 20, PUT, session=0, op=2, kind="write")  # its post was lost
    trace.add("op_defer", 30, PUT, session=0, op=3, kind="write")  # never posted
    trace.add("op_defer", 40, PUT, session=0, op=4, kind="write")
    trace.add("op_post", 50, PUT, session=0, op=4, kind="write")
    trace.add("op_abandon", 60, PUT, session=0, op=4, kind="write")
    operations = build_operations(trace.tables())
    assert operations.op.tolist() == [1, 4, 2]
    assert operations.begin_ns.tolist() == [10, 50, UNKNOWN_NS]
    assert operations.end.tolist() == [End.NOT_SEEN, End.ABANDONED, End.COMPLETED]
    (row,) = build_pairing(operations, never_posted(operations))
    assert (row.paired, row.abandoned) == (1, 1)
    assert (row.posts_without_end, row.ends_without_post, row.deferred_for_ever) == (1, 1, 1)


def test_no_operations_at_all() -> None:
    tables = Trace().tables()
    operations = build_operations(tables)
    assert len(operations) == 0
    assert (
        build_latency(operations) == []
        and build_pairing(operations, never_posted(operations)) == []
    )


def test_huge_operation_numbers_do_not_collide() -> None:
    """A damaged number as large as its type must not be taken for another."""
    trace = Trace()
    for session, op in ((0, 2**64 - 1), (1, 2**64 - 1), (1, 0)):
        trace.add("op_post", 1, PUT, session=session, op=op, kind="write")
    trace.add("op_complete", 2, PUT, session=0, op=2**64 - 1, kind="write")
    operations = build_operations(trace.tables())
    ended = operations.rows(operations.ended)
    assert ended.session.tolist() == [session_key(PUT, 0)]


@pytest.mark.parametrize("seed", range(40))
def test_join_equals_brute_force(seed: int) -> None:
    """
    Description: random runs with out-of-order ends, lost events, sessions and processes that share
    numbers: joining in bulk gives what a dictionary gives.
    """
    chance = random.Random(seed)
    trace = Trace()
    truth: dict[tuple[int, int, int], list[int | None]] = {}
    time = 0
    in_flight: list[tuple[int, int, int]] = []
    for _ in range(chance.randrange(1, 400)):
        time += chance.randrange(3)
        if in_flight and chance.random() < 0.5:
            instance, session, op = in_flight.pop(chance.randrange(len(in_flight)))
            if chance.random() < 0.1:
                continue
            event = "op_abandon" if chance.random() < 0.1 else "op_complete"
            trace.add(event, time, instance, session=session, op=op, kind="write")
            truth.setdefault((instance, session, op), [None, None])[1] = time
            continue
        key = (chance.choice((GET, PUT)), chance.randrange(3), len(truth) + len(in_flight))
        if key in truth or key in in_flight:
            continue
        in_flight.append(key)
        if chance.random() < 0.1:
            continue
        call = chance.randrange(5)
        trace.add(
            "op_post", time, key[0], session=key[1], op=key[2], kind="write", call_ns=call
        )  # fmt: skip
        truth[key] = [time - call, None]
    operations = build_operations(trace.tables())
    found = {
        (session >> 32, session & 0xFFFFFFFF, op): [
            None if begin == UNKNOWN_NS else begin,
            None if end == UNKNOWN_NS else end,
        ]
        for session, op, begin, end in zip(
            operations.session.tolist(),
            operations.op.tolist(),
            operations.begin_ns.tolist(),
            operations.end_ns.tolist(),
        )
    }
    assert found == truth
    assert len(operations) == len(truth)


@pytest.mark.parametrize("seed", range(20))
def test_duplicates_lose_nothing(seed: int) -> None:
    """Every row of both sides comes out exactly once, and partners have equal keys."""
    chance = np.random.default_rng(seed)
    left = chance.integers(0, 6, (2, int(chance.integers(0, 50))))
    right = chance.integers(0, 6, (2, int(chance.integers(0, 50))))
    rows, partners = outer_join(left[0], left[1], right[0], right[1])
    assert sorted(rows[rows >= 0].tolist()) == list(range(left.shape[1]))
    assert sorted(partners[partners >= 0].tolist()) == list(range(right.shape[1]))
    both = (rows >= 0) & (partners >= 0)
    assert np.array_equal(left[:, rows[both]], right[:, partners[both]])
    keys_left = {tuple(pair) for pair in left[:, rows[~both & (rows >= 0)]].T.tolist()}
    keys_right = {tuple(pair) for pair in right[:, partners[~both & (partners >= 0)]].T.tolist()}
    assert not keys_left & keys_right
