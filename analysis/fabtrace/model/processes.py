# SPDX-License-Identifier: BSD-3-Clause
"""The processes of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fabtrace import catalogue
from fabtrace.model.keys import WRITER_THREADS, first_rows, instances, last_rows
from fabtrace.model.writers import Written, scan_writers
from fabtrace.tables import Table, Tables

UNKNOWN_ROLE = "unknown"


@dataclass(frozen=True)
class ProcessEnd:
    """What a process said at its end."""

    exit_code: int
    ok: int
    failed: int
    cancelled: int
    dropped: int


@dataclass(frozen=True)
class Process:
    """A process. Facts that the trace does not hold are empty or 0.

    `label` is how the views name it: its role, with a number if several have that role. `started`
    says that its start is in the trace, so that events from the first on must be there. `end` is None
    if it was killed, or still ran when the recording stopped.
    """

    instance: int
    label: str
    role: str
    pid: int
    run_id: int
    hostname: str
    provider: str
    engine_version: str
    libfabric_version: str
    command_line: str
    sessions: int
    workers: int
    started: bool
    begin_ns: int
    last_ns: int
    end: ProcessEnd | None


def build_processes(tables: Tables, written: Mapping[str, Written] | None = None) -> list[Process]:
    """All processes that wrote an event: get first, then by time of their first event."""
    spans = event_spans(tables, scan_writers(tables) if written is None else written)
    described = tables["process"]
    rows = first_rows(instances(described))
    start = described["cause"] == catalogue.load().code("cause", "start")
    started = set(instances(described)[start].tolist())
    run_ids = known_run_ids(tables)
    roles = {
        instance: (
            catalogue.load().label("role", int(described["role"][rows[instance]]))
            if instance in rows
            else UNKNOWN_ROLE
        )
        for instance in spans
    }
    ends = build_ends(tables)
    order = sorted(spans, key=lambda instance: (roles[instance], spans[instance]))
    labels = make_labels([roles[instance] for instance in order])
    processes = []
    for instance, label in zip(order, labels):
        row = rows.get(instance)
        facts = described.rows(slice(row, row + 1) if row is not None else slice(0, 0))
        processes.append(
            Process(
                instance=instance,
                label=label,
                role=roles[instance],
                pid=number(facts, "pid"),
                run_id=run_ids.get(instance, 0),
                hostname=text(facts, "hostname"),
                provider=text(facts, "provider"),
                engine_version=text(facts, "engine_version"),
                libfabric_version=text(facts, "libfabric_version"),
                command_line=text(facts, "command_line"),
                sessions=number(facts, "sessions"),
                workers=number(facts, "workers"),
                started=instance in started,
                begin_ns=spans[instance][0],
                last_ns=spans[instance][1],
                end=ends.get(instance),
            )
        )
    return processes


def known_run_ids(tables: Tables) -> dict[int, int]:
    """The run id of each process instance of which it is known.

    A get that was started alone learns it from its first put: a later `process` event has it, or its
    sessions have.
    """
    found: dict[int, int] = {}
    for table in (tables["session_open"], tables["process"]):
        known = table.rows(np.flatnonzero(table["run_id"] != 0))
        for instance, row in first_rows(instances(known)).items():
            found[instance] = int(known["run_id"][row])
    return found


def number(facts: Table, column: str) -> int:
    """A number of the only row; 0 if there is no row."""
    return int(facts[column][0]) if len(facts) else 0


def text(facts: Table, column: str) -> str:
    """A text of the only row; empty if there is no row."""
    return str(facts[column][0]) if len(facts) else ""


def event_spans(tables: Tables, written: Mapping[str, Written]) -> dict[int, tuple[int, int]]:
    """Time of the first and the last event of each process instance."""
    spans: dict[int, tuple[int, int]] = {}
    for event, seen in written.items():
        times = tables[event].times
        for writer, first, last in zip(seen.writers.tolist(), seen.first, seen.last):
            instance, begin, end = writer // WRITER_THREADS, int(times[first]), int(times[last])
            old = spans.get(instance, (begin, end))
            spans[instance] = (min(begin, old[0]), max(end, old[1]))
    return spans


def build_ends(tables: Tables) -> dict[int, ProcessEnd]:
    """What each process instance said at its end."""
    table = tables["process_end"]
    return {
        instance: ProcessEnd(
            *(
                int(table[name][row])
                for name in ("exit_code", "ok", "failed", "cancelled", "dropped")
            )
        )
        for instance, row in last_rows(instances(table)).items()
    }


def make_labels(roles: list[str]) -> list[str]:
    """A name a process: `get`, or `put0`, `put1`, ... where a role is there several times."""
    labels = []
    seen: dict[str, int] = {}
    for role in roles:
        number = seen.get(role, 0)
        seen[role] = number + 1
        labels.append(role if roles.count(role) == 1 else f"{role}{number}")
    return labels


def trace_span(processes: list[Process]) -> tuple[int, int]:
    """Time of the first and the last event of the run; (0, 0) if there is none."""
    if not processes:
        return 0, 0
    begin = min(process.begin_ns for process in processes)
    return begin, max(process.last_ns for process in processes)
