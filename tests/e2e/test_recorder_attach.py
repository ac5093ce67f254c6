# SPDX-License-Identifier: BSD-3-Clause
"""Recording programs that run already."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_recorder import event_names, summary
from world import FABTRACE, SECONDS, World, wait_busy, worker_ticks

LONG = ("--rounds", "100000000")  # until the test ends it


@pytest.fixture
def running(world: World) -> Iterator[list[subprocess.Popen[str]]]:
    """Two programs that run, without a session daemon."""
    programs = [world.start(world.emit, *LONG) for _ in range(2)]
    yield programs
    for program in programs:
        program.kill()
        program.wait()


def wait_for_events(trace: Path) -> None:
    """Until some are on the disk."""
    deadline = time.monotonic() + SECONDS
    while not any(path.stat().st_size for path in trace.glob("ust/uid/*/*/events_*")):
        assert time.monotonic() < deadline


def attach(world: World, trace: Path, *options: str | Path) -> subprocess.Popen[str]:
    """Start a recorder and return when it records."""
    process = world.start(FABTRACE, "record", "-o", trace, "--buffers", "64kx4", *options)
    assert process.stderr is not None
    for line in process.stderr:
        if "Ctrl-C ends it" in line:
            return process
    raise AssertionError(f"the recorder ended with {process.wait()}")


def instances(trace: Path) -> int:
    """How many processes wrote; `emit` plays two."""
    text = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=True).stdout
    return len({int(writer) // 1024 for writer in re.findall(r"writer = (\d+)", text)})


def test_all_until_ctrl_c(world: World, trace: Path, running: list[subprocess.Popen[str]]) -> None:
    """The daemon is started later than the programs; both are found, and go on afterwards."""
    process = attach(world, trace)
    wait_for_events(trace)
    process.send_signal(signal.SIGINT)
    done = world.finish(process)
    assert done.code == 0, done.err
    assert summary(done)[0] == len(event_names(trace))
    assert instances(trace) == 4
    assert all(program.poll() is None for program in running)


def test_one_of_them_until_it_ends(
    world: World, trace: Path, running: list[subprocess.Popen[str]]
) -> None:
    process = attach(world, trace, "--pid", str(running[1].pid))
    wait_for_events(trace)
    running[1].kill()
    done = world.finish(process)
    assert done.code == 0, done.err
    assert summary(done)[0] == len(event_names(trace))
    assert instances(trace) == 2
    assert running[0].poll() is None


def test_sessions_that_ran_before(world: World, trace: Path) -> None:
    """
    Description: a pair is recorded from its middle to its cancellation. What its sessions waited for
    before their first change of state is unknown, and not what they waited for at the end.
    """
    options = ["--provider", "tcp;ofi_rxm", "--bind", "127.0.0.1", "-w", "-c", "--total", "10G"]
    get = world.start(world.get, *options)
    assert get.stdout is not None
    put = world.start(world.put, *options, get.stdout.readline().strip())
    for program in (get, put):
        wait_busy(program)
    process = attach(world, trace, "--pid", f"{get.pid},{put.pid}")
    wait_for_events(trace)
    # Workers say who they are and whom they serve within a tenth of a second of noticing a recorder.
    for program in (get, put):
        wait_busy(program, worker_ticks(program.pid) + 50)
    for program in (get, put):
        program.send_signal(signal.SIGINT)
    assert [world.finish(program).code for program in (get, put)] == [0, 0]
    done = world.finish(process)
    assert done.code == 0, done.err
    rows = world.report(trace)["sessions"]
    assert [row["session"] for row in rows] == ["get:0", "put:0"]
    for row in rows:
        assert row["peer"] is not None and row["state_shares"].get("unknown", 0) > 0, row
        assert sum(row["state_shares"].values()) == pytest.approx(1)


def test_for_a_time(world: World, trace: Path, running: list[subprocess.Popen[str]]) -> None:
    """`--duration` ends it, and a program that starts meanwhile is recorded too."""
    process = attach(world, trace, "--duration", "1500ms", "--level", "light")
    assert world.run(world.emit).code == 0
    done = world.finish(process)
    assert done.code == 0, done.err
    assert instances(trace) >= 2 and "process" in event_names(trace)
    assert all(program.poll() is None for program in running)


def test_the_same_program_once_more(
    world: World, tmp_path: Path, running: list[subprocess.Popen[str]]
) -> None:
    """A program that has just lost the first recording's session daemon is found by the next one."""
    pid = str(running[0].pid)
    for name in ("first", "second", "third"):
        trace = tmp_path / name
        process = attach(world, trace, "--pid", pid)
        wait_for_events(trace)
        process.send_signal(signal.SIGINT)
        done = world.finish(process)
        assert done.code == 0, done.err
        assert instances(trace) == 2


def test_nobody_came(world: World, trace: Path) -> None:
    """Nothing to record is no error; nothing is left."""
    done = world.fabtrace("record", "-o", trace, "--duration", "100ms")
    assert done.code == 0
    assert "no events" in done.err and not trace.exists()


def test_a_program_without_tracepoints(world: World, trace: Path) -> None:
    process = world.start("sleep", "1000")
    try:
        done = world.fabtrace("record", "-o", trace, "--pid", str(process.pid))
    finally:
        process.kill()
        process.wait()
    assert done.code == 1, done.err
    assert f"--pid {process.pid}: no fabt tracepoints" in done.err
    assert not trace.exists()
