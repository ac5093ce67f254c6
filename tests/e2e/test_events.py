# SPDX-License-Identifier: BSD-3-Clause
"""What the engine tells in its events, read from real traces by babeltrace2's text."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import oracle
import pytest
from lttng_private import PrivateLttng, Unavailable
from world import SECONDS, World

PATTERN_BYTES = 76
TOTAL = 300 * PATTERN_BYTES
TCP, SHM = "tcp;ofi_rxm", "shm"
RECEIVES = {"initial_rx", "ack_rx", "vector_rx", "progress_rx"}
LISTENING = 0xFFFFFFFF
STOPPED_S = 0.2


class Event(NamedTuple):
    """An event of a trace."""

    name: str
    time_ns: int
    fields: oracle.Fields

    @property
    def instance(self) -> int:
        return int(self.fields["writer"]) // 1024


@pytest.fixture
def daemon_world(tmp_path: Path) -> Iterator[World]:
    """A world in which a session daemon runs, so that tests can make trace sessions of their own."""
    try:
        with PrivateLttng() as lttng:
            result = World(lttng, tmp_path)
            yield result
            leftovers = result.leftovers()
            result.kill_leftovers()
            assert not leftovers
    except Unavailable as reason:
        pytest.skip(str(reason))


@contextmanager
def tracing(world: World, output: Path, level: str = "DEBUG") -> Iterator[None]:
    """A trace session of its own, from here to the end of the block."""
    name = output.name
    world.lttng.run(["lttng", "create", name, f"--output={output}"])
    try:
        channel = ["lttng", "enable-channel", "-u", "-s", name]
        world.lttng.run([*channel, "--subbuf-size=2M", "--num-subbuf=8", "c"])
        enable = ["lttng", "enable-event", "-u", "-s", name, "-c", "c", "fabt:*"]
        world.lttng.run([*enable, f"--loglevel={level}"])
        world.lttng.run(["lttng", "start", name])
        yield
    finally:
        world.lttng.run(["lttng", "destroy", name])


def read(trace: Path) -> list[Event]:
    """All events of a trace."""
    return [Event(name, time_ns, fields) for name, time_ns, fields in oracle.events(trace)]


def common(provider: str, *options: str) -> list[str]:
    """Options for both sides."""
    bind = ["--bind", "127.0.0.1"] if provider != SHM else []
    return ["--provider", provider, *bind, *options]


class Pair:
    """A running get and its put."""

    def __init__(self, world: World, options: list[str], put_options: list[str]) -> None:
        self.world = world
        self.get = world.start(world.get, *options)
        assert self.get.stdout is not None
        address = self.get.stdout.readline().strip()
        self.put = world.start(world.put, *options, *put_options, address)

    @property
    def processes(self) -> list[subprocess.Popen[str]]:
        return [self.get, self.put]

    def pid(self, process: subprocess.Popen[str]) -> int:
        """The program's own process id; nsenter stays its parent."""
        name = "fabtget" if process is self.get else "fabtput"
        (pid,) = [
            pid
            for pid in self.world.leftovers()
            if Path(f"/proc/{pid}/comm").read_text().strip() == name
        ]
        return pid

    def wait_for_work(self) -> None:
        """Until both have worked for a while: their sessions then transfer payload."""
        deadline = time.monotonic() + SECONDS
        for process in self.processes:
            while cpu_ticks(self.pid(process)) < 20:
                assert process.poll() is None and time.monotonic() < deadline
                os.sched_yield()

    def finish(self) -> None:
        for process in self.processes:
            done = self.world.finish(process)
            assert done.code == 0, done.err

    def cancel(self) -> None:
        """End a run of -c."""
        pids = [self.pid(process) for process in self.processes]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        self.finish()


def cpu_ticks(pid: int) -> int:
    """Clock ticks of CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def of_op(event: Event) -> tuple[int, int, int]:
    return event.instance, event.fields["session"], event.fields["op"]


def test_outliers_are_the_slow_operations(daemon_world: World, tmp_path: Path) -> None:
    """
    Description: with a limit that every operation exceeds, each send and write that completes has
    its outlier, and no receive has one.
    """
    with tracing(daemon_world, tmp_path / "trace"):
        Pair(
            daemon_world, common(TCP, "-n", "2", "--total", str(TOTAL), "--outlier", "0.001us"), []
        ).finish()
    events = read(tmp_path / "trace")
    opened = {
        (e.instance, e.fields["session"]): e.time_ns
        for e in reversed(events)
        if e.name == "session_open"
    }
    ended = {
        of_op(e): e.time_ns
        for e in events
        if e.name == "op_complete"
        and e.fields["status"] == "ok"
        and e.fields["kind"] not in RECEIVES
    }
    outliers = {of_op(e): e for e in events if e.name == "outlier"}
    assert outliers.keys() == ended.keys() and len(ended) > 500
    for op, event in outliers.items():
        assert event.fields["limit_ns"] == 1
        assert 1 < event.fields["duration_ns"] < ended[op] - opened[op[:2]]


def test_few_outliers(daemon_world: World, tmp_path: Path) -> None:
    """No limit, or one that nothing exceeds: no outliers, and no stalls in a run that goes well."""
    none: list[str] = []
    for number, options in enumerate((none, ["--outlier", "1h"])):
        trace = tmp_path / f"trace{number}"
        with tracing(daemon_world, trace, "INFO"):
            Pair(daemon_world, common(TCP, *options, "--total", str(TOTAL)), []).finish()
        names = {event.name for event in read(trace)}
        assert "session_close" in names
        assert not names & {"outlier", "stall"}


@pytest.mark.parametrize("wait", [[], ["-w"]], ids=["poll", "wait"])
def test_a_stopped_put_stalls_get(daemon_world: World, tmp_path: Path, wait: list[str]) -> None:
    """While put is stopped get tells once that it makes no progress, and what it waits for."""
    stream = ["--workload", "stream", "--no-verify"]
    with tracing(daemon_world, tmp_path / "trace", "INFO"):
        options = common(TCP, "-c", "--outlier", "60ms", *wait)
        pair = Pair(daemon_world, options, stream)
        pair.wait_for_work()
        put = pair.pid(pair.put)
        os.kill(put, signal.SIGSTOP)
        time.sleep(STOPPED_S)  # the fault itself: so long put does nothing
        os.kill(put, signal.SIGCONT)
        pair.cancel()
    events = read(tmp_path / "trace")
    roles = {e.instance: e.fields["role"] for e in events if e.name == "process"}
    stalls = [e.fields for e in events if e.name == "stall" and roles[e.instance] == "get"]
    assert stalls, "get noticed nothing"
    for stall in stalls:
        # Its own messages may not get through either: the provider then defers them.
        assert stall["session"] == 0 and stall["state"] in ("peer", "deferred")
        assert stall["idle_ns"] >= 60_000_000
