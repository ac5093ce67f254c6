# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace workers DIR`: each worker: where it ran, what its time went to, its load over time."""

from __future__ import annotations

import argparse
import math

import numpy as np
from rich.console import Console

from fabtrace import catalogue
from fabtrace.model import Run
from fabtrace.model.accounts import build_accounts
from fabtrace.model.keys import worker_keys
from fabtrace.model.workers import Worker, load_series
from fabtrace.views import form
from fabtrace.views.report_document import worker_row
from fabtrace.views.report_text import worker_table
from fabtrace.views.view import Document, View, head, print_title
from fabtrace.views.why import print_workers
from fabtrace.views.why import worker_row as account_row

VERSION = 1

DESCRIPTION = """\
List the workers: processors, sessions, utilisation, load average, sleeps and what ended them, moves between
processors, and to what their wall time went (busy, polling, asleep, off the processor).
"""

EPILOG = """\
examples:
  fabtrace workers run
  fabtrace workers run --worker put:0 --json
"""


def make(run: Run, options: argparse.Namespace) -> Document:
    """The document."""
    accounts = build_accounts(run.tables, run.sessions, run.workers, run.begin_ns, run.end_ns)
    by_worker = {id(account.worker): account_row(account) for account in accounts.workers}
    rows = []
    for worker in run.workers:
        row = worker_row(worker)
        row["account"] = by_worker.get(id(worker))
        row["sleeps"] = sleeps(run, worker)
        row["moves"] = moves(run, worker)
        row["windows"] = windows(run, worker)
        row["session_numbers"] = sorted(
            s.number for s in run.sessions
            if s.process is worker.process and s.worker == worker.number
        )  # fmt: skip
        rows.append(row)
    return {**head("workers", VERSION, run), "workers": rows}


def sleeps(run: Run, worker: Worker) -> Document | None:
    """How often and how long it slept, and what woke it; None at level light."""
    if not run.has_operations:
        return None
    known, table = catalogue.load(), run.tables["worker_sleep"]
    keys = worker_keys(table)
    times = table.times
    mine = (keys == worker_key(worker)) & (times >= run.begin_ns) & (times <= run.end_ns)
    rows = table.rows(np.flatnonzero(mine))
    causes = np.bincount(rows["wake_cause"], minlength=1)
    return {
        "count": len(rows),
        "asleep_s": float(rows["asleep_ns"].sum()) / 1e9,
        "longest_ms": float(rows["asleep_ns"].max(initial=0)) / 1e6,
        "woken_by": {
            known.label("wake_cause", code): int(number)
            for code, number in enumerate(causes.tolist())
            if number
        },
    }


def worker_key(worker: Worker) -> int:
    """As `worker_keys` gives it."""
    return (worker.process.instance << 32) | worker.number


def moves(run: Run, worker: Worker) -> list[Document]:
    """Its moves between processors."""
    table = run.tables["migrate"]
    mine = np.flatnonzero(worker_keys(table) == worker_key(worker))
    return [
        {
            "time_s": (time - run.begin_ns) / 1e9,
            "from_cpu": before,
            "to_cpu": after,
        }
        for time, before, after in zip(
            table.times[mine].tolist(),
            table["from_cpu"][mine].tolist(),
            table["to_cpu"][mine].tolist(),
        )
        if run.begin_ns <= time <= run.end_ns
    ]


def windows(run: Run, worker: Worker) -> list[Document]:
    """Its load, window by window."""
    series = load_series(run.tables, worker)
    return [
        {
            "begin_s": (begin - run.begin_ns) / 1e9,
            "end_s": (end - run.begin_ns) / 1e9,
            "utilisation": None if math.isnan(share) else share,
        }
        for begin, end, share in zip(
            series.begin_ns.tolist(), series.end_ns.tolist(), series.utilisation.tolist()
        )
        if end > run.begin_ns and begin < run.end_ns
    ]


def show(console: Console, document: Document) -> None:
    """The document as text."""
    rows = document["workers"]
    print_title(console, document, f"{len(rows)} workers")
    if not rows:
        form.show(console, "No worker in this part of the trace.")
        return
    form.heading(console, "Workers (util: busy share of wall time; load: mean contexts a loop)")
    form.show(console, worker_table(rows))
    print_workers(console, [row["account"] for row in rows if row["account"]])
    if any(row["sleeps"] for row in rows):
        form.heading(console, "Sleeps")
        table = form.make_table(
            "worker",
            "sleeps",
            "asleep s",
            "longest ms",
            "woken by",
            "moves",
            left=("worker", "woken by"),
        )
        for row in rows:
            slept = row["sleeps"] or {
                "count": 0,
                "asleep_s": 0.0,
                "longest_ms": 0.0,
                "woken_by": {},
            }
            causes = " ".join(f"{name} {number:,}" for name, number in slept["woken_by"].items())
            table.add_row(
                f"{row['process']}/{row['worker']}", form.count(slept["count"]),
                form.seconds(slept["asleep_s"]), f"{slept['longest_ms']:,.1f}", causes or form.UNKNOWN,
                form.count(row["migrations"]),
            )  # fmt: skip
        form.show(console, table)


VIEW = View(
    "workers", "each worker: processors, utilisation, sleeps", DESCRIPTION, EPILOG, make, show
)
add_parser = VIEW.add_parser
