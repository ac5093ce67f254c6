# SPDX-License-Identifier: BSD-3-Clause
"""The commands that are recorded: started together, watched, signalled, waited for.

Each command has a process group of its own. So a Ctrl-C on the terminal reaches the recorder alone, and
it passes every signal on exactly once, to the programs that a command started too.

A command that holds `{address}` waits for the first line of the first command's standard output, which
then comes through a pipe and is copied to ours as it is.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fabtrace.errors import EXIT_FAILURE, EXIT_USAGE, FabtraceError
from fabtrace.record import processes
from fabtrace.record.signals import Signals
from fabtrace.record.speech import say

PLACEHOLDER = "{address}"
AND = "--and"
ADDRESS_MAX_BYTES = 4096
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as shells have it
HINT_SECONDS = 10.0
TICK_SECONDS = 1.0
STDOUT = 1


@dataclass
class Command:
    """A command and what became of it."""

    words: list[str]
    process: subprocess.Popen[bytes] | None = None
    code: int | None = None  # exit code, 128 + n after signal n; None: not started or not ended

    @property
    def name(self) -> str:
        return os.path.basename(self.words[0])

    @property
    def needs_address(self) -> bool:
        return any(PLACEHOLDER in word for word in self.words)

    @property
    def running(self) -> bool:
        return self.process is not None and self.code is None


def split(words: Sequence[str]) -> list[Command]:
    """`a 1 --and b 2` is two commands."""
    groups: list[list[str]] = [[]]
    for word in words:
        if word == AND:
            groups.append([])
        else:
            groups[-1].append(word)
    if not all(groups):
        what = f"a command is missing beside `{AND}`" if len(groups) > 1 else "no command"
        raise FabtraceError(
            f"record: {what}; expected `-- COMMAND... [{AND} COMMAND...]`", EXIT_USAGE
        )
    commands = [Command(group) for group in groups]
    if commands[0].needs_address:
        raise FabtraceError(
            f"record: {PLACEHOLDER} stands for what the first command prints, so only a later one"
            " can have it",
            EXIT_USAGE,
        )
    return commands


def check_programs(commands: Sequence[Command]) -> None:
    """Refuse what cannot be started, before anything is set up for it."""
    for command in commands:
        program = command.words[0]
        if PLACEHOLDER in program or shutil.which(program) is not None:
            continue
        if os.sep in program and os.path.exists(program):
            raise FabtraceError(
                f"cannot start {program}: not an executable file; `chmod +x` it or name a program",
                NOT_EXECUTABLE,
            )
        where = "no such file" if os.sep in program else "not found in PATH"
        raise FabtraceError(
            f"cannot start {program}: {where}; check its name or give its path", NOT_FOUND
        )


@dataclass
class Pipe:
    """Copies the first command's output to ours, and finds its first line."""

    fd: int = -1
    line: bytes = b""  # the first line so far
    pending: bytes = b""  # read and not yet written
    open: bool = False
    complete: bool = False  # `line` is a whole line

    def read(self) -> None:
        """Take what is there; at the end of the output close."""
        data = os.read(self.fd, 65536)
        if not data:
            self.close()
            return
        if not self.complete and len(self.line) <= ADDRESS_MAX_BYTES:
            head, newline, _rest = data.partition(b"\n")
            self.line += head
            self.complete = bool(newline)
        self.pending += data

    def write(self) -> None:
        """Write a piece that a pipe with any room takes without making us wait (PIPE_BUF)."""
        try:
            written = os.write(STDOUT, self.pending[: select.PIPE_BUF])
        except OSError:
            # Nobody reads our output any more. Unrecorded, the command would now get SIGPIPE.
            self.pending = b""
            if self.open:
                self.close()
            return
        self.pending = self.pending[written:]

    def close(self) -> None:
        os.close(self.fd)
        self.open = False


