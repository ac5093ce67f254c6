# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace record`: run commands, or attach to programs, and record their events."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fabtrace.errors import EXIT_FAILURE, EXIT_OK, FabtraceError
from fabtrace.record import (
    attach,
    buffers,
    commands,
    counting,
    flight,
    note,
    options,
    recover,
    tally,
)
from fabtrace.record.keeper import Keeper
from fabtrace.record.lttng import Client
from fabtrace.record.options import Plan
from fabtrace.record.recording import Recording, recording
from fabtrace.record.signals import Signals
from fabtrace.record.speech import say

NAMES_SHOWN = 4
COUNT_SILENTLY_BYTES = 256 * buffers.MIB  # takes about ten seconds


def add_parser(subparsers: Any) -> None:
    """Add the command to `fabtrace`."""
    options.add_parser(subparsers, run)


def run(arguments: argparse.Namespace) -> int:
    """Record; return the exit code."""
    plan = options.make_plan(arguments)
    keeper = Keeper(recover.finish_for_keeper, plan.grace_seconds)
    try:
        return record(plan, keeper)
    finally:
        keeper.dismiss()


def record(plan: Plan, keeper: Keeper) -> int:
    """Record what was planned."""
    with contextlib.ExitStack() as stack:
        signals = stack.enter_context(Signals())
        client = stack.enter_context(Client())
        for text in recover.name_leftovers(client):
            say(text)
        stack.enter_context(trace_folder(plan.folder))
        holder = stack.enter_context(note.create(plan.folder))
        keeper.tell(folder=str(plan.folder))
        with recording(plan, client, signals, holder) as live:
            runner = make_runner(plan, client, signals, keeper, live)
            runner.run()
            live.ended_well = runner.exit_code == EXIT_OK and not signals.stops
        run_id = runner.environment["FABT_RUN_ID"] if isinstance(runner, commands.Runner) else ""
        sound = summarise(plan, run_id, signals) and live.sound
    if runner.failure is not None:
        raise runner.failure
    return runner.exit_code or (EXIT_OK if sound else EXIT_FAILURE)


def make_runner(
    plan: Plan, client: Client, signals: Signals, keeper: Keeper, live: Recording
) -> commands.Runner | attach.Attachment:
    """What goes on while it is recorded."""
    if plan.commands:
        return commands.Runner(
            plan.commands,
            environment(),
            signals,
            plan.grace_seconds,
            tick=live.tick,
            started=lambda pid: keeper.tell(group=pid),
        )
    attach.announce(client, plan.pids, signals)
    return attach.Attachment(plan.pids, plan.seconds, signals, live.tick)


@contextlib.contextmanager
def trace_folder(folder: Path) -> Iterator[None]:
    """Make the folder; take it away again if nothing came to be in it."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(0, "Permission denied")
    except OSError as error:
        raise FabtraceError(
            f"{folder}: cannot write the trace there: {error.strerror}; choose another folder with -o DIR"
        ) from None
    try:
        yield
    finally:
        if new:
            options.remove_empty(folder)


def environment() -> dict[str, str]:
    """The commands' environment."""
    return {
        # So that the processes of a run know each other.
        "FABT_RUN_ID": f"{secrets.randbits(64):016x}",
        # How long, in ms, a program waits before main() for the daemon to switch its events on.
        "LTTNG_UST_REGISTER_TIMEOUT": "30000",
        **os.environ,
    }


def summarise(plan: Plan, run_id: str, signals: Signals) -> bool:
    """Say what was recorded and what to do with it; whether the trace can be used."""
    if not tally.has_events(plan.folder):
        say(
            f"{plan.shown}: no events: no program with fabt tracepoints ran; "
            f"`fabtget --version` says whether it was built with them"
        )
        return True
    if plan.flight is not None:
        return summarise_snapshots(plan)
    size = sum(path.stat().st_size for path in plan.folder.rglob("*") if path.is_file())
    where = f"{buffers.format_size(size)} in {plan.shown}"
    own = ""
    try:
        if size > COUNT_SILENTLY_BYTES:
            say(f"counting the events of {where} (Ctrl-C skips it)")
        counted = counting.count(plan.folder, signals)
    except tally.Interrupted:
        say(f"events not counted; {where}")
    except FabtraceError as error:
        say(f"{plan.shown}: {error}")
        return False
    else:
        own = show_counts(counted, run_id)
        say(f"{counted.events:,} events recorded, {counted.lost:,} lost; {where}")
        if not counted.events:
            say(
                "no program began a run while it was recorded: see what they print, and record again"
            )
            return True
        if counted.lost:
            now = str(plan.buffers).replace(" ", "")
            say(f"fewer are lost with larger --buffers (they were {now}) or with --level light")
    say(f"next: fabtrace report {shlex.quote(plan.shown)}{own}")
    return True


def summarise_snapshots(plan: Plan) -> bool:
    """A line a snapshot."""
    for text in flight.describe(plan.folder):
        say(text)
    say(f"next: fabtrace report {shlex.quote(plan.shown)}/SNAPSHOT")
    return True


def show_counts(counted: tally.Tally, run_id: str) -> str:
    """A line a process, and a remark if some do not belong to this run.

    Returns the option by which views show this run alone; empty if there is nothing else.
    """
    number = run_id.lower().removeprefix("0x").zfill(16)
    runs = []
    for instance, names in sorted(counted.by_process().items(), key=lambda item: -item[1].total()):
        role, pid, run = counted.processes.get(instance, ("process", instance, None))
        most = ", ".join(f"{name} {count:,}" for name, count in names.most_common(NAMES_SHOWN))
        rest = ", ..." if len(names) > NAMES_SHOWN else ""
        say(f"{role} {pid}: {names.total():,} events: {most}{rest}")
        if run is not None:
            runs.append(f"{run:016x}")
    strangers = sum(run != number for run in runs)
    if not strangers or not run_id:
        return ""
    say(f"{strangers} of these processes were not started here: the session daemon serves all runs")
    return f" --run {number}" if number in runs else ""
