# SPDX-License-Identifier: BSD-3-Clause
"""The options that say which part of a trace a view shows: --run, --process, --session, --worker, --begin,
--end."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from fabtrace.errors import FabtraceError
from fabtrace.model import Run
from fabtrace.model.narrow import Part, narrow
from fabtrace.model.processes import Process
from fabtrace.model.sessions import Session
from fabtrace.model.workers import Worker

UNITS = {"": 1_000, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "ns": 1}


@dataclass(frozen=True)
class Selector:
    """What --session and --worker say: a process label or none, and a number."""

    process: str | None
    number: int

    def matches(self, label: str, role: str, number: int) -> bool:
        """Whether a session or worker of a process is meant."""
        return number == self.number and self.process in (None, label, role)

    def __str__(self) -> str:
        return f"{self.process}:{self.number}" if self.process else str(self.number)


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """The options, in a group of their own in --help."""
    group = parser.add_argument_group("which part of the trace")
    add_run_option(group)
    add_process_option(group)
    add_session_option(group)
    group.add_argument(
        "--worker",
        type=worker_option,
        metavar="[PROCESS:]N",
        help="only worker N and its sessions",
    )
    add_time_options(group, "the run's begin")


def add_run_option(group: argparse._ActionsContainer) -> None:
    """--run."""
    group.add_argument(
        "--run",
        dest="group",  # `run` is the command's function
        type=run_option,
        metavar="RUN",
        help="of several runs in the folder only this one: its number in the report, or its run id",
    )


def add_process_option(group: argparse._ActionsContainer) -> None:
    """--process."""
    group.add_argument(
        "--process",
        metavar="PROCESS",
        help="only this process: its name in the report (get, put1), or its pid",
    )


def add_session_option(group: argparse._ActionsContainer) -> None:
    """--session."""
    group.add_argument(
        "--session",
        type=session_option,
        metavar="[PROCESS:]N",
        help="only session N, both ends; with PROCESS (get, put, put1, ...) only that end",
    )


def add_time_options(group: argparse._ActionsContainer, since: str) -> None:
    """--begin and --end."""
    group.add_argument(
        "--begin",
        type=time_option,
        metavar="TIME",
        help=f"from this time on: µs since {since}, or 12ms, 1.5s",
    )
    group.add_argument("--end", type=time_option, metavar="TIME", help="up to this time")


def session_option(text: str) -> Selector:
    """--session: 3, put:3."""
    return numbered(text, "session")


def worker_option(text: str) -> Selector:
    """--worker: 3, put:3."""
    return numbered(text, "worker")


def run_option(text: str) -> int | str:
    """--run: a number, or a run id of 16 hex digits (with or without 0x)."""
    if re.fullmatch(r"[0-9]{1,6}", text):
        return int(text)
    found = re.fullmatch(r"(?:0x)?([0-9a-fA-F]{16})", text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no run; give its number in the report, or its run id of 16 hex digits"
        )
    return found[1].lower()


def numbered(text: str, what: str) -> Selector:
    """A number, with the process that it counts in or without."""
    found = re.fullmatch(r"(?:([a-z]+[0-9]*):)?([0-9]{1,9})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no {what}; give a number, or put:0, get:3")
    return Selector(found[1], int(found[2]))


def time_option(text: str) -> int:
    """--begin, --end: a time in µs or with a unit, as ns."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ns|us|µs|ms|s)?", text)
    if found is None or float(found[1]) > 1e15:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; give µs, or 12ms, 1.5s")
    return round(float(found[1]) * UNITS[found[2] or ""])


def number_option(text: str) -> int:
    """A number of things, at least 1."""
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1000000")
    return int(text)


