# SPDX-License-Identifier: BSD-3-Clause
"""Cleans up when the recorder is killed by SIGKILL, or dies in another way that it can't deal with.

The keeper is a child that waits at a pipe. What is to be cleaned up is written to it when it comes to
be: the recording's folder, the process groups of commands. A recorder that ends properly says so; if
the pipe just closes, the keeper ends the commands and finishes the recording as `fabtrace recover`
would.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fabtrace.errors import FabtraceError
from fabtrace.record import processes
from fabtrace.record.speech import say

Finish = Callable[[Path], None]


class Keeper:
    """The recorder's end of the pipe. Make it first of all: the child has what was open then."""

    def __init__(self, finish: Finish, grace_seconds: float) -> None:
        readable, writable = os.pipe2(os.O_CLOEXEC)
        self._pid = os.fork()
        if self._pid == 0:
            os.close(writable)
            code = 1
            try:
                _keep(readable, finish, grace_seconds)
                code = 0
            except BaseException:  # nobody above us could: this is a copy of the recorder
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(readable)
        self._fd = writable

    def tell(self, **message: Any) -> None:
        """`folder`: the recording's; `group`: a process group of a command that was started."""
        with contextlib.suppress(OSError):  # somebody killed the keeper: we can do without
            os.write(self._fd, json.dumps(message).encode() + b"\n")

    def dismiss(self) -> None:
        """All is done."""
        self.tell(done=True)
        os.close(self._fd)
        os.waitpid(self._pid, 0)


def _keep(readable: int, finish: Finish, grace_seconds: float) -> None:
    """What the child does."""
    os.setsid()  # out of reach of the terminal, and of who kills the recorder's group
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)  # who reads the recorder's output must see its end
    folder, groups = None, []
    with open(readable, encoding="utf-8") as pipe:
        for line in pipe:
            message = json.loads(line)
            if "done" in message:
                return
            if "folder" in message:
                folder = Path(message["folder"])
            if "group" in message:
                groups.append(int(message["group"]))
    _end_commands(groups, grace_seconds)
    if folder is not None:
        say("the recorder was killed: ending its recording")
        try:
            finish(folder)
        except FabtraceError as error:
            print(f"fabtrace: {error}", file=sys.stderr, flush=True)


def _end_commands(groups: list[int], grace_seconds: float) -> None:
    """As the recorder does it: SIGTERM, and SIGKILL for what still lives after the grace."""
    living = processes.group_members(groups)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGTERM)
    processes.wait_or_kill(living, grace_seconds)
