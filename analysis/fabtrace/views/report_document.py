# SPDX-License-Identifier: BSD-3-Clause
"""The report as a document of plain values; `--json` prints it and the text is made from it.

Its shape is described in doc/analysis-json.md. Adding a key keeps VERSION, any other change raises it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fabtrace import catalogue, snapshot
from fabtrace.model import Run
from fabtrace.model.clocks import ClockLink
from fabtrace.model.keys import (
    NO_SESSION,
    WRITER_THREADS,
    instances,
    session_keys,
    split,
    thread_name,
)
from fabtrace.model.latency import DEFINITION, PERCENTS, KindLatency, Summary
from fabtrace.model.loss import Lost
from fabtrace.model.processes import Process
from fabtrace.model.sessions import Session
from fabtrace.model.workers import Worker

SCHEMA = "fabtrace.report"
VERSION = 1

# Events that say that something went wrong, besides `error`.
WARNINGS = ("payload_mismatch", "leak", "initial_dropped", "stray_completion")

Document = dict[str, Any]


def make_report(run: Run) -> Document:
    """The whole report."""

    def in_run(session: Session) -> int:
        return run.group_numbers[session.process.instance]

    sessions = sorted(run.sessions, key=in_run)  # stable: within a run as they are
    processes = sorted(run.processes, key=lambda process: run.group_numbers[process.instance])
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "trace": trace_part(run),
        "summary": bounded_part(run),
        "snapshot": snapshot_part(run),
        "processes": [process_row(process, run) for process in processes],
        "runs": run_rows(run),
        "clocks": [clock_row(link) for link in run.clocks],
        "sessions": [session_row(session, run) for session in sessions],
        "totals": [
            total_row(number, role, [s for s in sessions if (in_run(s), s.role) == (number, role)])
            for number, role in sorted({(in_run(s), s.role) for s in sessions})
        ],
        "workers": [worker_row(worker) for worker in run.workers],
        "latency": {
            "definition": DEFINITION,
            "percentiles": percentiles_text(run),
            "kinds": [latency_row(row) for row in run.latency],
        },
        "loss": loss_part(run),
        "pairing": pairing_part(run),
        "errors": error_rows(run),
        "warnings": {name: count_events(run, name) for name in WARNINGS},
    }


def count_events(run: Run, event: str) -> int:
    """The events of a name in the part of the trace that is shown."""
    table = run.tables[event]
    if not run.narrowed:
        return len(table)
    mine = np.isin(instances(table), [process.instance for process in run.processes])
    return int(np.count_nonzero(mine & (table.times >= run.begin_ns) & (table.times <= run.end_ns)))


def trace_part(run: Run) -> Document:
    """What the trace is."""
    versions = run.tables["process"]["schema_version"]
    return {
        "path": run.tables.source,
        "schema_version": int(versions.max()) if len(versions) else None,
        "level": run.level,
        "events": (
            sum(count_events(run, event) for event in run.tables.tables)
            if run.narrowed
            else run.tables.events
        ),
        "begin_ns": run.begin_ns,
        "end_ns": run.end_ns,
        "duration_s": (run.end_ns - run.begin_ns) / 1e9,
    }


def bounded_part(run: Run) -> Document | None:
    """What is not exact in a report that was made in bounded memory; None of any other."""
    if run.bounded is None:
        return None
    return {
        "percentile_error": run.bounded.percentile_error,
        "clocks_compared": False,
        "operations_forgotten": run.bounded.forgotten_operations,
    }


def percentiles_text(run: Run) -> str:
    """How percentiles were determined."""
    text = "nearest rank: sample number ceil(p/100 * count) of the sorted ones"
    if run.bounded is None:
        return f"exact, {text}"
    return f"within {run.bounded.percentile_error:.2%} of the exact ones, {text}"


def snapshot_part(run: Run) -> Document | None:
    """What a flight recorder's snapshot covers; None if the trace is none."""
    covered = snapshot.read(Path(run.tables.source))
    if covered is None:
        return None
    return {
        "cause": covered.cause,
        "begin_ns": covered.from_ns,
        "complete_from_ns": covered.complete_from_ns,
        "end_ns": covered.to_ns,
    }


def run_rows(run: Run) -> list[Document]:
    """The runs in the trace (of a part of it: those of its processes)."""
    shown = {process.instance for process in run.processes}
    return [
        {
            "run": group.number,
            "run_id": f"{group.run_id:016x}",
            "processes": [process.label for process in group.processes],
            "hosts": sorted({process.hostname for process in group.processes}),
            "begin_s": (group.begin_ns - run.begin_ns) / 1e9,
            "end_s": (group.end_ns - run.begin_ns) / 1e9,
        }
        for group in run.groups
        if shown & {process.instance for process in group.processes}
    ]


