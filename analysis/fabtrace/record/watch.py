# SPDX-License-Identifier: BSD-3-Clause
"""Is the recording still sound? Looked at once a second, so that the user hears of it when it happens."""

from __future__ import annotations

import contextlib
import os
import select
from pathlib import Path

from fabtrace.record import buffers, processes
from fabtrace.record.lttng import LttngError, run_dir
from fabtrace.record.session import TraceSession
from fabtrace.record.speech import say

ROOT_RUN_DIR = Path("/run/lttng")
RESERVE_BYTES = 16 * buffers.MIB


def daemon_pid() -> int:
    """Process id of the session daemon that serves us; 0 if it can't be told (another container's)."""
    for folder in (run_dir(), ROOT_RUN_DIR):
        with contextlib.suppress(OSError, ValueError):
            pid = int((folder / "lttng-sessiond.pid").read_text())
            if Path("/proc", str(pid), "comm").read_text().startswith("lttng-sessiond"):
                return pid
    return 0


def consumer_pids(daemon: int) -> list[int]:
    """The consumer daemons that write user-space traces."""
    found = []
    for pid in processes.family(daemon) if daemon else []:
        with contextlib.suppress(OSError):
            words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"lttng-consumerd") and b"-u" in words:
                found.append(pid)
    return found


class Guard:
    """Notices that a daemon died, and stops the recording before the disk is full."""

    def __init__(self, session: TraceSession, folder: Path, rings_bytes: int, flight: bool) -> None:
        self._session = session
        self._folder = folder
        # What is in the rings must still find room after the stop.
        self._reserve = 0 if flight else rings_bytes + RESERVE_BYTES
        self._room = buffers.room_bytes(folder)
        self._daemons: dict[int, str] = {}  # pidfd -> what it is
        self.died: list[str] = []
        self.full = False
        daemon = daemon_pid()
        named = [(daemon, "session daemon")] if daemon else []
        named += [(pid, "consumer daemon") for pid in consumer_pids(daemon)]
        for pid, name in named:
            with contextlib.suppress(OSError):
                self._daemons[os.pidfd_open(pid)] = name

    def tick(self) -> None:
        """Look."""
        self._look_at_daemons()
        if not self.full and not self.died:
            self._look_at_disk()

    def _look_at_daemons(self, seconds: float = 0) -> None:
        poll = select.poll()
        for fd in self._daemons:
            poll.register(fd, select.POLLIN)
        for fd, _events in poll.poll(seconds * 1000) if self._daemons else []:
            name = self._daemons.pop(fd)
            os.close(fd)
            if name not in self.died:  # it may be two processes
                self.died.append(name)
                say(f"the {name} died: nothing more is recorded")

    def _look_at_disk(self) -> None:
        room = buffers.room_bytes(self._folder)
        taken = max(0, self._room - room)  # in the last second; the next may take as much
        self._room = room
        if room >= self._reserve + taken:
            return
        self.full = True
        say(
            f"{self._folder}: only {buffers.format_size(room)} free on its disk: the recording stops"
            " here"
        )
        with contextlib.suppress(LttngError):
            self._session.stop()

    def settle(self, seconds: float) -> None:
        """A consumer daemon whose session daemon died writes what it has, then ends: wait for it."""
        self._look_at_daemons()
        while "session daemon" in self.died and self._daemons and seconds > 0:
            before = len(self._daemons)
            self._look_at_daemons(seconds)
            if len(self._daemons) == before:
                return

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in self._daemons:
            os.close(fd)
        self._daemons.clear()
