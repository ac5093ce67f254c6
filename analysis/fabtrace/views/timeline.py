# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace timeline DIR`: what happened in the sessions over time."""

from __future__ import annotations

import argparse

from fabtrace.errors import EXIT_USAGE, FabtraceError
from fabtrace.model.sessions import Session
from fabtrace.views.form import add_output_options, make_console, print_json
from fabtrace.views.load import add_load_options, add_trace_command, load_run
from fabtrace.views.select import (
    Selector,
    add_process_option,
    add_run_option,
    add_session_option,
    add_time_options,
    pick_processes,
    pick_run,
    what_there_is,
)
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

DEFAULT_LIMIT = 200


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `timeline` to the command line."""
    about = {
        "help": "what happened in sessions over time",
        "description": DESCRIPTION,
        "epilog": EPILOG,
    }
    parser = add_trace_command(subparsers, "timeline", **about)
    add_session_option(parser)
    add_process_option(parser)
    add_run_option(parser)
    parser.add_argument(
        "--slices", type=slices_option, default=20, metavar="N", help="slices of time (default 20)"
    )
    parser.add_argument(
        "--events", action="store_true", help="list the session's events too, one a line"
    )
    add_time_options(parser.add_argument_group("with --events"), "the session's begin")
    parser.add_argument(
        "--limit",
        type=limit_option,
        default=None,
        metavar="N",
        help=f"with --events: at most N events, 0 for all (default {DEFAULT_LIMIT})",
    )
    add_load_options(parser)
    add_output_options(parser)
    parser.set_defaults(run=run)


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
    model = pick_run(load_run(options.folder, options), options.group)
    chosen = pick_processes(model, options.process)
    sessions = [session for session in model.sessions if session.process in chosen]
    console = make_console(options.width)
    if options.session is None:
        overview = make_overview(model, sessions, options.process, console.width)
        if options.json:
            print_json(overview)
        else:
            print_overview(console, overview)
        return 0
    document = make_timelines(model, group_ends(sessions, options.session), options)
    if options.json:
        print_json(document)
    else:
        print_timelines(console, document)
    return 0


def group_ends(sessions: list[Session], selector: Selector) -> list[list[Session]]:
    """Groups of sessions to show, each the two ends of one, or one end; put's end first.

    Numbers count in each process for itself, so a plain number may mean several.
    """
    wanted = [
        session
        for session in sessions
        if selector.matches(session.process.label, session.role, session.number)
    ]
    if not wanted:
        raise FabtraceError(f"--session {selector}: {what_there_is(sessions)}")
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
