# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace check DIR`: is this trace sound, and does what it says fit together?"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from fabtrace.errors import EXIT_FAILURE, EXIT_OK, FabtraceError
from fabtrace.model import Run
from fabtrace.model.accounts import build_accounts
from fabtrace.model.delays import build_delays
from fabtrace.views import form
from fabtrace.views.load import add_load_options, add_trace_command, load_run
from fabtrace.views.view import Document, head

VERSION = 1
MOST_UNATTRIBUTED = 0.01

DESCRIPTION = """\
Check a trace: are its files whole, was no event lost, has each operation one end that is not before its post,
do the counters of sessions agree with the events, do the accounts add up, and do messages arrive after
they were sent? Exit code 0: it is sound. 1: it is not, or cannot be read; the other commands still show what
there is. A note says what is no fault of the trace: a killed process, a recording that began late.
"""

EPILOG = """\
examples:
  fabtrace check run && fabtrace why run
  fabtrace check run --json | jq '.checks[] | select(.result == "failed")'
"""


@dataclass(frozen=True)
class Check:
    """What was looked at, how it came out (ok, note, failed) and what was found."""

    what: str
    result: str
    text: str


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `check` to the command line."""
    about = {"help": "is this trace sound?", "description": DESCRIPTION, "epilog": EPILOG}
    parser = add_trace_command(subparsers, "check", **about)
    add_load_options(parser)
    form.add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the checks."""
    document = make(options)
    if options.json:
        form.print_json(document)
    else:
        show(form.make_console(options.width), document)
    return EXIT_OK if document["sound"] else EXIT_FAILURE


def make(options: argparse.Namespace) -> Document:
    """The document; a trace that cannot be read gives one, too."""
    try:
        model = load_run(options.folder, options)
    except FabtraceError as error:
        checks = [Check("files", "failed", str(error))]
        start: Document = {"schema": "fabtrace.check", "version": VERSION, "trace": None}
    else:
        checks = [check for look in LOOKS for check in look(model)]
        start = {**head("check", VERSION, model), "events": model.tables.events}
    return {
        **start,
        "path": options.folder,
        "sound": all(check.result != "failed" for check in checks),
        "checks": [
            {"what": check.what, "result": check.result, "text": check.text} for check in checks
        ],
    }


Checks = Iterator[Check]


def look_files(model: Run) -> Checks:
    """What the reader could not read."""
    for problem in model.tables.problems:
        yield Check("files", "failed", f"{problem.path}: {problem.text}")
    if not model.tables.problems:
        streams = len(model.tables.streams)
        yield Check("files", "ok", f"{model.tables.events:,} events in {streams:,} streams")
    for event, fields in model.tables.missing.items():
        text = f"{event} has no {', '.join(fields)}: the engine is older than this fabtrace"
        yield Check("fields", "note", text)


def look_loss(model: Run) -> Checks:
    """Lost events, and threads of which one cannot know."""
    lost = model.loss.total
    names = ", ".join(dict.fromkeys(row.event for row in model.loss.rows))
    if lost:
        yield Check("loss", "failed", f"{lost:,} events are missing ({names}); see fabtrace loss")
    else:
        yield Check("loss", "ok", "no event is missing")
    if model.loss.open_writers:
        number = len(model.loss.open_writers)
        text = f"{number:,} threads did not end in the trace; what they lost last is not known"
        yield Check("end", "note", text)
    for process in model.processes:
        if not process.started:
            yield Check("start", "note", f"{process.label} started before the recording")


def look_pairing(model: Run) -> Checks:
    """Operations without partner."""
    if not model.has_operations:
        yield Check("operations", "note", "not recorded at level light")
        return
    rows = model.pairing
    open_ended = sum(row.posts_without_end for row in rows)
    alone = sum(row.ends_without_post for row in rows)
    deferred = sum(row.deferred_for_ever for row in rows)
    if not open_ended and not alone and not deferred:
        yield Check("operations", "ok", f"{len(model.operations):,} posts, each with one end")
        return
    excused = bool(model.loss.open_writers) or not all(p.started for p in model.processes)
    text = f"{open_ended:,} posts without end, {alone:,} ends without post, {deferred:,} deferred for ever"
    yield Check("operations", "note" if excused and not model.loss.total else "failed", text)


