# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace record`: run commands and record their events."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabtrace import catalogue
from fabtrace.errors import EXIT_FAILURE, EXIT_OK, EXIT_USAGE, FabtraceError
from fabtrace.record import buffers, commands, tally
from fabtrace.record.commands import say
from fabtrace.record.daemon import Daemon, interrupted
from fabtrace.record.lttng import Client, LttngError
from fabtrace.record.session import TraceSession
from fabtrace.record.signals import Signals

NAMES_SHOWN = 4
COUNT_SILENTLY_BYTES = 256 * buffers.MIB  # takes about ten seconds

DESCRIPTION = """\
Run one or several commands together and record the events of those that have fabt tracepoints.
Their output and exit code come through unchanged; remarks go to the standard error."""

EPILOG = """\
A later command may hold {address}: it then waits for the first line of the first command's
standard output, which is put in its place.

examples:
  fabtrace record -o run -- fabtget -n 4 --and fabtput -n 4 '{address}'
  fabtrace record --level light -- fabtget -n 8

levels:
  light  processes, workers, sessions; load and throughput ten times a second
  ops    and a post and a completion an operation: latencies, timelines, fragments
  full   and every decision, buffer and registration

exit code: the first command's that is not 0 (128 + n after signal n), 127 or 126 if one cannot be
started, 1 if the recording fails, 2 for a usage error."""


def add_parser(subparsers: Any) -> None:
    """Add the command to `fabtrace`."""
    parser = subparsers.add_parser(
        "record",
        help="run commands and record their events",
        usage="fabtrace record [options] -- COMMAND... [--and COMMAND...]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="folder for the trace, new or empty (default: fabtrace-DATE-TIME here)",
    )
    parser.add_argument(
        "--level", metavar="LEVEL", default="ops", help="what to record (default: ops)"
    )
    parser.add_argument(
        "--buffers",
        metavar="SIZExCOUNT",
        help="trace buffers a processor, as in 4Mx8 (default: by level and by what /dev/shm can hold)",
    )
    parser.add_argument(
        "--grace",
        metavar="SEC",
        default="20",
        help="how long commands may go on after a signal, or after another one failed (default: 20)",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class Plan:
    """What was asked for, checked."""

    folder: Path
    shown: str  # the folder as the user would type it
    log_level: str
    buffers: buffers.Buffers
    commands: list[commands.Command]
    grace_seconds: float


def run(options: argparse.Namespace) -> int:
    """Record; return the exit code."""
    plan = make_plan(options)
    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(Signals())
        client = stack.enter_context(Client())
        stack.enter_context(trace_folder(plan.folder))
        runner = commands.Runner(plan.commands, environment(), signals, plan.grace_seconds)
        with recording(plan, client, signals) as troubles:
            runner.run()
        sound = summarise(plan, runner.environment["FABT_RUN_ID"], signals)
    if runner.failure is not None:
        raise runner.failure
    return runner.exit_code or (EXIT_OK if sound and not troubles else EXIT_FAILURE)


def make_plan(options: argparse.Namespace) -> Plan:
    """Check everything that can be checked before something is set up."""
    words = options.command[1:] if options.command[:1] == ["--"] else options.command
    to_run = commands.split(words)
    level, grace_seconds = check_level(options.level), parse_grace(options.grace)
    wanted = buffers.parse(options.buffers) if options.buffers else None
    commands.check_programs(to_run)
    shown = options.output or default_folder()
    folder = Path(shown).absolute()
    check_folder(folder, shown)
    chosen, remark = buffers.choose(
        level, wanted, buffers.possible_processors(), buffers.room_bytes(buffers.SHM)
    )
    for text in (remark, buffers.check_disk(folder, buffers.room_bytes(existing(folder)))):
        if text:
            say(text)
    return Plan(folder, shown, catalogue.load().levels[level], chosen, to_run, grace_seconds)


def check_level(level: str) -> str:
    """One of the catalogue's levels."""
    known = catalogue.load().levels
    if level not in known:
        raise FabtraceError(f"--level {level}: expected one of {', '.join(known)}", EXIT_USAGE)
    return level


def parse_grace(text: str) -> float:
    """Seconds, not for ever."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise FabtraceError(f"--grace {text}: expected seconds, from 0 to 86400", EXIT_USAGE)
    return seconds


def default_folder() -> str:
    """A name that sorts by time and does not exist."""
    name = time.strftime("fabtrace-%Y%m%d-%H%M%S")
    number = 1
    candidate = name
    while os.path.exists(candidate):
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    return folder if folder.exists() else existing(folder.parent)


def check_folder(folder: Path, shown: str) -> None:
    """A new trace needs a folder of its own."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise FabtraceError(
                f"-o {shown}: the folder is not empty; choose another one or remove it", EXIT_USAGE
            )
        if folder.exists() and not folder.is_dir():
            raise FabtraceError(
                f"-o {shown}: exists and is not a folder; choose another name", EXIT_USAGE
            )
    except OSError as error:
        raise FabtraceError(
            f"-o {shown}: {error.strerror}; choose another folder", EXIT_USAGE
        ) from None


