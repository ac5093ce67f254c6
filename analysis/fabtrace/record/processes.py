# SPDX-License-Identifier: BSD-3-Clause
"""Processes by number: who belongs to whom, and waiting for the end of those that are not children."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A line of the process table."""

    pid: int
    parent: int
    group: int
    zombie: bool


def process_table() -> Iterator[Process]:
    """All processes that /proc shows."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name, in parentheses, may hold anything: what follows begins at the last one.
            fields = (
                Path("/proc", entry, "stat").read_text(errors="replace").rpartition(")")[2].split()
            )
            yield Process(int(entry), int(fields[1]), int(fields[2]), fields[0] in "ZX")


def family(pid: int) -> list[int]:
    """A process and all that descend from it."""
    table = list(process_table())
    members = [pid]
    for member in members:
        members += [entry.pid for entry in table if entry.parent == member]
    return members


def group_members(groups: Iterable[int]) -> list[int]:
    """The living processes of process groups."""
    wanted = set(groups)
    return [entry.pid for entry in process_table() if entry.group in wanted and not entry.zombie]


class Watch:
    """Waits until processes have ended, whoever's children they are."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._fds: dict[int, int] = {}  # pidfd -> pid
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                self._fds[os.pidfd_open(pid)] = pid

    def wait(self, seconds: float) -> list[int]:
        """Wait at most so long; return those that still live."""
        deadline = time.monotonic() + seconds
        poll = select.poll()
        for fd in self._fds:
            poll.register(fd, select.POLLIN)
        while self._fds and (left := deadline - time.monotonic()) > 0:
            for fd, _events in poll.poll(left * 1000):
                poll.unregister(fd)
                os.close(fd)
                del self._fds[fd]
        return list(self._fds.values())

    def kill(self) -> None:
        """SIGKILL to those that still live; the descriptor makes sure that it is them."""
        for fd in self._fds:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)

    def close(self) -> None:
        """Give the descriptors back."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()


def wait_or_kill(pids: Iterable[int], seconds: float) -> list[int]:
    """Wait for processes to end, kill those that don't in time; return those that even survive that."""
    watch = Watch(pids)
    try:
        if not watch.wait(seconds):
            return []
        watch.kill()
        return watch.wait(5)
    finally:
        watch.close()
