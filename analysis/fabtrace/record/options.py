# SPDX-License-Identifier: BSD-3-Clause
"""The command line of `fabtrace record`, and the checks of all that can be checked beforehand."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabtrace import catalogue
from fabtrace.errors import EXIT_USAGE, FabtraceError
from fabtrace.record import attach, buffers, commands
from fabtrace.record.speech import say
from fabtrace.record.triggers import CAUSES

DESCRIPTION = """\
Run one or several commands together and record the events of those that have fabt tracepoints.
Their output and exit code come through unchanged; remarks go to the standard error. Without
commands, programs that run already are recorded, until Ctrl-C."""

EPILOG = """\
A later command may hold {address}: it then waits for the first line of the first command's
standard output, which is put in its place.

examples:
  fabtrace record -o run -- fabtget -n 4 --and fabtput -n 4 '{address}'
  fabtrace record --level light -- fabtget -n 8
  fabtrace record --pid 4711 --duration 10s
  fabtrace record --flight-recorder -- fabtput --outlier 500us ADDRESS

levels:
  light  processes, workers, sessions; load and throughput ten times a second
  ops    and an operation's post and completion: latencies, timelines, fragments
  full   and every decision, buffer and registration

A flight recorder keeps the newest events in memory and writes them to a folder of its own in DIR
when the engine reports an outlier (fabtput --outlier), a stall, an error or a signal, when it gets
SIGUSR2, and at the end if a command failed. Each of these snapshots is a trace for `fabtrace report`.

exit code: the first command's that is not 0 (128 + n after signal n), 127 or 126 if one cannot be
started, 1 if the recording fails, 2 for a usage error; 0 when programs that ran were recorded."""

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def add_parser(subparsers: Any, run: Callable[[argparse.Namespace], int]) -> None:
    """Add the command to `fabtrace`."""
    parser = subparsers.add_parser(
        "record",
        help="run commands and record their events",
        usage="fabtrace record [options] -- COMMAND... [--and COMMAND...]\n"
        "       fabtrace record [options] [--pid PID,...] [--duration TIME]",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    add = parser.add_argument
    add(
        "-o",
        "--output",
        metavar="DIR",
        help="folder for the trace, new or empty (default: fabtrace-DATE-TIME here)",
    )
    add("--level", metavar="LEVEL", default="ops", help="what to record (default: ops)")
    add(
        "--buffers",
        metavar="SIZExCOUNT",
        help="trace buffers a processor, as in 4Mx8 (default: by level and by what /dev/shm can hold)",
    )
    add(
        "--shm-path",
        metavar="DIR",
        help="where the trace buffers are (default: /dev/shm); on a disk they outlive the machine",
    )
    add(
        "--grace",
        metavar="SEC",
        default="20",
        help="how long commands may go on after a signal, or after another one failed (default: 20)",
    )
    attached = parser.add_argument_group("programs that run already")
    attached.add_argument(
        "--pid", metavar="PID,...", help="record only these, until they have ended (default: all)"
    )
    attached.add_argument("--duration", metavar="TIME", help="end after 500ms, 10s, 5m, 1h")
    flight = parser.add_argument_group("flight recorder")
    flight.add_argument(
        "--flight-recorder",
        action="store_true",
        help="keep the newest events in memory, write them when something happens",
    )
    flight.add_argument(
        "--on",
        metavar="EVENT,...",
        help=f"what has a snapshot taken (default: {','.join(CAUSES)})",
    )
    flight.add_argument(
        "--snapshots", metavar="N", help="take at most N of them (default: 20)", default="20"
    )
    flight.add_argument(
        "--rearm",
        metavar="TIME",
        default="5s",
        help="no second snapshot of the same event so soon after the first (default: 5s)",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class FlightPlan:
    """What a flight recorder does."""

    causes: Sequence[str]
    most: int
    rearm_seconds: float


@dataclass(frozen=True)
class Plan:
    """What was asked for, checked."""

    folder: Path
    shown: str  # the folder as the user would type it
    log_level: str
    buffers: buffers.Buffers
    rings: Path  # the folder in which the ring files get theirs
    processors: int
    commands: list[commands.Command]  # none: attach
    pids: Sequence[int]
    seconds: float | None
    grace_seconds: float
    flight: FlightPlan | None


def make_plan(options: argparse.Namespace) -> Plan:
    """Check everything that can be checked before something is set up."""
    to_run = commands.split(options.command[1:]) if options.command[:1] == ["--"] else []
    if options.command and not to_run:
        raise FabtraceError(
            f"record: {options.command[0]}: a command comes after `--`, as in `-- {options.command[0]}`",
            EXIT_USAGE,
        )
    level, grace_seconds = check_level(options.level), parse_grace(options.grace)
    wanted = buffers.parse(options.buffers) if options.buffers else None
    flight = parse_flight(options)
    pids, seconds = parse_attachment(options, to_run)
    commands.check_programs(to_run)
    attach.check_pids(pids)
    shown = options.output or default_folder()
    folder = Path(shown).absolute()
    check_folder(folder, shown)
    processors = buffers.possible_processors()
    disk = buffers.room_bytes(existing(folder))
    rings, chosen, remark = buffers.place(
        level, wanted, processors, check_rings(options.shm_path), existing(folder)
    )
    if rings == existing(folder):
        rings = folder
    for text in (remark, buffers.check_disk(folder, disk, chosen.ring_bytes * processors)):
        if text:
            say(text)
    return Plan(
        folder=folder,
        shown=shown,
        log_level=catalogue.load().levels[level],
        buffers=chosen,
        rings=rings,
        processors=processors,
        commands=to_run,
        pids=pids,
        seconds=seconds,
        grace_seconds=grace_seconds,
        flight=flight,
    )


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


def parse_time(option: str, text: str) -> float:
    """A time with its unit, as seconds."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h)", text)
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds:
        raise FabtraceError(
            f"{option} {text}: expected a time from 1ms, with its unit ms, s, m or h", EXIT_USAGE
        )
    return seconds


