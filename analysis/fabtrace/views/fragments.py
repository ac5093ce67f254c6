# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace fragments DIR`: how payload buffers were split, and how long their pieces took together."""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from fabtrace.model import Run
from fabtrace.model.flow import Fragments, build_fragments
from fabtrace.model.latency import PERCENTS, summarise
from fabtrace.views import form
from fabtrace.views.report_document import summary_part
from fabtrace.views.view import Document, View, head, needs_operations, print_title

VERSION = 1

DESCRIPTION = """\
The payload buffers that went out in pieces, by session: how many, in how many pieces, how large the pieces
were, and how long it took from the post of a buffer's first piece to the completion of its last.
A buffer in k pieces counts as k - 1 fragments elsewhere: the last piece is what remained of it.
"""

EPILOG = """\
examples:
  fabtrace fragments run
  fabtrace fragments run --json | jq '.sessions[0].pieces_histogram'
"""


def make(run: Run, options: argparse.Namespace) -> Document:
    """The document."""
    rows = []
    for session in run.sessions:
        found = build_fragments(run.tables, run.operations, session)
        if found is not None:
            rows.append(fragments_row(found))
    return {**head("fragments", VERSION, run), "sessions": rows}


def fragments_row(found: Fragments) -> Document:
    """A session's fragments."""
    session, writes = found.session, found.session.counters["writes"]
    summary = summarise(found.together_ns)
    return {
        "session": session.label,
        "buffers_split": found.split,
        "pieces": found.pieces,
        "pieces_bytes": found.bytes,
        "payload_share": found.bytes / session.payload_bytes if session.payload_bytes else None,
        "fragments_a_write": session.counters["fragments"] / writes if writes else None,
        "pieces_histogram": {str(pieces): number for pieces, number in found.histogram.items()},
        "piece_min_bytes": found.smallest_bytes,
        "piece_median_bytes": found.median_bytes,
        "piece_max_bytes": found.largest_bytes,
        "buffers_incomplete": found.incomplete,
        "whole_buffer": {"count": summary.count, **summary_part(summary)},
    }


def show(console: Console, document: Document) -> None:
    """The document as text."""
    print_title(console, document, "fragments")
    if needs_operations(console, document):
        return
    rows = document["sessions"]
    if not rows:
        form.show(console, "No payload buffer was split in this part of the trace.")
        return
    form.heading(console, "Split buffers (payload: % of the session's; piece: bytes)")
    table = form.make_table(
        "session", "buffers", "pieces", "most", "payload", "a write", "min", "median", "max", "partial",
        left=("session",),
    )  # fmt: skip
    for row in rows:
        most = max(map(int, row["pieces_histogram"]))
        a_write = row["fragments_a_write"]
        table.add_row(
            row["session"], form.count(row["buffers_split"]), form.count(row["pieces"]), form.count(most),
            form.percent(row["payload_share"]), form.UNKNOWN if a_write is None else f"{a_write:,.2f}",
            *(form.count(row[f"piece_{name}_bytes"]) for name in ("min", "median", "max")),
            form.count(row["buffers_incomplete"]),
        )  # fmt: skip
    form.show(console, table)
    form.heading(console, "From the first piece's post to the last one's completion, µs")
    form.print_fitting(console, whole_table(rows, False), whole_table(rows, True))
    numbers = sorted({int(n) for row in rows for n in row["pieces_histogram"]})
    form.heading(console, "Buffers by number of pieces")
    shown = numbers[:8]
    table = form.make_table(
        "session", *map(str, shown), *(["more"] if len(numbers) > 8 else []), left=("session",)
    )
    for row in rows:
        histogram = {int(n): count for n, count in row["pieces_histogram"].items()}
        cells = [form.count(histogram.get(n, 0), True) for n in shown]
        if len(numbers) > 8:
            cells.append(
                form.count(int(np.sum([c for n, c in histogram.items() if n not in shown])), True)
            )
        table.add_row(row["session"], *cells)
    form.show(console, table)


def whole_table(rows: list[Document], compact: bool) -> Table:
    """How long whole buffers took, a row a session."""
    table = form.make_table(
        "session", "buffers", "mean", *(f"p{p}" for p in PERCENTS), "max", left=("session",)
    )
    names = ("mean_us", *(f"p{p}_us" for p in PERCENTS), "max_us")
    for row in rows:
        whole = row["whole_buffer"]
        table.add_row(
            row["session"], form.count(whole["count"], compact),
            *(form.micros(whole[name], compact) for name in names),
        )  # fmt: skip
    return table


VIEW = View("fragments", "how payload buffers were split", DESCRIPTION, EPILOG, make, show)
add_parser = VIEW.add_parser