@dataclass
class Runner:
    """Runs commands to their ends."""

    commands: list[Command]
    environment: Mapping[str, str]
    signals: Signals
    grace_seconds: float
    tick: Callable[[], None] = lambda: None  # called about once a second
    started: Callable[[int], None] = lambda pid: None  # told each process group
    failure: FabtraceError | None = None
    _next_tick: float = 0.0
    _pipe: Pipe = field(default_factory=Pipe)
    _pidfds: dict[int, Command] = field(default_factory=dict)
    _deadline: float | None = None  # when those that still run are ended
    _next_signal: signal.Signals = signal.SIGTERM  # what they get at the deadline
    _passed: set[signal.Signals] = field(default_factory=set)
    _ending: bool = False  # they were told to end
    _hint: float | None = None  # when to say that we wait for an address

    def run(self) -> None:
        """Start the commands and return when all have ended."""
        try:
            if any(command.needs_address for command in self.commands):
                self._hint = time.monotonic() + HINT_SECONDS
            for command in self.commands:
                if not command.needs_address and self.failure is None:
                    self._start(
                        command, pipe=self._hint is not None and command is self.commands[0]
                    )
            while self._pidfds:
                self._step()
            self._finish_output()
            self._end_leftovers()
        finally:
            self._abandon()

    @property
    def exit_code(self) -> int:
        """That of what kept a command from running, else the commands' first that is not 0."""
        if self.failure is not None:
            return self.failure.exit_code
        for command in self.commands:
            if command.code:
                return command.code
        if self.signals.stops and any(command.code is None for command in self.commands):
            return 128 + self.signals.stops[0]
        return 0

    def _start(self, command: Command, pipe: bool = False) -> None:
        try:
            process = subprocess.Popen(
                command.words,
                # Out of the terminal's foreground group, a read from the terminal would stop it.
                stdin=subprocess.DEVNULL if _is_terminal(0) else None,
                stdout=subprocess.PIPE if pipe else None,
                env=self.environment,
                process_group=0,
                close_fds=False,  # what our caller handed down is for the commands
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self._fail(FabtraceError(f"cannot start {command.words[0]}: {reason}", code))
            return
        command.process = process
        self._pidfds[os.pidfd_open(process.pid)] = command
        self.started(process.pid)
        if pipe:
            assert process.stdout is not None
            self._pipe.fd, self._pipe.open = os.dup(process.stdout.fileno()), True
            process.stdout.close()

    def _step(self) -> None:
        """Wait for something to happen, and deal with it."""
        poll = select.poll()
        poll.register(self.signals.fd, select.POLLIN)
        for fd in self._pidfds:
            poll.register(fd, select.POLLIN)
        if self._pipe.open and len(self._pipe.pending) < 65536:
            poll.register(self._pipe.fd, select.POLLIN)
        if self._pipe.pending:
            poll.register(STDOUT, select.POLLOUT)
        times = [when for when in (self._deadline, self._hint) if when is not None]
        left = max(0.0, min([self._next_tick, *times]) - time.monotonic()) * 1000
        ready = {fd for fd, _events in poll.poll(left)}
        if self._pipe.open and self._pipe.fd in ready:
            self._pipe.read()
        if self._pipe.pending and STDOUT in ready:
            self._pipe.write()
        if self.signals.fd in ready:
            self.signals.collect()
        # `timeout` sends twice, people press twice: the commands get each signal once.
        for number in self.signals.stops:
            if number not in self._passed:
                self._passed.add(number)
                self._stop(number)
        for fd in [fd for fd in self._pidfds if fd in ready]:
            self._reap(fd)
        self._check_address()
        self._check_times()

    def _check_address(self) -> None:
        """Start what waits for the address, once it is there; give up when it cannot come."""
        waiting = [
            command for command in self.commands if command.needs_address and not command.process
        ]
        if not waiting or self.failure is not None or self.signals.stops:
            return
        first = self.commands[0]
        while first.code is not None and not self._pipe.complete and self._readable():
            self._pipe.read()  # what it printed last
        address = os.fsdecode(self._pipe.line.rstrip(b"\r"))
        if self._pipe.complete and address:
            self._hint = None
            for command in waiting:
                command.words = [word.replace(PLACEHOLDER, address) for word in command.words]
                self._start(command)
        elif self._pipe.complete or len(self._pipe.line) > ADDRESS_MAX_BYTES:
            what = (
                "an empty line" if self._pipe.complete else f"more than {ADDRESS_MAX_BYTES} bytes"
            )
            self._fail(self._no_address(f"{first.name} printed {what} first"))
        elif first.code is not None:
            cause = f"{first.name} {_describe(first.code)} before it printed a line"
            self._fail(self._no_address(cause, first.code or EXIT_FAILURE))
        elif not self._pipe.open and self._deadline is None:
            say(f"{first.name} closed its output and printed no address")
            self._deadline = time.monotonic() + self.grace_seconds

    def _no_address(self, cause: str, code: int = EXIT_FAILURE) -> FabtraceError:
        return FabtraceError(
            f"no address for {PLACEHOLDER}: {cause}; the first command must print it on its first line",
            code,
        )

    def _check_times(self) -> None:
        now = time.monotonic()
        if now >= self._next_tick:
            self.tick()
            self._next_tick = now + TICK_SECONDS
        if self._hint is not None and now >= self._hint:
            say(
                f"waiting for {self.commands[0].name} to print its address ({PLACEHOLDER}) on standard output"
            )
            self._hint = None
        if self._deadline is not None and now >= self._deadline and self._pidfds:
            self._send(self._next_signal)
            self._ending = True
            self._deadline = now + self.grace_seconds
            self._next_signal = signal.SIGKILL

    def _reap(self, pidfd: int) -> None:
        """A command has ended."""
        command = self._pidfds.pop(pidfd)
        os.close(pidfd)
        assert command.process is not None
        code = command.process.wait()
        command.code = code if code >= 0 else 128 - code
        if command.code != 0 and self._pidfds and self._deadline is None:
            others = ", ".join(other.name for other in self._pidfds.values())
            say(
                f"{command.name} {_describe(command.code)}; {others} may go on for"
                f" {self.grace_seconds:g} s (--grace)"
            )
            self._deadline = time.monotonic() + self.grace_seconds

    def _fail(self, failure: FabtraceError) -> None:
        """The recording cannot go on: end what runs."""
        self.failure = failure
        self._hint = None
        self._stop(signal.SIGTERM)

    def _stop(self, number: signal.Signals) -> None:
        """Pass a signal on; who has not ended after the grace is killed."""
        self._send(number)
        self._ending = True
        self._hint = None
        self._next_signal = signal.SIGKILL
        self._deadline = time.monotonic() + self.grace_seconds

    def _send(self, number: signal.Signals) -> None:
        for command in self._pidfds.values():
            assert command.process is not None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(command.process.pid, number)

    def _finish_output(self) -> None:
        """Copy what the first command left in the pipe; others may still hold its other end."""
        poll = select.poll()
        poll.register(self.signals.fd, select.POLLIN)
        while self._pipe.pending or self._readable():
            if not self._pipe.pending:
                self._pipe.read()
                continue
            poll.register(STDOUT, select.POLLOUT)
            ready = {fd for fd, _events in poll.poll()}
            if self.signals.fd in ready and self.signals.collect():
                return
            if STDOUT in ready:
                self._pipe.write()

    def _readable(self) -> bool:
        return self._pipe.open and bool(select.select([self._pipe.fd], [], [], 0)[0])

    def _groups(self) -> list[int]:
        return [command.process.pid for command in self.commands if command.process]

    def _end_leftovers(self) -> None:
        """After a signal or a failure: what the commands left running ends too."""
        if not self._ending or self._deadline is None:
            return
        left = max(0.0, self._deadline - time.monotonic())
        processes.wait_or_kill(processes.group_members(self._groups()), left)

    def _abandon(self) -> None:
        """Whatever happened to us: no command stays behind, no descriptor either."""
        if self._pipe.open:
            self._pipe.close()
        if not self._pidfds:
            return
        self._send(signal.SIGKILL)
        for fd, command in self._pidfds.items():
            os.close(fd)
            if command.process is not None:
                command.process.wait()
        self._pidfds.clear()


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _describe(code: int) -> str:
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(code - 128).name}"
    return f"ended with exit code {code}"
