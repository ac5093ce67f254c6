# SPDX-License-Identifier: BSD-3-Clause
"""Loss is counted from the writers' own numbers: gaps, the tail, and only what is really a loss."""

from __future__ import annotations

import random

import pytest
from fabtrace.model.loss import Loss, build_loss
from fabtrace.model.processes import build_processes
from fabtrace.tables import Tables
from synthetic import GET, PUT, Trace

WORKER = PUT * 1024 + 1


def loss_of(tables: Tables) -> Loss:
    return build_loss(tables, {process.instance: process for process in build_processes(tables)})


def posts(trace: Trace, number: int, instance: int = PUT, thread: int = 1) -> None:
    for op in range(number):
        trace.add("op_post", 10 + op, instance, thread, session=0, op=op, kind="write")


def emitted(trace: Trace, event: str, count: int, instance: int = PUT, thread: int = 1) -> None:
    trace.add("emitted", 10_000, instance, thread, event=event, count=count)


def test_nothing_is_lost() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    posts(trace, 10)
    emitted(trace, "op_post", 10)
    loss = loss_of(trace.tables())
    assert loss.rows == [] and loss.total == 0


def test_a_gap_is_a_loss_and_has_a_time() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    posts(trace, 10)
    trace.drop("op_post", 4)
    trace.drop("op_post", 4)
    (row,) = loss_of(trace.tables()).rows
    assert (row.writer, row.event, row.seen) == (WORKER, "op_post", 8)
    assert (row.head, row.middle, row.tail) == (0, 2, 0)
    assert row.gap_ns == 16


def test_the_tail_is_known_from_emitted() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    posts(trace, 10)
    trace.drop("op_post", 9)
    emitted(trace, "op_post", 10)
    (row,) = loss_of(trace.tables()).rows
    assert (row.head, row.middle, row.tail) == (0, 0, 1)


def test_the_tail_of_a_killed_process_is_not_a_loss() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    posts(trace, 10)
    trace.drop("op_post", 9)
    loss = loss_of(trace.tables())
    assert loss.rows == []
    assert loss.open_writers == [PUT * 1024, WORKER]


def test_the_head_is_a_loss_if_the_process_started_in_the_trace() -> None:
    trace = Trace()
    trace.process(PUT, "put")
    posts(trace, 10)
    trace.drop("op_post", 0)
    (row,) = loss_of(trace.tables()).rows
    assert (row.head, row.middle, row.tail) == (1, 0, 0)
    assert row.gap_ns == 11


def test_the_head_is_no_loss_if_the_recording_began_later() -> None:
    trace = Trace()
    trace.process(PUT, "put", cause="state_dump")
    posts(trace, 10)
    for _ in range(5):
        trace.drop("op_post", 0)
    trace.drop("op_post", 2)
    emitted(trace, "op_post", 10)
    (row,) = loss_of(trace.tables()).rows
    assert (row.head, row.middle, row.tail) == (0, 1, 0)


def test_all_events_of_a_name_lost() -> None:
    """Not one of them arrived, but the writer says that it wrote some."""
    trace = Trace()
    trace.process(PUT, "put")
    emitted(trace, "op_post", 10)
    tables = trace.tables(frozenset({"process", "emitted", "op_post"}))
    (row,) = loss_of(tables).rows
    assert (row.event, row.seen, row.tail) == ("op_post", 0, 10)


def test_events_that_were_not_recorded_are_not_lost() -> None:
    """Another recording had them switched on; this one did not."""
    trace = Trace()
    trace.process(PUT, "put")
    emitted(trace, "op_post", 10)
    assert loss_of(trace.tables(frozenset({"process", "emitted"}))).rows == []


def test_events_written_before_the_recording_are_not_lost() -> None:
    """The writer counted them for an earlier recording; this one saw none of them."""
    trace = Trace()
    trace.process(PUT, "put", cause="state_dump")
    emitted(trace, "op_post", 10)
    tables = trace.tables(frozenset({"process", "emitted", "op_post"}))
    assert loss_of(tables).rows == []


def test_writers_count_for_themselves() -> None:
    trace = Trace()
    for instance, role in ((GET, "get"), (PUT, "put")):
        trace.process(instance, role)
        posts(trace, 5, instance, 1)
        posts(trace, 5, instance, 2)
    trace.drop("op_post", 2)
    (row,) = loss_of(trace.tables()).rows
    assert row.writer == GET * 1024 + 1


@pytest.mark.parametrize("seed", range(40))
def test_as_many_as_were_dropped(seed: int) -> None:
    """
    Description: drop random events from writers that started and ended in the trace; what is counted
    as lost is exactly what was dropped, wherever it was.
    """
    chance = random.Random(seed)
    trace = Trace()
    trace.process(PUT, "put")
    for thread in (1, 2):
        posts(trace, chance.randrange(1, 60), thread=thread)
    written = {thread: trace.seqs[(PUT * 1024 + thread, "op_post")] for thread in (1, 2)}
    for thread, number in written.items():
        emitted(trace, "op_post", number, thread=thread)
    dropped = chance.randrange(len(trace.rows["op_post"]) + 1)
    for _ in range(dropped):
        trace.drop("op_post", chance.randrange(len(trace.rows["op_post"])))
    tables = trace.tables(frozenset({"process", "emitted", "op_post"}))
    assert loss_of(tables).total == dropped
