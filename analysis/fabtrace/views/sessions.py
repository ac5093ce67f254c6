# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace sessions DIR`: each session: who it is, how far it came, how its flow control went."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from fabtrace.model import Run
from fabtrace.model.accounts import CATEGORIES, build_accounts
from fabtrace.model.delays import Delays, build_delays
from fabtrace.model.flow import Flow, build_flow
from fabtrace.model.latency import PERCENTS
from fabtrace.model.sessions import Session
from fabtrace.views import form
from fabtrace.views.report_document import session_row, summary_part
from fabtrace.views.view import Document, View, head, print_title

VERSION = 1

DESCRIPTION = """\
List the sessions, both ends: bytes and throughput, target memory that was at hand, writes in flight,
fragments, completions out of order, deferrals, and how long messages took from one end to the other.
"""

EPILOG = """\
examples:
  fabtrace sessions run
  fabtrace sessions run --process put --worker 0
"""


def make(run: Run, options: argparse.Namespace) -> Document:
    """The document."""
    accounts = build_accounts(run.tables, run.sessions, run.workers, run.begin_ns, run.end_ns)
    walls = {account.session.key: account for account in accounts.sessions}
    rows = []
    for session in run.sessions:
        account = walls.get(session.key)
        row = session_row(session, run)
        row["run_id"] = f"{session.run_id:016x}"
        row["hostname"] = session.process.hostname
        row["begin_s"] = (session.begin_ns - run.begin_ns) / 1e9
        row["end_s"] = (session.last_ns - run.begin_ns) / 1e9
        row["addresses"] = session.addresses
        row["credit_bytes"] = session.counters["credit_bytes"]
        row["flow"] = flow_part(build_flow(run.operations, session)) if run.has_operations else None
        row["out_of_order_depth_max"] = depth(run, session) if run.has_operations else None
        row["account_shares"] = (
            None
            if account is None
            else {name: account.share(name) for name in CATEGORIES if account.share(name) > 0}
        )
        rows.append(row)
    return {
        **head("sessions", VERSION, run),
        "sessions": rows,
        "one_way": [delay_row(delays) for delays in build_delays(run)],
    }


def depth(run: Run, session: Session) -> int:
    """The most operations that one completion overtook."""
    mine = run.operations.of(session.key)
    return int(mine.earlier.max(initial=0))


def flow_part(flow: Flow | None) -> Document | None:
    """Memory and writes of a put session."""
    if flow is None:
        return None
    return {
        "offered_bytes_max": flow.offered_bytes,
        "no_memory_share": flow.starved_share,
        "in_flight_mean": flow.in_flight_mean,
        "in_flight_max": flow.in_flight_top,
    }


def delay_row(delays: Delays) -> Document:
    """How long the messages of a session took, one way."""
    return {
        "from": delays.sender.label,
        "to": delays.receiver.label,
        "kind": delays.kind,
        "count": delays.summary.count,
        **summary_part(delays.summary),
        "min_us": None if delays.min_ns is None else delays.min_ns / 1e3,
    }


def show(console: Console, document: Document) -> None:
    """The document as text."""
    rows = document["sessions"]
    print_title(console, document, f"{len(rows)} ends of sessions")
    if not rows:
        form.show(console, "No session in this part of the trace.")
        return
    form.heading(console, "Sessions (s: since the run's first event)")
    table = form.make_table(
        "session", "peer", "wk", "workload", "from s", "to s", "bytes", "MiB/s", "end",
        left=("session", "peer", "workload", "end"),
    )  # fmt: skip
    for row in rows:
        peer = row["peer"] or (f"pid {row['peer_pid']}" if row["peer_pid"] else form.UNKNOWN)
        worker = form.UNKNOWN if row["worker"] is None else str(row["worker"])
        table.add_row(
            row["session"], peer, worker, row["workload"] or form.UNKNOWN, form.seconds(row["begin_s"]),
            form.seconds(row["end_s"]), form.count(row["payload_bytes"], row["payload_bytes"] >= 10**10),
            form.rate(row["throughput_mib_s"]), row["outcome"],
        )  # fmt: skip
    form.show(console, table)
    print_flow(console, rows)
    print_delays(console, document["one_way"])


def print_flow(console: Console, rows: list[Document]) -> None:
    """Memory, writes, disorder."""
    form.heading(
        console,
        "Flow (no memory: % of the time from the first write to the last; split: splits a write)",
    )
    table = form.make_table(
        "session", "memory B", "no memory", "in flight", "most", "writes", "split %", "ooo %", "depth",
        "defer %", left=("session",),
    )  # fmt: skip
    for row in rows:
        flow = row["flow"]
        cells = (
            (form.UNKNOWN,) * 4
            if flow is None
            else (
                form.count(flow["offered_bytes_max"], compact=True),
                form.percent(flow["no_memory_share"]),
                f"{flow['in_flight_mean']:,.1f}",
                form.count(flow["in_flight_max"]),
            )
        )
        depth_max = row["out_of_order_depth_max"]
        table.add_row(
            row["session"], *cells, form.count(row["writes"], compact=True),
            form.percent(ratio(row["fragments"], row["writes"])),
            form.percent(ratio(row["out_of_order"], row["operations_completed"])),
            form.count(depth_max),
            form.percent(ratio(row["deferred"], row["operations"])),
        )  # fmt: skip
    form.show(console, table)


def ratio(part: int, whole: int) -> float | None:
    """A share; None of nothing."""
    return part / whole if whole else None


def print_delays(console: Console, rows: list[Document]) -> None:
    """One-way delays."""
    if not rows:
        return
    form.heading(
        console, "One-way delay in µs, from the post at one end to the completion at the other"
    )
    form.print_fitting(console, delay_table(rows, False), delay_table(rows, True))


def delay_table(rows: list[Document], compact: bool) -> Table:
    """A row a direction and kind of message."""
    table = form.make_table(
        "from", "to", "message", "count", "min", *(f"p{p}" for p in PERCENTS[:3]), "max",
        left=("from", "to", "message"),
    )  # fmt: skip
    names = ("min_us", *(f"p{p}_us" for p in PERCENTS[:3]), "max_us")
    for row in rows:
        table.add_row(
            row["from"], row["to"], row["kind"], form.count(row["count"], compact),
            *(form.micros(row[name], compact) for name in names),
        )  # fmt: skip
    return table


VIEW = View(
    "sessions", "each session: bytes, flow control, delays", DESCRIPTION, EPILOG, make, show
)
add_parser = VIEW.add_parser