def parse_flight(options: argparse.Namespace) -> FlightPlan | None:
    """The options of a flight recorder."""
    rearm_seconds = parse_time("--rearm", options.rearm)
    if not re.fullmatch(r"\d{1,6}", options.snapshots) or int(options.snapshots) == 0:
        raise FabtraceError(
            f"--snapshots {options.snapshots}: expected a number from 1", EXIT_USAGE
        )
    causes = options.on.split(",") if options.on is not None else list(CAUSES)
    for cause in causes:
        if cause not in CAUSES:
            raise FabtraceError(f"--on {cause}: expected some of {', '.join(CAUSES)}", EXIT_USAGE)
    if not options.flight_recorder:
        if options.on is not None:
            raise FabtraceError(
                "--on: only a flight recorder takes snapshots; add --flight-recorder", EXIT_USAGE
            )
        return None
    unknown = [cause for cause in causes if cause not in catalogue.load().events]
    if unknown and options.on is not None:
        raise FabtraceError(f"--on {unknown[0]}: the engine has no such event", EXIT_USAGE)
    return FlightPlan(list(dict.fromkeys(causes)), int(options.snapshots), rearm_seconds)


def parse_attachment(
    options: argparse.Namespace, to_run: Sequence[commands.Command]
) -> tuple[list[int], float | None]:
    """Process ids and time; both only without commands."""
    for option, value in (("--pid", options.pid), ("--duration", options.duration)):
        if value is not None and to_run:
            hint = "; `timeout` ends a command" if option == "--duration" else ""
            raise FabtraceError(f"{option}: only without commands{hint}", EXIT_USAGE)
    pids = []
    for text in options.pid.split(",") if options.pid is not None else []:
        if not re.fullmatch(r"[1-9]\d{0,8}", text):
            raise FabtraceError(
                f"--pid {options.pid}: expected process ids joined by commas", EXIT_USAGE
            )
        pids.append(int(text))
    seconds = None if options.duration is None else parse_time("--duration", options.duration)
    return list(dict.fromkeys(pids)), seconds


def check_rings(text: str | None) -> Path | None:
    """--shm-path: a folder to which we can write."""
    if text is None:
        return None
    path = Path(text).absolute()
    if not path.is_dir() or not os.access(path, os.W_OK | os.X_OK):
        raise FabtraceError(
            f"--shm-path {text}: not a folder, or not writable; make it first", EXIT_USAGE
        )
    return path


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


def remove_empty(folder: Path) -> None:
    """Remove a folder in which there are only folders."""
    for path, _folders, _files in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)
