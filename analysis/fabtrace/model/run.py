# SPDX-License-Identifier: BSD-3-Clause
"""All that a trace tells: what the views see."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from fabtrace import catalogue
from fabtrace.model.clocks import ClockLink, synchronise
from fabtrace.model.groups import Group, build_groups
from fabtrace.model.keys import NO_SESSION, split
from fabtrace.model.latency import KindLatency, build_latency
from fabtrace.model.loss import Loss, build_loss
from fabtrace.model.operations import (
    Operations,
    Pairing,
    build_operations,
    build_pairing,
    never_posted,
)
from fabtrace.model.processes import Process, build_processes, trace_span
from fabtrace.model.sessions import (
    Session,
    build_sessions,
    find_owners,
    state_begins,
    state_ends,
)
from fabtrace.model.states import Intervals, build_intervals, with_beginnings
from fabtrace.model.workers import Worker, build_workers
from fabtrace.model.writers import scan_writers
from fabtrace.tables import Table, Tables


@dataclass(frozen=True)
class Bounded:
    """How far a model that was built in bounded memory is from the exact one.

    percentile_error       percentiles of latencies are within this share of the exact ones
    forgotten_operations   open ones that were counted as unpaired before the trace's end, as too many
                           were open at a time
    """

    percentile_error: float
    forgotten_operations: int


@dataclass(frozen=True)
class Run:
    """The processes, workers, sessions and operations of a trace, and what it lacks.

    `tables` are there for views that show single events. Times are ns since the Unix epoch.
    """

    tables: Tables
    level: str  # the recorder's level: the highest of which an event was recorded
    begin_ns: int
    end_ns: int
    processes: list[Process]
    workers: list[Worker]
    sessions: list[Session]
    operations: Operations
    latency: list[KindLatency]
    never_posted: Table
    pairing: list[Pairing]
    loss: Loss
    states: Intervals
    phases: Intervals
    groups: list[Group] = field(default_factory=list)
    clocks: list[ClockLink] = field(default_factory=list)
    narrowed: bool = False  # only a part of what the trace has
    bounded: Bounded | None = None  # built in bounded memory: see model/bounded

    @cached_property
    def by_instance(self) -> dict[int, Process]:
        """Processes by their instance number."""
        return {process.instance: process for process in self.processes}

    def session_label(self, key: int) -> str:
        """The name of a session by its key; a listening endpoint's is `get:listen`."""
        instance, number = split(key)
        process = self.by_instance.get(instance)
        label = process.label if process is not None else f"{instance}"
        return f"{label}:listen" if number == NO_SESSION else f"{label}:{number}"

    def worker_label(self, key: int) -> str:
        """The name of the worker of a session by its key; what it listens on is the main thread's."""
        session = self.by_key.get(key)
        process = self.by_instance.get(split(key)[0])
        label = process.label if process is not None else "?"
        return f"{label}/main" if session is None else f"{label}/{session.worker}"

    @cached_property
    def group_numbers(self) -> dict[int, int]:
        """For each process instance the number of the run that it took part in."""
        return {p.instance: group.number for group in self.groups for p in group.processes}

    @cached_property
    def by_key(self) -> dict[int, Session]:
        """Sessions by their key."""
        return {session.key: session for session in self.sessions}

    @property
    def has_operations(self) -> bool:
        """Whether operations were recorded (levels ops and full)."""
        return self.level != "light"


def build(tables: Tables, align_clocks: bool = True) -> Run:
    """The model of a trace; the clocks of its hosts are set to one if they are to."""
    written = scan_writers(tables)
    processes = build_processes(tables, written)
    operations = build_operations(tables)
    clocks: list[ClockLink] = []
    if align_clocks:
        aligned, clocks = synchronise(tables, processes, operations)
        if aligned is not tables:
            return replace(build(aligned, align_clocks=False), clocks=clocks)
    by_instance = {process.instance: process for process in processes}
    owners = find_owners(tables, operations)
    deferred = never_posted(operations)
    sessions = build_sessions(tables, by_instance, owners)
    loss = build_loss(tables, by_instance, written)
    begins, ends = state_begins(sessions), state_ends(sessions)

    def intervals(event: str, column: str) -> Intervals:
        owned = owners[event].keys, owners[event].index
        known = build_intervals(tables[event], column, owned, ends, loss.gaps(event))
        return with_beginnings(known, begins, ends) if event in tables.declared else known

    begin_ns, end_ns = trace_span(processes)
    return Run(
        tables=tables,
        level=recorded_level(tables),
        begin_ns=begin_ns,
        end_ns=end_ns,
        processes=processes,
        workers=build_workers(tables, by_instance),
        sessions=sessions,
        operations=operations,
        latency=build_latency(operations),
        never_posted=deferred,
        pairing=build_pairing(operations, deferred),
        loss=loss,
        groups=build_groups(processes, sessions),
        clocks=clocks,
        states=intervals("session_state", "state"),
        phases=intervals("session_phase", "phase"),
    )


def recorded_level(tables: Tables) -> str:
    """The recorder's level that the trace has: the highest of an event that it declares."""
    known = catalogue.load()
    levels = list(known.levels)
    found = [known.recorder_level(event) for event in tables.declared if event in known.events]
    return max(found, key=levels.index, default=levels[0])
