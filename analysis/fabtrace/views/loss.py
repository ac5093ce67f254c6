# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace loss DIR`: which events are missing, by thread, name and time."""

from __future__ import annotations

import argparse

from rich.console import Console

from fabtrace.model import Run
from fabtrace.model.keys import WRITER_THREADS, thread_name
from fabtrace.model.loss import Lost
from fabtrace.views import form
from fabtrace.views.report_document import loss_part, pairing_part
from fabtrace.views.report_text import print_loss, print_pairing
from fabtrace.views.view import Document, View, head, print_title

VERSION = 1
MOST_GAPS = 20

DESCRIPTION = """\
Which events are missing, counted from the writers' own numbers: by thread and name, and each gap with its
time; operations without their partner; what the tracer itself says (a hint: its counts are not exact). Where
events were lost, times are unknown, not invented. --session, --worker, --begin and --end do not apply.
"""

EPILOG = """\
examples:
  fabtrace loss run
  fabtrace loss run --json | jq .loss.lost_events
"""


def make(run: Run, options: argparse.Namespace) -> Document:
    """The document."""
    rows = [row for row in run.loss.rows if in_processes(run, row)]
    return {
        **head("loss", VERSION, run),
        "loss": loss_part(run),
        "gaps": [gap for row in rows for gap in gap_rows(run, row)],
        "pairing": pairing_part(run),
        "tracer_reports": [
            {
                "stream": hint.stream,
                "count": hint.count,
                "begin_ns": hint.begin_ns,
                "end_ns": hint.end_ns,
            }
            for hint in run.tables.discarded
        ],
        "unreadable": [{"path": p.path, "text": p.text} for p in run.tables.problems],
    }


def in_processes(run: Run, row: Lost) -> bool:
    """Whether the writer's process is shown."""
    return row.writer // WRITER_THREADS in run.by_instance


def gap_rows(run: Run, row: Lost) -> list[Document]:
    """The gaps of a thread's events of one name."""
    process = run.by_instance[row.writer // WRITER_THREADS]
    return [
        {
            "process": process.label,
            "thread": thread_name(row.writer),
            "event": row.event,
            "count": gap.count,
            "begin_s": (gap.begin_ns - run.begin_ns) / 1e9,
            "end_s": (gap.end_ns - run.begin_ns) / 1e9,
        }
        for gap in row.gaps
    ]


def show(console: Console, document: Document) -> None:
    """The document as text."""
    print_title(console, document, "what is missing")
    form.heading(console, "Events")
    print_loss(console, document["loss"])
    gaps = document["gaps"]
    if gaps:
        form.heading(
            console, f"Gaps: {len(gaps):,} (between two events of the same thread and name)"
        )
        table = form.make_table(
            "process",
            "thread",
            "event",
            "lost",
            "from s",
            "to s",
            left=("process", "thread", "event"),
        )
        for row in sorted(gaps, key=lambda row: float(row["begin_s"]))[:MOST_GAPS]:
            table.add_row(
                row["process"], row["thread"], row["event"], form.count(row["count"]),
                f"{row['begin_s']:,.6f}", f"{row['end_s']:,.6f}",
            )  # fmt: skip
        form.show(console, table)
        if len(gaps) > MOST_GAPS:
            form.show(console, f"and {len(gaps) - MOST_GAPS:,} more (--json has all)")
    for row in document["unreadable"]:
        form.show(console, f"could not be read: {row['path']}: {row['text']}")
    form.heading(console, "Operations")
    if document["trace"]["level"] == "light":
        form.show(console, "Operations are not recorded at level light.")
    print_pairing(console, document["pairing"])


VIEW = View("loss", "which events are missing", DESCRIPTION, EPILOG, make, show)
add_parser = VIEW.add_parser
