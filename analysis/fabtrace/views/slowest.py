# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace slowest DIR`: the operations that took longest, with what was around them, and open ones."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from fabtrace import catalogue
from fabtrace.model import Run
from fabtrace.model.context import Stall, describe, find_stalls, open_operations
from fabtrace.model.latency import is_receive, slowest
from fabtrace.model.operations import Operations
from fabtrace.views import form
from fabtrace.views.select import number_option
from fabtrace.views.view import Document, View, head, needs_operations, print_title

VERSION = 1
DEFAULT = 10

DESCRIPTION = """\
The operations that took longest, each with what happened meanwhile: how many operations of its session were
in flight, how many it had overtaken or was overtaken by, whether it was deferred, what its session waited
for, and how much of that time its worker was off its processor or asleep. Receives are left out: they
wait for their message. Then the longest stalls (times in which a session's payload did not move), and
the operations without an end in the trace.
"""

EPILOG = """\
examples:
  fabtrace slowest run -n 20
  fabtrace slowest run --kind write --session put:0
  fabtrace timeline run --session put:0 --events --begin 12ms   around one
"""


def options(parser: argparse.ArgumentParser) -> None:
    """The options of its own."""
    parser.add_argument(
        "-n", "--number", type=number_option, default=DEFAULT, metavar="N",
        help=f"how many of each (default {DEFAULT})",
    )  # fmt: skip
    parser.add_argument(
        "--kind", choices=catalogue.load().enums["kind"], metavar="KIND",
        help="only operations of this kind, a receive too: " + ", ".join(catalogue.load().enums["kind"]),
    )  # fmt: skip


def make(run: Run, options_: argparse.Namespace) -> Document:
    """The document."""
    known = catalogue.load()
    kinds = known.enums["kind"]
    receive = is_receive(kinds)
    wanted = np.zeros(256, bool)
    wanted[: len(kinds)] = (
        ~receive if options_.kind is None else [k == options_.kind for k in kinds]
    )
    mine = run.operations.rows(np.flatnonzero(wanted[run.operations.kind]))
    found = slowest(mine, options_.number)
    unended = open_operations(mine)
    oldest = unended.rows(np.argsort(unended.begin_ns, kind="stable")[: options_.number])
    return {
        **head("slowest", VERSION, run),
        "operations": [operation_row(run, found, row) for row in range(len(found))],
        "stalls": [stall_row(run, stall) for stall in find_stalls(run, options_.number)],
        "open_count": len(unended),
        "open": [open_row(run, oldest, row) for row in range(len(oldest))],
    }


def identity(run: Run, operations: Operations, row: int) -> Document:
    """What an operation is."""
    known = catalogue.load()
    return {
        "session": run.session_label(int(operations.session[row])),
        "op": int(operations.op[row]),
        "kind": known.label("kind", int(operations.kind[row])),
        "len_bytes": int(operations.len_bytes[row]),
        "begin_s": (int(operations.begin_ns[row]) - run.begin_ns) / 1e9,
    }


def operation_row(run: Run, operations: Operations, row: int) -> Document:
    """One of the slowest, with its context."""
    context: dict[str, Any] = describe(run, operations, row)
    return {
        **identity(run, operations, row),
        "latency_us": int(operations.latency_ns[row]) / 1e3,
        "call_us": int(operations.call_ns[row]) / 1e3,
        **context,
    }


def open_row(run: Run, operations: Operations, row: int) -> Document:
    """An operation without an end."""
    age = run.end_ns - int(operations.begin_ns[row])
    return {**identity(run, operations, row), "open_for_us": age / 1e3}


def stall_row(run: Run, stall: Stall) -> Document:
    """A stall."""
    return {
        "session": stall.session.label,
        "begin_s": (stall.begin_ns - run.begin_ns) / 1e9,
        "duration_us": (stall.end_ns - stall.begin_ns) / 1e3,
        "state_shares": stall.states,
    }


def show(console: Console, document: Document) -> None:
    """The document as text."""
    print_title(console, document, "the slowest operations")
    if needs_operations(console, document):
        return
    rows = document["operations"]
    if not rows:
        form.show(
            console, "No operation with these properties ended well in this part of the trace."
        )
    else:
        form.heading(console, "Slowest (at s: since the run's first event)")
        for row in rows:
            print_operation(console, row)
    if document["stalls"]:
        form.heading(console, "Longest stalls: a session's payload did not move")
        table = form.make_table(
            "session", "at s", "µs", "waited for", left=("session", "waited for")
        )
        for row in document["stalls"]:
            table.add_row(
                row["session"], f"{row['begin_s']:,.6f}", form.micros(row["duration_us"]),
                form.shares(row["state_shares"]) or form.UNKNOWN,
            )  # fmt: skip
        form.show(console, table)
    print_open(console, document)


def print_operation(console: Console, row: Document) -> None:
    """An operation: a line with what it is, a line with its context."""
    what = f"{row['session']} #{row['op']} {row['kind']}, {row['len_bytes']:,} B"
    form.show(
        console,
        Text(f"{form.micros(row['latency_us']):>12} µs  {what}, at {row['begin_s']:,.6f} s"),
    )
    parts = [f"call {form.micros(row['call_us'])} µs", f"{row['in_flight']} in flight"]
    if row["deferred_us"] is not None:
        parts.append(f"deferred for {form.micros(row['deferred_us'])} µs before")
    if row["overtaken_by"]:
        parts.append(f"overtaken by {row['overtaken_by']:,}")
    if row["worker_asleep_us"]:
        parts.append(f"worker asleep {form.micros(row['worker_asleep_us'])} µs")
    if row["longest_silence_us"] > row["latency_us"] / 2:
        parts.append(f"worker silent for {form.micros(row['longest_silence_us'])} µs")
    states = form.shares(row["state_shares"])
    if states:
        parts.append(f"session in {states}")
    form.paragraph(console, "; ".join(parts), " " * 17, " " * 17, style="dim")


def print_open(console: Console, document: Document) -> None:
    """Operations without an end."""
    if not document["open_count"]:
        return
    form.heading(
        console, f"Open: {document['open_count']:,} posts without an end in the trace, the oldest"
    )
    table = form.make_table(
        "session", "op", "kind", "bytes", "at s", "open for µs", left=("session", "kind")
    )
    for row in document["open"]:
        table.add_row(
            row["session"], f"#{row['op']}", row["kind"], form.count(row["len_bytes"]),
            f"{row['begin_s']:,.6f}", form.micros(row["open_for_us"]),
        )  # fmt: skip
    form.show(console, table)


VIEW = View(
    "slowest", "the slowest operations with their context, stalls, open operations",
    DESCRIPTION, EPILOG, make, show, options,
)  # fmt: skip
add_parser = VIEW.add_parser
