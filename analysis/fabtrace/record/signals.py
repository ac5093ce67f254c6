# SPDX-License-Identifier: BSD-3-Clause
"""Signals as bytes in a pipe.

A recording has things to undo: commands, a trace session, a daemon. So no signal may end it or
raise an exception at an arbitrary place; each is written into a pipe, and whoever waits looks there.
"""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any

# What asks a recording to end, and is passed on to the commands.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# What a session daemon sends to its parent when it is ready (its option --sig-parent).
READY = signal.SIGUSR1
# What asks a flight recorder for a snapshot.
SNAPSHOT = signal.SIGUSR2


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """A handler is needed, or the signal would not reach the pipe; exec resets it in the commands."""


class Signals:
    """Catches STOPS, READY and SNAPSHOT while it is entered. `fd` is readable when something has come."""

    def __init__(self) -> None:
        self.fd = -1
        self.stops: list[signal.Signals] = []  # in order of arrival, each once
        self.ready = False
        self._snapshot = False
        self._write_fd = -1
        self._old_fd = -1
        self._old: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Signals:
        self.fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._old_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in (*STOPS, READY, SNAPSHOT):
            # Who started us with nohup wants the recording to outlive the terminal.
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._old[number] = signal.signal(number, _ignore)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        os.close(self.fd)
        os.close(self._write_fd)

    def collect(self) -> list[signal.Signals]:
        """Take what is in the pipe; return the stops among it."""
        new: list[signal.Signals] = []
        try:
            numbers = os.read(self.fd, 512)
        except BlockingIOError:
            return new
        for number in map(signal.Signals, numbers):
            if number == READY:
                self.ready = True
            elif number == SNAPSHOT:
                self._snapshot = True
            elif number in STOPS:
                new.append(number)
                if number not in self.stops:
                    self.stops.append(number)
        return new

    def take_snapshot(self) -> bool:
        """Whether somebody asked for a snapshot since the last time."""
        self.collect()
        asked, self._snapshot = self._snapshot, False
        return asked

    @property
    def stopped(self) -> bool:
        """Whether somebody wants us to end."""
        self.collect()
        return bool(self.stops)
