# SPDX-License-Identifier: BSD-3-Clause
"""Processes of a campaign: start, wait for what happens, what they leave behind, where they hang.

Waiting is poll(2) on process descriptors and on the pipes of standard output, so the end of a
process or its address is noticed at once. CPU time of a process is the measure of how far it is:
unlike the time of day it doesn't depend on what else the machine does.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from campaign import CRASH, Held, environment, shown

SHARED_MEMORY = Path("/dev/shm")
PIPE_BYTES = 1 << 16
LOOK_S = 0.002  # between two looks at something that can't be waited for
STACK_S = 30.0
CLOCK_SCHED = 2  # the clock of a process's CPU time, see clock_getcpuclockid(3)


class Process:
    """A running program. Its standard output is collected, its standard error goes to a file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        provider: str,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.shown = shown(command, {"FI_PROVIDER": provider, **(extra or {})})
        self.err_path = folder / f"{name}.err"
        self.out = bytearray()
        self.started = time.monotonic()
        self.ended: float | None = None
        with self.err_path.open("wb") as err:
            # In a session of its own: Ctrl-C is for us, and we see to our children.
            self.popen = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=err,
                cwd=folder,  # a crash may leave files where the program runs
                env=environment(provider, extra),
                start_new_session=True,
            )
        self.pid = self.popen.pid
        self.pidfd = os.pidfd_open(self.pid)
        assert self.popen.stdout is not None
        self.out_fd = self.popen.stdout.fileno()
        os.set_blocking(self.out_fd, False)
        self.out_open = True
        self.killed = False  # by us

    @property
    def running(self) -> bool:
        return self.ended is None

    @property
    def code(self) -> int:
        """The exit code, negative for a signal; only of a process that has ended."""
        assert self.popen.returncode is not None
        return self.popen.returncode

    @property
    def err(self) -> str:
        return self.err_path.read_text(errors="replace")

    @property
    def crashed(self) -> bool:
        """Did a signal end it, openly or behind exit code 1?"""
        return self.code < 0 or self.crash_line is not None

    @property
    def crash_line(self) -> str | None:
        """What is said of a crash that hides behind exit code 1."""
        return next((line for line in self.err.splitlines() if CRASH in line), None)

    @property
    def address(self) -> str | None:
        """The first line of standard output, once it is complete."""
        line, end, _ = bytes(self.out).partition(b"\n")
        return line.decode(errors="replace") if end else None

    def results(self) -> dict[str, Any] | None:
        """The JSON document that a program started by json_options wrote, if it did."""
        try:
            document = json.loads((self.folder / f"{self.name}.json").read_text())
        except (OSError, ValueError):
            return None
        return document if isinstance(document, dict) else None

    def drain(self) -> None:
        """Take what is in the pipe."""
        while self.out_open:
            try:
                part = os.read(self.out_fd, PIPE_BYTES)
            except BlockingIOError:
                return
            self.out += part
            self.out_open = part != b""

    def look(self) -> None:
        """Notice what has happened."""
        self.drain()
        if self.ended is None and self.popen.poll() is not None:
            self.ended = time.monotonic()
            self.drain()
            os.close(self.pidfd)
            assert self.popen.stdout is not None
            self.popen.stdout.close()
            self.out_open = False
            (self.folder / f"{self.name}.out").write_bytes(self.out)

    def cpu(self) -> float:
        """CPU seconds so far; 0 when the process is gone."""
        if self.running:
            with suppress(OSError):
                return time.clock_gettime(~self.pid << 3 | CLOCK_SCHED)
        return 0.0

    def blocks(self, number: int) -> bool:
        """Has the program taken charge of a signal? Before that the system would kill it."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("SigBlk:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False

    def send(self, number: int) -> bool:
        """Send a signal; False if the process had ended before."""
        if not self.running:
            return False
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """End it for good, and reap it."""
        if self.running:
            self.killed = self.send(signal.SIGKILL)
            self.popen.wait()
            self.look()

    def shared_memory(self) -> list[Path]:
        """What it has in /dev/shm: shm names its regions by process id."""
        return sorted(SHARED_MEMORY.glob(f"{self.pid}:*"))

    def descendants(self) -> bool:
        """Is anything left of its session, though it has ended itself?"""
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def stacks(self) -> str:
        """Where all its threads are, for the log of a hang."""
        text = ""
        for task in sorted(Path(f"/proc/{self.pid}/task").glob("*")):
            with suppress(OSError, IndexError):
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                text += (
                    f"thread {task.name}: state {state}, waits in {(task / 'wchan').read_text()}\n"
                )
        gdb = shutil.which("gdb")
        if gdb is None:
            return text + "no stacks: gdb is not installed\n"
        command = [gdb, "-p", str(self.pid), "-batch", "-nx", "-ex", "thread apply all backtrace"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=STACK_S, check=False
            )
        except subprocess.TimeoutExpired:
            return text + f"no stacks: gdb took more than {STACK_S:.0f} s\n"
        return text + done.stdout


def json_options(folder: Path, name: str) -> list[str]:
    """Options that make the program of that name leave its results for Process.results."""
    return ["--json", str(folder / f"{name}.json")]


def wait(
    processes: Iterable[Process], limit_s: float, until: Callable[[], bool] | None = None
) -> bool:
    """Wait until a condition holds, by default that all have ended; False: it took too long.

    The condition is looked at whenever a process ends or writes; when none of that shows it
    (CPU time), every 2 ms as well.
    """
    group = list(processes)
    deadline = time.monotonic() + limit_s

    def ended() -> bool:
        return not any(process.running for process in group)

    condition = until or ended
    while True:
        poll = select.poll()
        for process in group:
            process.look()
            if process.running:
                poll.register(process.pidfd, select.POLLIN)
                if process.out_open:
                    poll.register(process.out_fd, select.POLLIN)
        if condition():
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        poll.poll(1000 * (left if until is None else min(left, LOOK_S)) + 1)


def pass_time(processes: Iterable[Process], duration_s: float) -> None:
    """Let time pass, for faults that last; what the processes write is taken meanwhile."""
    deadline = time.monotonic() + duration_s
    wait(processes, duration_s + 1, lambda: time.monotonic() >= deadline)


def wait_address(process: Process, limit_s: float) -> str | None:
    """get's address; None if it ended or the time is over without one."""
    wait([process], limit_s, lambda: process.address is not None or not process.running)
    return process.address


