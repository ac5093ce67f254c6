# SPDX-License-Identifier: BSD-3-Clause
"""Recording programs that run already: nothing is started, so wait for their end or the user's word."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fabtrace.errors import EXIT_OK, EXIT_USAGE, FabtraceError
from fabtrace.record.lttng import Client, LttngError, NoAnswer
from fabtrace.record.signals import Signals
from fabtrace.record.speech import say

# A program looks for a new session daemon at once, or every 5 s if it lost another one just now.
REGISTER_SECONDS = 30.0
POLL_SECONDS = 0.1
TICK_SECONDS = 1.0


def check_pids(pids: Sequence[int]) -> None:
    """They must exist."""
    for pid in pids:
        if not Path("/proc", str(pid)).is_dir():
            raise FabtraceError(f"--pid {pid}: no such process; see `pgrep -a fabt`", EXIT_USAGE)


def programs(client: Client) -> dict[int, str]:
    """The programs with fabt tracepoints that the session daemon knows; none if it can't say now."""
    found: dict[int, str] = {}
    try:
        answer = client.query("list", "--userspace")
    except NoAnswer:
        raise
    except LttngError:
        return found  # a program that just came or went makes `lttng list` fail
    for entry in answer.iterfind(".//{*}pid"):
        names = [event.text or "" for event in entry.iterfind(".//{*}event/{*}name")]
        number = entry.findtext("{*}id") or ""
        if number.isdigit() and any(name.startswith("fabt:") for name in names):
            found[int(number)] = os.path.basename(entry.findtext("{*}name") or "program")
    return found


def has_tracing(pid: int) -> bool:
    """Whether a program uses LTTng-UST; True if that can't be seen."""
    try:
        return "liblttng-ust" in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return True


def announce(client: Client, pids: Sequence[int], signals: Signals) -> None:
    """Say whom we record. With `pids` wait until the session daemon knows them."""
    for pid in pids:
        if not has_tracing(pid):
            raise FabtraceError(
                f"--pid {pid}: no fabt tracepoints: it does not use LTTng-UST. Was it built with"
                " -Dtracing=none? See `fabtget --version`"
            )
    known = programs(client)
    deadline = time.monotonic() + REGISTER_SECONDS
    poll = select.poll()
    poll.register(signals.fd, select.POLLIN)
    while not set(pids) <= known.keys() and time.monotonic() < deadline and not signals.stopped:
        poll.poll(POLL_SECONDS * 1000)
        known = programs(client)
    for pid in pids:
        if pid not in known and not signals.stopped:
            raise FabtraceError(
                f"--pid {pid}: no fabt tracepoints: another program's, or another user's? See"
                " `lttng list --userspace`"
            )
    names = ", ".join(f"{name} {pid}" for pid, name in known.items() if not pids or pid in pids)
    say(f"recording {names or 'what will start'}; Ctrl-C ends it")


class Attachment:
    """Waits; has what a Runner has."""

    failure: FabtraceError | None = None
    exit_code = EXIT_OK

    def __init__(
        self,
        pids: Sequence[int],
        seconds: float | None,
        signals: Signals,
        tick: Callable[[], None],
    ) -> None:
        self._pids = pids
        self._seconds = seconds
        self._signals = signals
        self._tick = tick

    def run(self) -> None:
        """Return at a signal, after the time, or when the last of the processes has ended."""
        end = None if self._seconds is None else time.monotonic() + self._seconds
        poll = select.poll()
        poll.register(self._signals.fd, select.POLLIN)
        with contextlib.ExitStack() as stack:
            living = set()
            for pid in self._pids:
                with contextlib.suppress(ProcessLookupError):
                    fd = os.pidfd_open(pid)
                    stack.callback(os.close, fd)
                    living.add(fd)
                    poll.register(fd, select.POLLIN)
            while not self._signals.stopped and (living or not self._pids):
                left = TICK_SECONDS if end is None else min(TICK_SECONDS, end - time.monotonic())
                if left <= 0:
                    return
                for fd, _events in poll.poll(left * 1000):
                    if fd in living:
                        poll.unregister(fd)
                        living.discard(fd)
                self._tick()
