# SPDX-License-Identifier: BSD-3-Clause
"""One time for all hosts: the clocks of processes are compared by their messages and set to one.

Processes of a host share its clock, unless their messages prove that they don't (one was received before
it was sent). Clocks that are not the same are compared where sessions join them (`fabtrace.model.skew`),
and each is set to that of the first get, over others if need be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fabtrace.model.keys import WRITER_THREADS, split
from fabtrace.model.messages import Messages, join_messages
from fabtrace.model.operations import Operations
from fabtrace.model.processes import Process
from fabtrace.model.sessions import address_book, same_run, session_runs
from fabtrace.model.skew import Skew, estimate
from fabtrace.tables import TIMESTAMP, Table, Tables

# More sessions between two clocks say nothing new.
MOST_PAIRS = 64
# Operations at a session's begin and end that show whether two processes share a clock.
SAMPLE = 1 << 14


@dataclass(frozen=True)
class ClockLink:
    """What the messages say of one clock against another.

    clock, against   names: a host, or host/process where processes of a host differ
    skew             of clock against `against`; None if messages went one way only
    messages         how many, to and from `clock`
    fastest_ns       the shortest delays that they seem to take by the clocks as they are, to and from
    applied          whether times were changed by it
    """

    clock: str
    against: str
    skew: Skew | None
    messages: tuple[int, int]
    fastest_ns: tuple[int, int]
    applied: bool


@dataclass(frozen=True)
class Pair:
    """A session's two ends: put's key and get's."""

    put: int
    get: int

    @property
    def instances(self) -> tuple[int, int]:
        """Their processes: put's and get's."""
        return split(self.put)[0], split(self.get)[0]


def synchronise(
    tables: Tables, processes: list[Process], operations: Operations
) -> tuple[Tables, list[ClockLink]]:
    """The tables with the times of all clocks set to one, and what was found: the same tables if there
    is but one clock. Needs operations."""
    pairs = session_pairs(tables, processes)
    if not pairs or not len(operations):
        return tables, []
    clocks = name_clocks(processes, pairs, operations)
    if len(set(clocks.values())) < 2:
        return tables, []
    links = compare(pairs, clocks, operations)
    return set_clocks(tables, clocks, links)


def session_pairs(tables: Tables, processes: list[Process]) -> list[Pair]:
    """The sessions of which both ends are in the trace, by their addresses."""
    roles = {process.instance: process.role for process in processes}
    book, runs = address_book(tables), session_runs(tables)
    ends: dict[tuple[str, str], list[int]] = {}
    for key, known in book.items():
        if known.get("local") and known.get("peer"):
            ends.setdefault((known["local"], known["peer"]), []).append(key)

    def of_run(keys: list[int], key: int) -> list[int]:
        return [other for other in keys if same_run(runs.get(other, 0), runs.get(key, 0))]

    pairs = []
    for (local, peer), keys in ends.items():
        for key in keys:
            others = of_run(ends.get((peer, local), []), key)
            # An address that was used twice in a run joins nobody here: its sessions could be swapped.
            alone = len(others) == 1 and of_run(keys, others[0]) == [key]
            if alone and roles.get(split(key)[0]) == "put":
                pairs.append(Pair(key, others[0]))
    return pairs


def messages_between(
    pairs: list[Pair], operations: Operations, sample: int | None = None
) -> tuple[Messages, Messages]:
    """The messages of some sessions together: from put to get, from get to put.

    `sample`: only so many operations of each session at its begin and at its end.
    """
    forth, back = [], []
    for pair in pairs[:MOST_PAIRS]:
        put, get = operations.of(pair.put), operations.of(pair.get)
        if sample is not None:
            put, get = (
                ends if len(ends) <= 2 * sample else ends.rows(np.r_[:sample, -sample:0])
                for ends in (put, get)
            )
        forth.append(join_messages(put, get, "progress"))
        back.append(join_messages(get, put, "vector"))
    return join_lists(forth), join_lists(back)


