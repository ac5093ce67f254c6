# SPDX-License-Identifier: BSD-3-Clause
"""One pass over a trace, window by window; then the model of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabtrace.model.bounded.histogram import ERROR
from fabtrace.model.bounded.numbers import Ledger
from fabtrace.model.bounded.operations import OperationTotals
from fabtrace.model.bounded.states import StateTotals, no_intervals
from fabtrace.model.groups import build_groups
from fabtrace.model.keys import session_index
from fabtrace.model.loss import build_loss
from fabtrace.model.operations import build_operations
from fabtrace.model.processes import build_processes, trace_span
from fabtrace.model.run import Bounded, Run, recorded_level
from fabtrace.model.sessions import (
    SESSION_EVENTS,
    Owners,
    assemble_sessions,
    count_operations,
    session_spans,
    state_begins,
    state_ends,
)
from fabtrace.model.workers import build_workers
from fabtrace.tables import Tables

# About 100 MB while it is looked at, however long the trace is.
WINDOW_EVENTS = 1_000_000


@dataclass
class SessionTotals:
    """What the windows say of each session, by its key: first and last time, counts of operations."""

    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    counted: dict[str, dict[int, int]] = field(default_factory=dict)

    def add(self, window: Tables, owners: Mapping[str, Owners]) -> None:
        """Add a window."""
        for key, (begin, end) in session_spans(window, owners).items():
            old = self.spans.get(key, (begin, end))
            self.spans[key] = min(begin, old[0]), max(end, old[1])
        found = count_operations(window, owners["op_post"], owners["op_complete"])
        for name, counts in found.items():
            mine = self.counted.setdefault(name, {})
            for key, count in counts.items():
                mine[key] = mine.get(key, 0) + count


def window_owners(window: Tables) -> dict[str, Owners]:
    """Whose the rows of each table that mentions sessions are."""
    found = {}
    for event in SESSION_EVENTS:
        keys, (index,) = session_index(window[event])
        found[event] = Owners(keys, index)
    return found


def build_bounded(tables: Tables, window_events: int = WINDOW_EVENTS) -> Run:
    """The model of a trace, in memory that does not grow with it."""
    ledger, operations = Ledger(), OperationTotals()
    sessions, states = SessionTotals(), StateTotals()
    for window in tables.windows(window_events):
        losses = ledger.add(window)
        owners = window_owners(window)
        sessions.add(window, owners)
        operations.add(window)
        transitions = window["session_state"]
        states.add(transitions, owners["session_state"], losses.get("session_state", {}))
    operations.finish()
    run = assemble(tables, ledger, operations, sessions, states)
    tables.release()
    return run


def assemble(
    tables: Tables,
    ledger: Ledger,
    operations: OperationTotals,
    totals: SessionTotals,
    states: StateTotals,
) -> Run:
    """The model from what the windows gave; only single rows of the tables are looked at."""
    written = ledger.written()
    processes = build_processes(tables, written)
    by_instance = {process.instance: process for process in processes}
    sessions = assemble_sessions(tables, by_instance, totals.spans, totals.counted)
    begins = state_begins(sessions) if "session_state" in tables.declared else {}
    begin_ns, end_ns = trace_span(processes)
    none = Tables({}, frozenset())
    return Run(
        tables=tables,
        level=recorded_level(tables),
        begin_ns=begin_ns,
        end_ns=end_ns,
        processes=processes,
        workers=build_workers(tables, by_instance),
        sessions=sessions,
        operations=build_operations(none),
        latency=operations.latency(),
        never_posted=none["op_defer"],
        pairing=operations.pairing(),
        loss=build_loss(tables, by_instance, written, ledger.numbers),
        groups=build_groups(processes, sessions),
        states=states.finish(begins, state_ends(sessions)),
        phases=no_intervals(),
        bounded=Bounded(ERROR, operations.forgotten),
    )