@contextlib.contextmanager
def trace_folder(folder: Path) -> Iterator[None]:
    """Make the folder; take it away again if nothing came to be in it."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FabtraceError(
            f"{folder}: cannot write the trace there: {error.strerror}; choose another folder with -o DIR"
        ) from None
    try:
        yield
    finally:
        if new:
            remove_empty(folder)


def remove_empty(folder: Path) -> None:
    """Remove a folder in which there are only folders."""
    for path, _folders, _files in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)


def environment() -> dict[str, str]:
    """The commands' environment."""
    return {
        # So that the processes of a run know each other.
        "FABT_RUN_ID": f"{secrets.randbits(64):016x}",
        # How long, in ms, a program waits before main() for the daemon to switch its events on.
        "LTTNG_UST_REGISTER_TIMEOUT": "30000",
        **os.environ,
    }


@contextlib.contextmanager
def recording(plan: Plan, client: Client, signals: Signals) -> Iterator[list[str]]:
    """A trace session is on in the body; none, and no daemon of ours, is left afterwards.

    The list is filled at the end with what went wrong in spite of all.
    """
    daemon = Daemon(client, signals)
    session = TraceSession(client)
    troubles: list[str] = []
    with daemon.arriving():
        if signals.stopped:
            raise interrupted(signals)
        session.create(plan.folder, plan.buffers, plan.log_level)
    try:
        yield troubles
    finally:
        with daemon.leaving():
            for step, consequence in (
                (session.stop, "the end of the trace may be missing"),
                (session.destroy, "the trace session may be left over, see `lttng list`"),
            ):
                try:
                    step()
                except LttngError as error:
                    troubles.append(f"{error}; {consequence}")
                    say(troubles[-1])


def summarise(plan: Plan, run_id: str, signals: Signals) -> bool:
    """Say what was recorded and what to do with it; whether the trace can be used."""
    if not tally.has_events(plan.folder):
        say(f"{plan.shown}: no events: no program with fabt tracepoints ran")
        return True
    size = sum(path.stat().st_size for path in plan.folder.rglob("*") if path.is_file())
    where = f"{buffers.format_size(size)} in {plan.shown}"
    try:
        if size > COUNT_SILENTLY_BYTES:
            say(f"counting the events of {where} (Ctrl-C skips it)")
        counted = tally.count(plan.folder, signals)
    except tally.Interrupted:
        say(f"events not counted; {where}")
    except FabtraceError as error:
        say(f"{plan.shown}: {error}")
        return False
    else:
        show_counts(counted, run_id)
        say(f"{counted.events:,} events recorded, {counted.lost:,} lost; {where}")
        if counted.lost:
            now = str(plan.buffers).replace(" ", "")
            say(f"fewer are lost with larger --buffers (they were {now}) or with --level light")
    say(f"next: fabtrace report {shlex.quote(plan.shown)}")
    return True


def show_counts(counted: tally.Tally, run_id: str) -> None:
    """A line a process, and a remark if some do not belong to this run."""
    strangers = 0
    for instance, names in sorted(counted.by_process().items(), key=lambda item: -item[1].total()):
        role, pid, run = counted.processes.get(instance, ("process", instance, None))
        most = ", ".join(f"{name} {count:,}" for name, count in names.most_common(NAMES_SHOWN))
        rest = ", ..." if len(names) > NAMES_SHOWN else ""
        say(f"{role} {pid}: {names.total():,} events: {most}{rest}")
        strangers += run is not None and f"{run:016x}" != run_id.lower().removeprefix("0x").zfill(
            16
        )
    if strangers:
        say(
            f"{strangers} of these processes were not started here: the session daemon serves all runs"
        )