def join_lists(parts: list[Messages]) -> Messages:
    """Several lists of messages as one."""
    return Messages(
        np.concatenate([part.sent_ns for part in parts]),
        np.concatenate([part.before_ns for part in parts]),
        np.concatenate([part.received_ns for part in parts]),
    )


def name_clocks(
    processes: list[Process], pairs: list[Pair], operations: Operations
) -> dict[int, str]:
    """The clock of each process instance: its host's name, or one of its own."""
    hosts = {process.instance: process.hostname or "?" for process in processes}
    labels = {process.instance: process.label for process in processes}
    clocks = dict(hosts)
    seen: set[tuple[int, int]] = set()
    for pair in pairs:
        put, get = pair.instances
        if hosts[put] != hosts[get] or (put, get) in seen:
            continue
        seen.add((put, get))
        for messages in messages_between([pair], operations, SAMPLE):
            if bool(np.any(messages.received_ns < messages.before_ns)):
                clocks[put] = f"{hosts[put]}/{labels[put]}"
    return clocks


def compare(
    pairs: list[Pair], clocks: Mapping[int, str], operations: Operations
) -> dict[tuple[str, str], tuple[Skew | None, Messages, Messages]]:
    """For each two clocks that sessions join: put's clock against get's."""
    joined: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        put, get = pair.instances
        if clocks[put] != clocks[get]:
            joined.setdefault((clocks[get], clocks[put]), []).append(pair)
    found = {}
    for names, mine in joined.items():
        to_get, to_put = messages_between(mine, operations)
        found[names] = estimate(to_put, to_get), to_put, to_get
    return found


def set_clocks(
    tables: Tables,
    clocks: Mapping[int, str],
    links: Mapping[tuple[str, str], tuple[Skew | None, Messages, Messages]],
) -> tuple[Tables, list[ClockLink]]:
    """Set each clock to the first get's, over as few others as possible."""
    reference = next(iter(links))[0] if links else ""
    ways: dict[str, list[tuple[Skew, bool]]] = {reference: []}
    used: set[tuple[str, str]] = set()
    waiting = [reference]
    while waiting:
        here = waiting.pop(0)
        for (against, clock), (skew, _, _) in links.items():
            other = clock if here == against else against if here == clock else None
            if other is None or other in ways or skew is None or skew.margin_ns < 0:
                continue
            ways[other] = [(skew, here == against), *ways[here]]
            used.add((against, clock))
            waiting.append(other)
    named = [
        ClockLink(
            clock, against, skew, (len(to_put), len(to_get)),
            (fastest(to_put), fastest(to_get)), (against, clock) in used,
        )
        for (against, clock), (skew, to_put, to_get) in links.items()
    ]  # fmt: skip
    moved = {i: ways[name] for i, name in clocks.items() if ways.get(name)}
    return move(tables, moved) if moved else tables, named


def fastest(messages: Messages) -> int:
    """The shortest delay by the clocks as they are; 0 without messages."""
    return int((messages.received_ns - messages.before_ns).min()) if len(messages) else 0


def move(tables: Tables, ways: Mapping[int, list[tuple[Skew, bool]]]) -> Tables:
    """The tables with the times of some process instances moved, in time order again."""
    return replace(
        tables, tables={event: move_table(t, ways) for event, t in tables.tables.items()}, _empty={}
    )


def move_table(table: Table, ways: Mapping[int, list[tuple[Skew, bool]]]) -> Table:
    """One table."""
    times = table.times.copy()
    instance = table["writer"] // np.uint32(WRITER_THREADS)
    for number, way in ways.items():
        mine = np.flatnonzero(instance == number)
        times[mine] = follow(times[mine], way)
    order = np.argsort(times, kind="stable")
    sorted_rows = table.rows(order)
    return Table(table.event, {**sorted_rows.columns, TIMESTAMP: times[order]})


def follow(times: npt.NDArray[np.int64], way: list[tuple[Skew, bool]]) -> npt.NDArray[np.int64]:
    """Times over some clocks, each a skew and whether it is followed backwards (from B to A)."""
    for skew, backwards in way:
        times = skew.to_a(times) if backwards else times + skew.at(times)
    return times
