# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace timeline DIR`: what happened in the sessions over time."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from fabtrace.errors import EXIT_USAGE, FabtraceError
from fabtrace.model import Run
from fabtrace.model.sessions import Session
from fabtrace.views.form import add_output_options, make_console, print_json
from fabtrace.views.load import load_run
from fabtrace.views.timeline_document import make_overview, make_timelines
from fabtrace.views.timeline_text import print_overview, print_timelines

DESCRIPTION = """\
Show what happened over time, as text for 80 columns. Without --session: a lane for each session's
throughput and each worker's utilisation. With --session: its milestones (handshake, first write, ends of
stream, close, errors) and, slice by slice, its throughput, writes in flight and what it waited for;
with --events also its single events. Both ends of a session are shown together when the trace has both.
"""

EPILOG = """\
examples:
  fabtrace timeline run                               all sessions and workers
  fabtrace timeline run --session 0                   session 0, both ends
  fabtrace timeline run --session put:0               only put's end
  fabtrace timeline run --session 0 --events --begin 12ms --limit 50
"""

UNITS = {"": 1_000, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "ns": 1}
DEFAULT_LIMIT = 200


@dataclass(frozen=True)
class Selector:
    """What --session says: a process label or none, and a number."""

    process: str | None
    number: int


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `timeline` to the command line."""
    parser = subparsers.add_parser(
        "timeline",
        help="what happened in sessions over time",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", help="what `fabtrace record -o DIR` made")
    parser.add_argument(
        "--session",
        type=session_option,
        metavar="[PROCESS:]N",
        help="session number N, both ends; with PROCESS (get, put, put1, ...) only that end",
    )
    parser.add_argument(
        "--process", metavar="PROCESS", help="only this process: its name in the report, or its pid"
    )
    parser.add_argument(
        "--slices", type=slices_option, default=20, metavar="N", help="slices of time (default 20)"
    )
    parser.add_argument(
        "--events", action="store_true", help="list the session's events too, one a line"
    )
    parser.add_argument(
        "--begin",
        type=time_option,
        metavar="TIME",
        help="with --events: from this time on; µs since the session's begin, or 12ms, 1.5s",
    )
    parser.add_argument(
        "--end", type=time_option, metavar="TIME", help="with --events: up to this time"
    )
    parser.add_argument(
        "--limit",
        type=limit_option,
        default=None,
        metavar="N",
        help=f"with --events: at most N events, 0 for all (default {DEFAULT_LIMIT})",
    )
    add_output_options(parser)
    parser.set_defaults(run=run)


def session_option(text: str) -> Selector:
    """--session: 3, put:3."""
    found = re.fullmatch(r"(?:([a-z]+[0-9]*):)?([0-9]{1,9})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no session; give a number, or put:0, get:3")
    return Selector(found[1], int(found[2]))


def time_option(text: str) -> int:
    """--begin, --end: a time in µs or with a unit, as ns."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s)?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give µs, or 12ms, 1.5s")
    return round(float(found[1]) * UNITS[found[2] or ""])


def slices_option(text: str) -> int:
    """--slices: 1 to 1000."""
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1000")
    return int(text)


def limit_option(text: str) -> int:
    """--limit: 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of events")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Print a timeline."""
    listing = options.begin is not None or options.end is not None or options.limit is not None
    if listing and not options.events:
        raise FabtraceError("--begin, --end and --limit need --events", EXIT_USAGE)
    if options.events and options.session is None:
        raise FabtraceError("--events needs --session: which one's events?", EXIT_USAGE)
    if options.limit is None:
        options.limit = DEFAULT_LIMIT
    model = load_run(options.folder)
    sessions = of_process(model, options.process)
    console = make_console(options.width)
    if options.session is None:
        overview = make_overview(model, sessions, options.process, console.width)
        if options.json:
            print_json(overview)
        else:
            print_overview(console, overview)
        return 0
    document = make_timelines(model, select(sessions, options.session), options)
    if options.json:
        print_json(document)
    else:
        print_timelines(console, document)
    return 0


def of_process(run: Run, process: str | None) -> list[Session]:
    """The sessions of one process, given by its label or pid; all without one."""
    if process is None:
        return run.sessions
    known = [p for p in run.processes if process in (p.label, str(p.pid))]
    if not known:
        names = ", ".join(f"{p.label} (pid {p.pid})" for p in run.processes)
        raise FabtraceError(f"--process {process}: not in the trace, which has {names}")
    return [session for session in run.sessions if session.process in known]


def select(sessions: list[Session], selector: Selector) -> list[list[Session]]:
    """Groups of sessions to show, each the two ends of one, or one end; put's end first.

    Numbers count in each process for itself, so a plain number may mean several.
    """
    wanted = [
        session
        for session in sessions
        if session.number == selector.number
        and selector.process in (None, session.process.label, session.role)
    ]
    if not wanted:
        asked = f"{selector.process}:" if selector.process else ""
        raise FabtraceError(f"--session {asked}{selector.number}: {what_there_is(sessions)}")
    if selector.process is not None:
        return [[session] for session in wanted]
    groups: list[list[Session]] = []
    for session in wanted:
        if any(session in group for group in groups):
            continue
        peer = session.peer if session.peer in sessions else None
        ends = [session] if peer is None else [session, peer]
        groups.append(sorted(ends, key=lambda end: end.role, reverse=True))
    return groups


def what_there_is(sessions: list[Session]) -> str:
    """The sessions that one may ask for, briefly."""
    if not sessions:
        return "the trace has no session"
    parts = []
    for label in dict.fromkeys(session.process.label for session in sessions):
        numbers = [s.number for s in sessions if s.process.label == label]
        parts.append(f"{label}:{numbers[0]} to {label}:{numbers[-1]}")
    return "there is no such session; the trace has " + ", ".join(parts)
