# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace latency DIR`: how long operations took, by kind, session, worker, size or time."""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fabtrace import catalogue
from fabtrace.model import Run
from fabtrace.model.delays import build_delays
from fabtrace.model.keys import Index
from fabtrace.model.latency import (
    DEFINITION,
    PERCENTS,
    Summary,
    by_group,
    size_classes,
    summarise,
)
from fabtrace.model.operations import Operations
from fabtrace.views import form
from fabtrace.views.report_document import summary_part
from fabtrace.views.report_text import print_kinds
from fabtrace.views.select import number_option
from fabtrace.views.sessions import delay_row, print_delays
from fabtrace.views.view import Document, View, head, needs_operations, print_title

VERSION = 1
DIMENSIONS = ("kind", "session", "worker", "size", "time")

DESCRIPTION = """\
Exact percentiles of how long operations took, from the posting call to the completion, up to p99.99 and the
maximum: by kind of operation, and with --by within each kind by session, worker, size or window of time.
With both ends in the trace also how long messages took one way. Percentiles are nearest rank. Only
operations that completed well and whose post is in the trace count; the latency of a receive is how long
it waited for its message.
"""

EPILOG = """\
examples:
  fabtrace latency run
  fabtrace latency run --kind write --by session
  fabtrace latency run --kind write --by time --windows 20
"""


def options(parser: argparse.ArgumentParser) -> None:
    """The options of its own."""
    parser.add_argument(
        "--kind",
        choices=catalogue.load().enums["kind"],
        metavar="KIND",
        help="only operations of this kind: " + ", ".join(catalogue.load().enums["kind"]),
    )
    parser.add_argument(
        "--by", choices=DIMENSIONS, default="kind", metavar="WHAT",
        help="within each kind by: " + ", ".join(DIMENSIONS[1:]),
    )  # fmt: skip
    parser.add_argument(
        "--windows", type=number_option, default=10, metavar="N",
        help="with --by time: equal windows (default 10)",
    )  # fmt: skip


def make(run: Run, options_: argparse.Namespace) -> Document:
    """The document."""
    good = run.operations.rows(np.flatnonzero(run.operations.succeeded))
    known = catalogue.load()
    rows = []
    for code in np.unique(good.kind).tolist():
        kind = known.label("kind", code)
        if options_.kind not in (None, kind):
            continue
        mine = good.rows(np.flatnonzero(good.kind == code))
        for group, summary in grouped(run, mine, options_):
            rows.append(
                {"kind": kind, "group": group, "count": summary.count, **summary_part(summary)}
            )
    one_way = options_.by == "kind" and options_.kind is None
    return {
        **head("latency", VERSION, run),
        "definition": DEFINITION,
        "by": options_.by,
        "rows": rows,
        "one_way": [delay_row(delays) for delays in build_delays(run)] if one_way else [],
    }


def grouped(
    run: Run, mine: Operations, options_: argparse.Namespace
) -> list[tuple[str | None, Summary]]:
    """Summaries of the operations of a kind, by what was asked for."""
    latency = mine.latency_ns
    if options_.by == "kind":
        return [(None, summarise(latency))]
    index, names = group_index(run, mine, options_)
    summaries = by_group(latency, index, len(names))
    return [(name, summary) for name, summary in zip(names, summaries) if summary.count]


def group_index(
    run: Run, mine: Operations, options_: argparse.Namespace
) -> tuple[Index, list[str]]:
    """Each operation's group, and the names of the groups."""
    if options_.by == "size":
        return size_classes(mine.len_bytes)
    if options_.by == "time":
        span = max(run.end_ns - run.begin_ns, 1)
        windows = options_.windows
        place = (mine.begin_ns - run.begin_ns) * windows // span
        names = [f"{span * number / windows / 1e9:.6f} s" for number in range(windows)]
        return np.clip(place, 0, windows - 1).astype(np.int32), names
    if options_.by == "session":
        names = [run.session_label(key) for key in mine.keys.tolist()]
        return mine.owner, names
    workers = [run.worker_label(key) for key in mine.keys.tolist()]
    unique = sorted(set(workers))
    places = np.array([unique.index(worker) for worker in workers], np.int32)
    return places[mine.owner] if len(mine) else mine.owner, unique


def show(console: Console, document: Document) -> None:
    """The document as text."""
    print_title(console, document, "latency of operations in µs")
    if needs_operations(console, document):
        return
    rows = document["rows"]
    if not rows:
        form.show(
            console, "No operation with these properties ended well in this part of the trace."
        )
        return
    form.heading(
        console, "From the posting call to the completion (of a receive: how long it waited)"
    )
    by = document["by"]
    form.print_fitting(console, *(latency_table(rows, by, compact) for compact in (False, True)))
    print_kinds(console, rows)
    if document["one_way"]:
        print_one_way(console, document["one_way"])


def latency_table(rows: list[Document], by: str, compact: bool) -> Table:
    """A row a kind and group."""
    percents = [f"p{percent}" for percent in PERCENTS]
    names = ["operation"] + ([] if by == "kind" else [by])
    table = form.make_table(
        *names, "count", "mean", *percents, "max", left=("operation", "session", "worker")
    )
    last = None
    for row in rows:
        kind = row["kind"] if row["kind"] != last else ""
        last = row["kind"]
        first = [kind] if by == "kind" else [kind, row["group"]]
        table.add_row(
            *first, form.count(row["count"], compact), form.micros(row["mean_us"], compact),
            *(form.micros(row[f"{percent}_us"], compact) for percent in percents),
            form.micros(row["max_us"], compact),
        )  # fmt: skip
    return table


def print_one_way(console: Console, rows: list[Document]) -> None:
    """One-way delays of all sessions, briefly."""
    most = 12
    print_delays(console, rows[:most])
    if len(rows) > most:
        form.show(console, Text(f"and {len(rows) - most} more (--json has all)", style="dim"))


VIEW = View(
    "latency", "percentiles of operations, by kind, session, size, time",
    DESCRIPTION, EPILOG, make, show, options,
)  # fmt: skip
add_parser = VIEW.add_parser
