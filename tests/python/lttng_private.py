# SPDX-License-Identifier: BSD-3-Clause
"""A session daemon that nobody else sees, for tests.

For root LTTNG_HOME does not give a private session daemon (the sockets are always in /run/lttng), so
root gets mount and network namespaces of its own, with fresh /run and /dev/shm and loopback up; where
the kernel forbids that and no session daemon runs, ours simply is the machine's only one. Other
users get a private one by LTTNG_HOME.

    with PrivateLttng() as lttng:
        lttng.record(trace_dir, [["./emit"]])
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

NAMESPACE_SETUP = (
    "mount -t tmpfs none /run && mkdir /run/lttng && "
    "mount -t tmpfs -o mode=1777 none /dev/shm && ip link set lo up && echo ready && exec cat"
)


class Unavailable(RuntimeError):
    """No private session daemon is possible here; a test skips with this reason."""


class PrivateLttng:
    """A private world for LTTng: commands run in it see its session daemon and no other.

    `beside`: another one, with which this one shares the network: they are like two hosts.
    """

    def __init__(self, start_daemon: bool = True, beside: PrivateLttng | None = None) -> None:
        for tool in ("lttng", "lttng-sessiond"):
            if shutil.which(tool) is None:
                raise Unavailable(f"{tool} is not installed (package lttng-tools)")
        self.start_daemon = start_daemon
        self._beside = beside
        self.home = Path(tempfile.mkdtemp(prefix="fabt-lttng-"))
        self._keeper: subprocess.Popen[str] | None = None
        self._prefix: list[str] = []
        self._sessions = 0

    def __enter__(self) -> PrivateLttng:
        try:
            if os.geteuid() == 0:
                self._enter_namespace()
            if self.start_daemon:
                # -d returns when the daemon is ready to take commands.
                self.run(["lttng-sessiond", "-d", "--no-kernel"])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        pid = self.daemon_pid()
        if pid is not None and (self.start_daemon or self._keeper is not None):
            stop(pid)
        if self._keeper is not None:
            self._keeper.communicate()  # closes its standard input, and so ends it
        shutil.rmtree(self.home, ignore_errors=True)

    def _enter_namespace(self) -> None:
        neighbour = self._beside._keeper if self._beside is not None else None
        enter = ["unshare", "-m", "-n"]
        if neighbour is not None:
            enter = ["nsenter", "-t", str(neighbour.pid), "-n", "unshare", "-m"]
        keeper = subprocess.Popen(
            [*enter, "sh", "-c", NAMESPACE_SETUP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert keeper.stdout is not None
        if keeper.stdout.readline() == "ready\n":
            self._keeper = keeper
            # -r: entering a mount namespace resets the root folder, which may be a chroot's.
            self._prefix = ["nsenter", "-t", str(keeper.pid), "-m", "-n", "-r", "--wd=."]
            return
        _, reason = keeper.communicate()
        if self._beside is not None:
            raise Unavailable(f"no namespaces ({reason.strip()}), so no second session daemon")
        if Path("/run/lttng/lttng-sessiond.pid").exists():
            raise Unavailable(f"no namespaces ({reason.strip()}) and a session daemon runs already")

    @property
    def environment(self) -> dict[str, str]:
        """Environment for programs that are to use this daemon."""
        return {**os.environ, "LTTNG_HOME": str(self.home), "FI_TCP_IFACE": "lo"}

    def command(self, argv: Sequence[str | Path]) -> list[str]:
        """The command line that runs `argv` inside."""
        return [*self._prefix, *map(str, argv)]

    def popen(
        self, argv: Sequence[str | Path], extra: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a program inside."""
        return subprocess.Popen(
            self.command(argv),
            env={**self.environment, **(extra or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self,
        argv: Sequence[str | Path],
        check: bool = True,
        extra: Mapping[str, str] | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside; its output is text. With `check` a failure is an AssertionError."""
        done = subprocess.run(
            self.command(argv),
            env={**self.environment, **(extra or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{argv} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done

    def daemon_pid(self) -> int | None:
        """Process id of the session daemon that runs inside, if one does."""
        path = "/run/lttng" if os.geteuid() == 0 else f"{self.home}/.lttng"
        shown = subprocess.run(
            self.command(["cat", f"{path}/lttng-sessiond.pid"]), capture_output=True, text=True
        )
        text = shown.stdout.strip()
        if shown.returncode != 0 or not text.isdigit():
            return None
        # A daemon that was killed leaves its file.
        comm = Path("/proc", text, "comm")
        return int(text) if comm.exists() and comm.read_text().startswith("lttng-sess") else None

    def record(
        self,
        output: Path,
        commands: Sequence[Sequence[str | Path]],
        loglevel: str = "DEBUG",
        check: bool = True,
        buffers: Sequence[str] = ("--subbuf-size=1M",),
    ) -> None:
        """Record `commands`, all running at once, into the folder `output`."""
        self._sessions += 1
        name = f"test-{os.getpid()}-{self._sessions}"
        self.run(["lttng", "create", name, f"--output={output}"])
        try:
            self.run(["lttng", "enable-channel", "-u", "-s", name, *buffers, "c"])
            enable = ["lttng", "enable-event", "-u", "-s", name, "-c", "c", "fabt:*"]
            self.run([*enable, f"--loglevel={loglevel}"])
            self.run(["lttng", "start", name])
            running = [self.popen(command) for command in commands]
            for command, process in zip(commands, running):
                _, errors = process.communicate(timeout=300)
                if check and process.returncode != 0:
                    raise AssertionError(f"{command} ended with {process.returncode}: {errors}")
        finally:
            self.run(["lttng", "destroy", name])


def stop(pid: int) -> None:
    """End a process and wait until it is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        os_wait_readable(handle)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def os_wait_readable(handle: int, seconds: float = 30) -> None:
    """Wait until a pidfd says that its process has ended."""
    import select

    select.select([handle], [], [], seconds)
