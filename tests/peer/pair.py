# SPDX-License-Identifier: BSD-3-Clause
"""Runs a get and one or more puts against each other over loopback, and keeps what each said.

The programs come from the build folder named by the environment variable FABT_BUILD, by default
`build` at the top of the repository.
"""

from __future__ import annotations

import os
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FABT_BUILD", REPOSITORY / "build"))
OUR_GET = str(BUILD / "src" / "fabtget")
OUR_PUT = str(BUILD / "src" / "fabtput")
PEER = str(BUILD / "tests" / "peer" / "fieldpeer")

# Each provider has a variable of its own to keep it on loopback.
LOOPBACK = {f"FI_{name}_IFACE": "lo" for name in ("TCP", "NET", "SOCKETS", "UDP")}

LONGEST_RUN_S = 180.0


@dataclass(frozen=True)
class Outcome:
    """How a program ended: its exit code (negative: a signal's number) and what it printed."""

    role: str
    code: int
    out: str
    err: str
    overran: bool

    def __str__(self) -> str:
        late = ", killed when its time was up" if self.overran else ""
        return f"{self.role}: exit code {self.code}{late}; standard error: {self.err.strip()!r}"


class Program:
    """A running program that is killed when its time is up, so that no test hangs."""

    def __init__(self, role: str, command: list[str], provider: str, limit_s: float) -> None:
        self.role = role
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **LOOPBACK, "FI_PROVIDER": provider},
        )
        self._overran = False
        self._watchdog = threading.Timer(limit_s, self._kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def _kill(self) -> None:
        self._overran = True
        self._process.kill()

    def address(self) -> str:
        """The first line on standard output; empty if the program ended without one."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def terminate(self) -> None:
        self._process.terminate()

    def finish(self) -> Outcome:
        out, err = self._process.communicate()
        self._watchdog.cancel()
        # A program of shm that was killed leaves its region behind.
        Path(f"/dev/shm/{self._process.pid}:0:0").unlink(missing_ok=True)
        return Outcome(self.role, self._process.returncode, out, err, self._overran)


def exchange(
    provider: str, get: list[str], *puts: list[str], limit_s: float = LONGEST_RUN_S
) -> list[Outcome]:
    """Starts get, then all puts with its address; returns get's outcome and then each put's."""
    target = Program("get", get, provider, limit_s)
    address = target.address()
    if not address:
        return [target.finish()]
    initiators = [Program("put", [*put, address], provider, limit_s) for put in puts]
    ended = [initiator.finish() for initiator in initiators]
    return [target.finish(), *ended]