def clock_row(link: ClockLink) -> Document:
    """What is known of a clock against another."""
    skew = link.skew
    finite = skew is not None and np.isfinite(skew.bound_ns).all()
    return {
        "clock": link.clock,
        "against": link.against,
        "applied": link.applied,
        "messages_to_clock": link.messages[0],
        "messages_from_clock": link.messages[1],
        "offset_us": None if skew is None else (skew.base_ns + skew.offset_ns) / 1e3,
        "at_ns": None if skew is None else skew.origin_ns,
        "last_ns": None if skew is None else skew.last_ns,
        "drift_ppm": None if skew is None else skew.drift * 1e6,
        "margin_us": None if skew is None else skew.margin_ns / 1e3,
        "bound_us": max(skew.bound_ns) / 1e3 if skew is not None and finite else None,
        "bound_at_begin_us": skew.bound_ns[0] / 1e3 if skew is not None and finite else None,
        "bound_at_end_us": skew.bound_ns[1] / 1e3 if skew is not None and finite else None,
    }


def process_row(process: Process, run: Run) -> Document:
    """A process."""
    end = process.end
    return {
        "process": process.label,
        "run": run.group_numbers[process.instance],
        "role": process.role,
        "pid": process.pid,
        "hostname": process.hostname,
        "instance": process.instance,
        "run_id": f"{process.run_id:016x}",
        "provider": process.provider,
        "engine_version": process.engine_version,
        "libfabric_version": process.libfabric_version,
        "command_line": process.command_line,
        "sessions": process.sessions,
        "workers": process.workers,
        "begin_s": (process.begin_ns - run.begin_ns) / 1e9,
        "end_s": (process.last_ns - run.begin_ns) / 1e9,
        "start_recorded": process.started,
        "end_recorded": end is not None,
        "exit_code": end.exit_code if end else None,
        "sessions_ok": end.ok if end else None,
        "sessions_failed": end.failed if end else None,
        "sessions_cancelled": end.cancelled if end else None,
        "initials_dropped": end.dropped if end else None,
    }


def session_row(session: Session, run: Run) -> Document:
    """A session, one end of it."""
    counters = session.counters
    return {
        "session": session.label,
        "run": run.group_numbers[session.process.instance],
        "process": session.process.label,
        "number": session.number,
        "role": session.role,
        "worker": session.worker,
        "peer": session.peer.label if session.peer else None,
        "peer_pid": session.peer_pid,
        "workload": session.workload,
        "total_bytes": session.total_bytes,
        "payload_bytes": session.payload_bytes,
        "elapsed_s": None if session.elapsed_ns is None else session.elapsed_ns / 1e9,
        "throughput_mib_s": session.mib_per_s,
        "handshake_us": None if session.handshake_ns is None else session.handshake_ns / 1e3,
        "operations": counters["ops_posted"],
        "operations_completed": counters["ops_completed"],
        "writes": counters["writes"],
        "fragments": counters["fragments"],
        "out_of_order": counters["out_of_order"],
        "deferred": counters["deferred"],
        "vectors": counters["vectors"],
        "progresses": counters["progresses"],
        "registrations": counters["registrations"],
        "registration_us": counters["registration_ns"] / 1e3,
        "errors": session.errors,
        "outcome": session.outcome,
        "reason": session.reason,
        "state_shares": run.states.shares(session.key, "state"),
    }


def total_row(number: int, role: str, mine: list[Session]) -> Document:
    """All sessions of a role in a run; the time is from the first start to the last end."""
    spans = [
        (session.start_ns, session.start_ns + session.elapsed_ns)
        for session in mine
        if session.start_ns is not None and session.elapsed_ns is not None
    ]
    elapsed_ns = max(end for _, end in spans) - min(begin for begin, _ in spans) if spans else None
    payload_bytes = sum(session.payload_bytes for session in mine)
    total: Document = {
        "run": number,
        "role": role,
        "sessions": len(mine),
        "payload_bytes": payload_bytes,
        "elapsed_s": None if elapsed_ns is None else elapsed_ns / 1e9,
        "throughput_mib_s": payload_bytes / 2**20 / (elapsed_ns / 1e9) if elapsed_ns else None,
    }
    for key, counter in (
        ("operations", "ops_posted"),
        ("writes", "writes"),
        ("fragments", "fragments"),
        ("out_of_order", "out_of_order"),
        ("deferred", "deferred"),
    ):
        total[key] = sum(session.counters[counter] for session in mine)
    return total