class Group:
    """The processes of a run. However the run ends, none of them outlives the `with` block."""

    def __init__(self) -> None:
        self.processes: list[Process] = []
        self.abandoned = False

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        with Held():
            self.end()

    def end(self) -> None:
        """Kill what is left, and remove what the killed ones left."""
        for process in self.processes:
            process.kill()
            if process.descendants():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            for path in process.shared_memory():
                path.unlink(missing_ok=True)

    def start(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        provider: str,
        extra: Mapping[str, str] | None = None,
    ) -> Process:
        with Held():
            process = Process(name, command, folder, provider, extra)
            self.processes.append(process)
        if self.abandoned:
            process.send(signal.SIGKILL)
        return process

    def abandon(self) -> None:
        """For another thread: end all processes, and those that are still to come at once."""
        self.abandoned = True
        for process in list(self.processes):
            with suppress(OSError):  # it has just been reaped
                process.send(signal.SIGKILL)


class Load:
    """Keeps processors busy while the block runs; nothing outlives us even if we are killed."""

    PROGRAM = (
        "import os\nparent = os.getppid()\n"
        "while os.getppid() == parent:\n    for _ in range(1000000):\n        pass\n"
    )

    def __init__(self, count: int) -> None:
        self.count = count
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Load:
        for _ in range(self.count):
            command = [sys.executable, "-S", "-c", self.PROGRAM]
            with Held():
                self.processes.append(subprocess.Popen(command, start_new_session=True))
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