def look_order(model: Run) -> Checks:
    """No operation ends before it begins."""
    operations = model.operations
    both = operations.posted & operations.ended
    backwards = int(np.count_nonzero(operations.latency_ns[both] < 0))
    if backwards:
        yield Check("order", "failed", f"{backwards:,} operations end before they begin")
    elif len(operations):
        yield Check("order", "ok", "no operation ends before it begins")


def look_counters(model: Run) -> Checks:
    """The engine's own counters against the events."""
    if not model.has_operations or model.loss.total:
        return
    events = model.operations.events
    counted = np.bincount(events.post_owner, minlength=len(events.keys))
    wrong = []
    number = 0
    for session in model.sessions:
        if session.close_ns is None or not session.process.started:
            continue
        number += 1
        place = int(np.searchsorted(events.keys, session.key))
        there = place < len(events.keys) and events.keys[place] == session.key
        found = int(counted[place]) if there else 0
        if found != session.counters["ops_posted"]:
            wrong.append(
                f"{session.label}: {found:,} events, {session.counters['ops_posted']:,} counted"
            )
    if wrong:
        yield Check(
            "counters", "failed", "posts do not agree with session_count: " + "; ".join(wrong[:5])
        )
    elif number:
        yield Check("counters", "ok", f"posts agree with the counters of {number:,} sessions")


def look_accounts(model: Run) -> Checks:
    """Accounts that do not add up."""
    accounts = build_accounts(
        model.tables, model.sessions, model.workers, model.begin_ns, model.end_ns
    ).sessions
    if not accounts:
        yield Check("accounts", "note", "no session has an account of its time")
        return
    worst = max(accounts, key=lambda account: abs(account.unattributed_ns) / account.wall_ns)
    share = abs(worst.unattributed_ns) / worst.wall_ns
    text = f"{len(accounts):,} sessions; at most {100 * share:.3f} % of a session's time is not explained"
    good = share <= MOST_UNATTRIBUTED or worst.session.close_ns is None
    yield Check("accounts", "ok" if good else "failed", f"{text} ({worst.session.label})")


def look_clocks(model: Run) -> Checks:
    """Messages that seem to travel back in time."""
    delays = build_delays(model)
    backwards = [d for d in delays if d.min_ns is not None and d.min_ns < 0]
    if backwards:
        worst = min(d.min_ns or 0 for d in backwards)
        text = (
            f"messages are received up to {-worst / 1e3:,.1f} µs before they are sent; "
            f"do not trust times between processes"
        )
        yield Check("clocks", "failed", text)
    elif delays:
        number = sum(d.summary.count for d in delays)
        yield Check("clocks", "ok", f"{number:,} messages, none received before it was sent")
    for link in model.clocks:
        if not link.applied:
            text = f"{link.clock} against {link.against} is not known: "
            text += (
                "messages went one way only" if link.skew is None else "it does not drift evenly"
            )
            yield Check("clocks", "note", text)


LOOKS = (
    look_files,
    look_loss,
    look_pairing,
    look_order,
    look_counters,
    look_accounts,
    look_clocks,
)


def show(console: Console, document: Document) -> None:
    """The document as text."""
    verdict = "sound" if document["sound"] else "not sound"
    form.show(console, form.bold(f"{document['path']}: {verdict}"))
    styles = {"ok": "green", "note": "yellow", "failed": "red"}
    for row in document["checks"]:
        first = f"{row['result']:<6} {row['what']:<10} "
        lines = form.fold(row["text"], console.width - len(first))
        for number, line in enumerate(lines):
            start = first if number == 0 else " " * len(first)
            form.show(console, Text.assemble((start, styles[row["result"]]), line))
