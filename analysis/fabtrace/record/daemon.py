# SPDX-License-Identifier: BSD-3-Clause
"""The session daemon: find the one that runs, or start one and stop it when nobody needs it.

A daemon that we did not start is never stopped. One that a recorder started may in the meantime serve
another recording, whose recorder found it there. So the daemon's folder holds a file with the process id
of a daemon that belongs to recorders, locked while one of them comes or goes; the last to go stops it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from fabtrace.errors import FabtraceError
from fabtrace.record import processes
from fabtrace.record.lttng import INSTALL, Client, complaint, run_dir, user_home
from fabtrace.record.signals import Signals

START_SECONDS = 30.0
STOP_SECONDS = 20.0


class Ownership:
    """The file that says that the running daemon belongs to recorders."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "fabtrace.owner"

    def exists(self) -> bool:
        return self._path.exists()

    @contextlib.contextmanager
    def lock(self) -> Iterator[IO[str]]:
        """Hold the file; made if need be. Wait for a recorder that is coming or going."""
        while True:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                file = open(
                    os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+"
                )
            except OSError as error:
                raise no_daemon(f"{error.filename}: {error.strerror}") from None
            with file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_nlink > 0:
                    yield file
                    return
                # Its holder stopped the daemon and removed the file while we waited: once more.

    def daemon(self, file: IO[str]) -> int:
        """Process id of the recorders' daemon if that is the one which runs, else 0."""
        file.seek(0)
        text = file.read().strip()
        with contextlib.suppress(OSError):
            if text and text == (self._path.parent / "lttng-sessiond.pid").read_text().strip():
                # A daemon that was killed leaves its file, and the number may be another's by now.
                if Path("/proc", text, "comm").read_text().startswith("lttng-sessiond"):
                    return int(text)
        return 0

    def claim(self, file: IO[str], pid: int) -> None:
        file.seek(0)
        file.truncate()
        file.write(f"{pid}\n")
        file.flush()

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


class Daemon:
    """Access to a session daemon. Enter `arriving` and `leaving` around what must see it alive."""

    def __init__(self, client: Client, signals: Signals) -> None:
        self._client = client
        self._signals = signals
        self._ownership = Ownership(run_dir())
        self._child: subprocess.Popen[bytes] | None = None
        self._shared = False  # it belongs to recorders

    @contextlib.contextmanager
    def arriving(self) -> Iterator[None]:
        """See to it that a daemon runs; in the body make the session that keeps it running."""
        if self._client.sessions() is not None and not self._ownership.exists():
            yield
            return
        with self._ownership.lock() as file:
            if self._client.sessions() is None:
                self._start()
                assert self._child is not None
                self._ownership.claim(file, self._child.pid)
            self._shared = self._ownership.daemon(file) != 0
            if not self._shared:
                self._ownership.remove()  # left over: the daemon that runs is somebody else's
            try:
                yield
            except BaseException:
                self._stop_if_unused(file)
                raise

    def rejoin(self) -> None:
        """In another recorder's place: the daemon is stopped at the end if it is the recorders'."""
        if self._ownership.exists():
            with self._ownership.lock() as file:
                self._shared = self._ownership.daemon(file) != 0
                if not self._shared:
                    self._ownership.remove()  # it died

    @contextlib.contextmanager
    def leaving(self) -> Iterator[None]:
        """In the body destroy the session; then stop the daemon if it is the recorders' and unused."""
        if not self._shared:
            yield
            return
        with self._ownership.lock() as file:
            try:
                yield
            finally:
                self._stop_if_unused(file)

    def _stop_if_unused(self, file: IO[str]) -> None:
        pid = self._ownership.daemon(file)
        if pid == 0 and self._child is not None and self._child.poll() is None:
            pid = self._child.pid
        if pid == 0:
            if self._shared:  # it died
                self._ownership.remove()
            return
        if self._client.sessions():
            return  # another recorder's, or somebody uses it by hand: not ours to end now
        stop(pid)
        if self._child is not None and self._child.pid == pid:
            self._child.wait()
        self._ownership.remove()

    def _start(self) -> None:
        """Start a daemon and return when it takes commands."""
        program = shutil.which("lttng-sessiond")
        if program is None:
            raise FabtraceError(f"cannot record: `lttng-sessiond` is not in PATH; {INSTALL}")
        with tempfile.TemporaryFile() as log:
            self._child = subprocess.Popen(
                [program, "--no-kernel", "--sig-parent"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # out of reach of the terminal's Ctrl-C
            )
            try:
                self._wait_ready(self._child)
            except FabtraceError as error:
                processes.wait_or_kill(processes.family(self._child.pid), 0)
                self._child.wait()
                self._child = None
                self._ownership.remove()
                if error.exit_code != 1:
                    raise
                log.seek(0)
                said = complaint(log.read().decode(errors="replace"))
                raise no_daemon(f"{error}: {said}") from None

    def _wait_ready(self, child: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        pidfd = os.pidfd_open(child.pid)
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.register(self._signals.fd, select.POLLIN)
            while not self._signals.ready:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise FabtraceError(f"lttng-sessiond was not ready after {START_SECONDS:.0f} s")
                ended = any(fd == pidfd for fd, _events in poll.poll(left * 1000))
                if self._signals.stopped:
                    raise interrupted(self._signals)
                if ended:
                    raise FabtraceError("lttng-sessiond did not start")
        finally:
            os.close(pidfd)
        if self._client.sessions() is None:
            raise FabtraceError("lttng-sessiond runs but does not answer")


def stop(pid: int) -> None:
    """End a daemon, and wait for it and the consumer daemons that it started."""
    members = processes.family(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    processes.wait_or_kill(members, STOP_SECONDS)
    left = run_dir() / "lttng-sessiond.pid"
    with contextlib.suppress(OSError):
        if left.read_text().strip() == str(pid):  # it had to be killed
            left.unlink()


def no_daemon(cause: str) -> FabtraceError:
    """No daemon can be had: why, and what to do."""
    if os.geteuid() == 0:
        remedy = (
            f"make {run_dir()} writable, or start `lttng-sessiond --daemonize` where it can run"
        )
    else:
        remedy = (
            f"make {user_home()} writable or set LTTNG_HOME to a folder that is, or have root start "
            "`lttng-sessiond --daemonize` and join the group `tracing`"
        )
    return FabtraceError(f"cannot record, no LTTng session daemon: {cause}; {remedy}")


def interrupted(signals: Signals) -> FabtraceError:
    """Somebody ended us before there was anything to record."""
    number = signals.stops[0]
    return FabtraceError(f"{number.name} before the commands were started", 128 + number)