def select(run: Run, options: argparse.Namespace) -> Run:
    """The part of a trace that the options ask for; FabtraceError if there is no such thing."""
    run = pick_run(run, options.group)
    chosen = pick_processes(run, options.process)
    sessions = [session for session in run.sessions if session.process in chosen]
    workers = [worker for worker in run.workers if worker.process in chosen]
    if options.worker is not None:
        workers = pick_workers(workers, options.worker)
        serving = {(worker.process.instance, worker.number) for worker in workers}
        sessions = [s for s in sessions if (s.process.instance, s.worker) in serving]
    if options.session is not None:
        sessions = pick_sessions(run, sessions, options)
        served = {(s.process.instance, s.worker) for s in sessions}
        workers = [w for w in workers if (w.process.instance, w.number) in served]
    begin = run.begin_ns + (options.begin or 0)
    end = run.end_ns if options.end is None else min(run.end_ns, run.begin_ns + options.end)
    if begin > run.end_ns or (options.end is not None and end < begin):
        took = (run.end_ns - run.begin_ns) / 1e9
        raise FabtraceError(f"--begin, --end: nothing is between them; the run takes {took:.6f} s")
    whole = options.worker is None and options.session is None
    everything = whole and len(chosen) == len(run.processes)
    if everything and options.begin is None and options.end is None:
        return run
    return narrow(run, Part(begin, end, sessions, workers, listening(chosen if whole else [])))


def pick_run(run: Run, wanted: int | str | None) -> Run:
    """The run that --run means; without it all that is in the trace."""
    if wanted is None:
        return run
    for group in run.groups:
        if wanted in (group.number, f"{group.run_id:016x}"):
            break
    else:
        names = ", ".join(f"{group.number} ({group.run_id:016x})" for group in run.groups[:8])
        raise FabtraceError(f"--run {wanted}: not in the trace, which has {names or 'none'}")
    if len(run.groups) == 1:
        return run
    sessions = [session for session in run.sessions if session.process in group.processes]
    workers = [worker for worker in run.workers if worker.process in group.processes]
    part = Part(group.begin_ns, group.end_ns, sessions, workers, listening(group.processes))
    return narrow(run, part)


def listening(processes: list[Process]) -> frozenset[int]:
    """The processes as Part has them."""
    return frozenset(process.instance for process in processes)


def pick_processes(run: Run, process: str | None) -> list[Process]:
    """The processes that --process means; all without it."""
    if process is None:
        return list(run.processes)
    chosen = [p for p in run.processes if process in (p.label, str(p.pid))]
    if not chosen:
        names = ", ".join(f"{p.label} (pid {p.pid})" for p in run.processes)
        raise FabtraceError(f"--process {process}: not in the trace, which has {names}")
    return chosen


def pick_sessions(run: Run, sessions: list[Session], options: argparse.Namespace) -> list[Session]:
    """Those of some sessions that --session means, with their other ends."""
    selector: Selector = options.session
    found = [s for s in sessions if selector.matches(s.process.label, s.role, s.number)]
    if not found:
        raise FabtraceError(f"--session {selector}: {what_there_is(sessions)}")
    if selector.process is None:
        # Numbers count in each process for itself: the other ends may have others.
        ends = [s.peer for s in found if s.peer is not None and options.process is None]
        found = [s for s in run.sessions if s in found or any(s is end for end in ends)]
    return found


def pick_workers(workers: list[Worker], selector: Selector) -> list[Worker]:
    """The workers that --worker means."""
    wanted = [w for w in workers if selector.matches(w.process.label, w.process.role, w.number)]
    if not wanted:
        names = ", ".join(f"{w.process.label}:{w.number}" for w in workers[:8])
        raise FabtraceError(
            f"--worker {selector}: there is no such worker; the trace has {names or 'none'}"
        )
    return wanted


def what_there_is(sessions: list[Session]) -> str:
    """The sessions that one may ask for, briefly."""
    if not sessions:
        return "the trace has no session"
    parts = []
    for label in dict.fromkeys(session.process.label for session in sessions):
        numbers = [s.number for s in sessions if s.process.label == label]
        parts.append(f"{label}:{numbers[0]} to {label}:{numbers[-1]}")
    return "there is no such session; the trace has " + ", ".join(parts)