def worker_row(worker: Worker) -> Document:
    """A worker."""
    wall = worker.wall_ns
    return {
        "process": worker.process.label,
        "worker": worker.number,
        "tid": worker.tid,
        "pinned_cpu": worker.pinned_cpu,
        "cpus": list(worker.cpus),
        "wait_mode": worker.wait_mode,
        "sessions": worker.sessions,
        "wall_s": wall / 1e9,
        "utilisation": worker.utilisation,
        "idle_share": worker.idle_ns / wall if wall else None,
        "asleep_share": worker.asleep_ns / wall if wall else None,
        "cpu_time_s": worker.cpu_time_ns / 1e9,
        "load_average": worker.load_average,
        "loops": worker.loops,
        "contexts": worker.contexts,
        "migrations": worker.migrations,
    }


def summary_part(summary: Summary) -> Document:
    """Percentiles, maximum and mean of latencies, in µs."""

    def micros(value: float | None) -> float | None:
        return None if value is None else value / 1e3

    values = zip(PERCENTS, summary.percentiles_ns)
    return {
        **{f"p{percent}_us": micros(value) for percent, value in values},
        "max_us": micros(summary.max_ns),
        "mean_us": micros(summary.mean_ns),
    }


def latency_row(row: KindLatency) -> Document:
    """Latencies of a kind of operation."""
    document: Document = {"kind": row.kind, "count": row.count}
    document |= summary_part(row.summary)
    document["errors"] = row.errors
    document["cancelled"] = row.cancelled
    document["abandoned"] = row.abandoned
    return document


def loss_part(run: Run) -> Document:
    """Events that are missing."""
    processes = run.by_instance

    def name(writer: int) -> Document:
        process = processes[writer // WRITER_THREADS]
        return {"process": process.label, "thread": thread_name(writer)}

    rows = [row for row in run.loss.rows if row.writer // WRITER_THREADS in processes]
    overwritten = overwritten_events(run, rows)
    return {
        "lost_events": sum(row.total for row in rows) - overwritten,
        "overwritten_events": overwritten,
        "rows": [
            {
                **name(row.writer),
                "event": row.event,
                "seen": row.seen,
                "lost_at_start": row.head,
                "lost_between": row.middle,
                "lost_at_end": row.tail,
                "first_gap_s": None if row.gap_ns is None else (row.gap_ns - run.begin_ns) / 1e9,
            }
            for row in rows
        ],
        "threads_without_end": [
            name(writer)
            for writer in run.loss.open_writers
            if writer // WRITER_THREADS in processes
        ],
        "tracer_reports": [
            {"stream": hint.stream, "count": hint.count} for hint in run.tables.discarded
        ],
    }


def overwritten_events(run: Run, rows: list[Lost]) -> int:
    """Of those that a snapshot lacks, how many went before all rings reached back so far: no loss."""
    covered = snapshot.read(Path(run.tables.source))
    if covered is None:
        return 0
    return sum(
        row.head + sum(gap.count for gap in row.gaps if gap.begin_ns < covered.complete_from_ns)
        for row in rows
    )


def pairing_part(run: Run) -> Document:
    """Operations with and without their partner event."""
    labels = catalogue.load()
    names = ("paired", "abandoned", "posts_without_end", "ends_without_post", "deferred_for_ever")
    document: Document = {
        "recorded": run.has_operations,
        **{name: sum(getattr(row, name) for row in run.pairing) for name in names},
    }
    document["unpaired"] = document["posts_without_end"] + document["ends_without_post"]
    order = {process.instance: place for place, process in enumerate(run.processes)}
    document["rows"] = [
        {
            "process": run.by_instance[row.instance].label,
            "kind": labels.label("kind", row.kind),
            **{name: getattr(row, name) for name in names},
        }
        for row in sorted(run.pairing, key=lambda row: (order[row.instance], row.kind))
    ]
    return document


def error_rows(run: Run) -> list[Document]:
    """All `error` events, in time order."""
    table = run.tables["error"]
    rows = []
    for row, key in enumerate(session_keys(table).tolist()):
        instance, session = split(key)
        if instance not in run.by_instance:
            continue
        rows.append(
            {
                "process": run.by_instance[instance].label,
                "session": None if session == NO_SESSION else session,
                "time_s": (int(table.times[row]) - run.begin_ns) / 1e9,
                "code": int(table["code"][row]),
                "text": str(table["text"][row]),
            }
        )
    return rows
