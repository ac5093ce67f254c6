# SPDX-License-Identifier: BSD-3-Clause
"""A world of their own for the programs that the end-to-end tests run.

FABT_BUILD names the build whose programs are tested (default: build). In a private mount and
network namespace a test sees no session daemon but those it starts, and nothing but loopback.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests" / "python"))

from lttng_private import PrivateLttng  # noqa: E402  (the path comes first)

BUILD = Path(os.environ.get("FABT_BUILD", SOURCE / "build")).resolve()
SANITIZER = os.environ.get("FABT_SANITIZER", "")
FABTRACE = SOURCE / "scripts" / "fabtrace"
SECONDS = 300.0  # nothing takes so long but a hang
MARK = "FABT_TEST_MARK"


@dataclass(frozen=True)
class Done:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        """Lines on stderr, without the recorder's remarks."""
        return [line for line in self.err.splitlines() if not line.startswith("fabtrace record: ")]

    def check_sanitizer(self) -> None:
        """No sanitizer said anything. (A crash inside libfabric may still exit with 1.)"""
        for word in ("Sanitizer", "runtime error:", "terminated with signal", "Traceback"):
            assert word not in self.err, self.err


def worker_threads(pid: int) -> list[Path]:
    """The folders in /proc of a program's workers: its threads but main and LTTng's."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [
        task
        for task in tasks
        if int(task.name) != pid and not (task / "comm").read_text().strip().endswith("-ust")
    ]


def worker_ticks(pid: int) -> int:
    """The CPU time of a program's busiest worker, in ticks of the kernel; 0 if it has none."""
    ticks = [0]
    with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
        for task in worker_threads(pid):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ticks.append(int(fields[11]) + int(fields[12]))
    return max(ticks)


def wait_busy(process: subprocess.Popen[str], ticks: int = 30) -> None:
    """
    Return when a worker has used so much CPU time: the transfer goes on. (A handshake takes a worker
    nearly none. The process as a whole may use that much before it has read its options.)
    """
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if worker_ticks(process.pid) >= ticks:
            return
        time.sleep(0.01)
    pytest.fail(f"no progress: {process.communicate()}")


class World:
    """Runs commands in the namespace and finds what they leave behind."""

    def __init__(self, lttng: PrivateLttng, folder: Path) -> None:
        self.lttng = lttng
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self.get = BUILD / "src" / "fabtget"
        self.put = BUILD / "src" / "fabtput"
        self.emit = BUILD / "tests" / "tools" / "emit"

    def environment(self, **extra: str) -> dict[str, str]:
        return {**self.lttng.environment, MARK: self.mark, **extra}

    def start(self, *words: str | Path, **extra: str) -> subprocess.Popen[str]:
        """Start a command inside. Signals that we were told to ignore (nohup) are not ignored there."""
        return subprocess.Popen(
            ["env", "--default-signal", *self.lttng.command(list(words))],
            cwd=self.folder,
            env=self.environment(**extra),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], sanitizer: bool = True) -> Done:
        """Wait for a command; the test fails if it hangs."""
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.kill_leftovers()
            out, err = process.communicate()
            pytest.fail(f"{process.args!r} hangs: {out}{err}")
        done = Done(process.returncode, out, err)
        if sanitizer:
            done.check_sanitizer()
        return done

    def run(self, *words: str | Path, **extra: str) -> Done:
        """Run a command inside."""
        return self.finish(self.start(*words, **extra))

    def fabtrace(self, *words: str | Path, **extra: str) -> Done:
        """Run fabtrace inside."""
        return self.run(FABTRACE, *words, **extra)

    def report(self, trace: Path) -> dict[str, Any]:
        """What `fabtrace report --json` says."""
        done = self.fabtrace("report", trace, "--json")
        assert done.code == 0, done.err
        result: dict[str, Any] = json.loads(done.out)
        return result

    def leftovers(self) -> dict[int, str]:
        """Living processes that descend from what the test started, by process id."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with suppress(OSError):
                if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        return found

    def kill_leftovers(self) -> None:
        for pid in self.leftovers():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def sessions(self) -> str:
        """What `lttng list` says about sessions."""
        return self.lttng.run(["lttng", "--no-sessiond", "list"], check=False).stdout
