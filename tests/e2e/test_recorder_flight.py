# SPDX-License-Identifier: BSD-3-Clause
"""The flight recorder: nothing is written until something happens, and then what led to it is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from test_recorder import event_names
from test_recorder_deaths import CONSUMER, KEEPER, SESSIOND, left_in_memory, record
from world import FABTRACE, SECONDS, World

STREAM = (
    "--workload",
    "stream",
    "--size",
    "4K",
    "--bind",
    "127.0.0.1",
    "--provider",
    "tcp;ofi_rxm",
)


def snapshots(trace: Path, cause: str = "*") -> list[Path]:
    return sorted(trace.glob(f"{cause}-*-*-*")) if trace.is_dir() else []


def start(world: World, trace: Path, *options: str) -> subprocess.Popen[str]:
    """Record a stream without end, and return when it flows."""
    words: list[str | Path] = [
        "record",
        "--flight-recorder",
        "--buffers",
        "512kx4",
        "-o",
        trace,
        *options,
    ]
    get: list[str | Path] = [world.get, *STREAM, "--duration", "1h"]
    put: list[str | Path] = [world.put, *STREAM, "--duration", "1h", "--outlier", "100ms"]
    process = world.start(FABTRACE, *words, "--", *get, "--and", *put, "{address}")
    assert process.stdout is not None and re.match("[0-9a-f:]+$", process.stdout.readline())
    return process


def provoke(program: int, trace: Path, cause: str, count: int) -> None:
    """Stop a program for 200 ms, again and again until so many snapshots have come of it."""
    deadline = time.monotonic() + SECONDS
    while len(snapshots(trace, cause)) < count:
        for number, seconds in ((signal.SIGSTOP, 0.2), (signal.SIGCONT, 1.0)):
            os.kill(program, number)
            pause = time.monotonic() + seconds
            # A stop of so long is what is to be caught; afterwards the snapshot ends the wait.
            while time.monotonic() < pause and len(snapshots(trace, cause)) < count:
                time.sleep(0.01)
        assert time.monotonic() < deadline, f"no snapshot `{cause}`"


def command_pid(recorder: int, program: Path) -> int:
    """The process of a command that a recorder started."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if words[0] == os.fsencode(program) and parent == recorder:
                return int(entry.name)
    raise AssertionError(f"{program} was not started")


def events(trace: Path, name: str) -> list[dict[str, str]]:
    """The fields of the events of a name."""
    text = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=True).stdout
    found = re.findall(rf" fabt:{name}: {{[^}}]*}}, {{ (.*) }}$", text, re.M)
    return [dict(re.findall(r"(\w+) = (?:\( )?\"?([^,\" ]+)", fields)) for fields in found]


def test_a_planted_outlier_is_caught(world: World, trace: Path) -> None:
    """
    Description: put is stopped for 200 ms in the middle of a stream, so writes that are under way take
    that long. The engine reports them, LTTng takes a snapshot, and the snapshot shows the write, what
    led to it, and who took part. Nothing was written before.
    """
    recorder = start(world, trace)
    put = command_pid(recorder.pid, world.put)
    assert snapshots(trace) == []
    provoke(put, trace, "outlier", 1)
    (snapshot,) = snapshots(trace, "outlier")
    recorder.send_signal(signal.SIGINT)
    done = world.finish(recorder)
    outliers = events(snapshot, "outlier")
    assert outliers
    slow = [event for event in outliers if int(event["duration_ns"]) >= 100_000_000]
    assert slow == outliers and {event["limit_ns"] for event in outliers} == {"100000000"}
    assert max(int(event["duration_ns"]) for event in outliers) < 60_000_000_000
    posts = {(event["session"], event["op"]) for event in events(snapshot, "op_post")}
    assert any((event["session"], event["op"]) in posts for event in slow)
    assert check_coverage(snapshot)["cause"] == "outlier"
    assert f"{snapshot.name}: " in done.err
    report = world.report(snapshot)
    assert {process["role"] for process in report["processes"]} >= {"put"}
    # The signal is reported by the engine too, and the command failed.
    assert snapshots(trace, "signal") or snapshots(trace, "end")
    assert left_in_memory(world) == ""


def check_coverage(snapshot: Path) -> dict[str, Any]:
    """What a snapshot says that it covers is what Babeltrace finds in it."""
    covered: dict[str, Any] = json.loads((snapshot / "snapshot.json").read_text())
    text = subprocess.run(
        ["babeltrace2", "--clock-seconds", snapshot], capture_output=True, text=True, check=True
    ).stdout
    times = [int(a) * 10**9 + int(b) for a, b in re.findall(r"^\[(\d+)\.(\d+)\]", text, re.M)]
    assert covered["version"] == 1
    assert covered["from_ns"] <= times[0] <= times[-1] <= covered["to_ns"]
    assert covered["from_ns"] <= covered["complete_from_ns"] <= covered["to_ns"]
    # A packet begins with the first event that was put in it, or a little before.
    assert times[0] - covered["from_ns"] < 10**9
    return covered


def test_on_demand_and_in_the_end(world: World, trace: Path) -> None:
    """SIGUSR2 asks for a snapshot; the signal that ends it makes the engine report, too."""
    recorder = start(world, trace, "--on", "error")
    assert recorder.stderr is not None
    names: set[str] = set()
    while "op_complete" not in names:  # it may have been too early
        recorder.send_signal(signal.SIGUSR2)
        line = recorder.stderr.readline()
        assert "snapshot manual-" in line
        manual = trace / line.split()[-1]
        names = set(event_names(manual))
    recorder.send_signal(signal.SIGTERM)
    done = world.finish(recorder)
    assert done.code != 0
    assert {path.name.partition("-")[0] for path in snapshots(trace)} == {"end", "manual"}
    for snapshot in (manual, snapshots(trace, "end")[0]):
        check_coverage(snapshot)
        names = set(event_names(snapshot))
        assert {"op_post", "op_complete"} <= names
        # Written again each second: so it is known who took part although the start is gone.
        assert world.report(snapshot)["processes"]
    assert "signal" in event_names(snapshots(trace, "end")[0])


def test_oldest_events_are_overwritten(world: World, trace: Path) -> None:
    """A snapshot at the end holds the newest events, as many as the ring takes."""
    script = f"{world.emit} --rounds 20000; exit 3"
    done = world.run(
        *record(world, trace, script, "--flight-recorder", "--buffers", "256kx4", "--rearm", "1h")
    )
    assert done.code == 3
    (end,) = snapshots(trace, "end")
    covered = check_coverage(end)
    names = event_names(end)
    assert "process_end" in names and "session_open" not in names
    report = world.report(end)
    assert report["snapshot"]["cause"] == "end"
    assert report["snapshot"]["complete_from_ns"] == covered["complete_from_ns"]
    # What went before is no loss.
    assert report["loss"]["lost_events"] == 0
    assert "A flight recorder's snapshot (end)" in world.fabtrace("report", end).out
    assert 0 < covered["size_bytes"] <= (os.cpu_count() or 1) * (1 << 20)
    assert len(names) < 820_000 / 4


def test_a_command_that_ends_well_leaves_one(world: World, trace: Path) -> None:
    done = world.fabtrace("record", "--flight-recorder", "-o", trace, "--", world.emit)
    assert done.code == 0, done.err
    assert [path.name.partition("-")[0] for path in trace.iterdir()] == ["end"]


def test_enough_is_enough(world: World, trace: Path) -> None:
    """
    Description: of the stalls one has a snapshot taken, another when --rearm has passed, and after
    --snapshots no more have.
    """
    recorder = start(world, trace, "--snapshots", "2", "--on", "stall", "--rearm", "1ms")
    get = command_pid(recorder.pid, world.get)
    provoke(get, trace, "stall", 2)
    assert recorder.stderr is not None
    for line in recorder.stderr:
        if "no more are taken" in line:
            break
    for _ in range(3):  # each makes put stall
        os.kill(get, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(get, signal.SIGCONT)
    recorder.send_signal(signal.SIGTERM)
    world.finish(recorder)
    assert len(snapshots(trace, "stall")) == 2


def test_the_consumer_is_killed(world: World, trace: Path) -> None:
    """What was in the rings becomes a snapshot of its own."""
    script = f"{world.emit} --rounds 5000; kill -KILL {CONSUMER}"
    done = world.run(*record(world, trace, script, "--flight-recorder"))
    assert done.code == 1
    assert "the consumer daemon died" in done.err
    (crash,) = snapshots(trace, "crash")
    assert world.report(crash)["trace"]["events"] == len(event_names(crash)) > 1000
    assert left_in_memory(world) == ""


def test_the_recorder_is_killed(world: World, trace: Path) -> None:
    """Its keeper takes a last snapshot, and removes the triggers."""
    done = world.run(
        *record(
            world, trace, f"{world.emit}; kill -KILL $PPID; exec sleep 1000", "--flight-recorder"
        )
    )
    assert "the recorder was killed" in done.err
    (end,) = snapshots(trace, "end")
    assert len(event_names(end)) > 1000
    assert left_in_memory(world) == ""


def test_all_are_killed(world: World, trace: Path) -> None:
    """`recover` makes a snapshot of what the rings hold."""
    script = f"{world.emit}; kill -KILL {CONSUMER} {SESSIOND} {KEEPER} $PPID"
    world.run(*record(world, trace, script, "--flight-recorder"))
    assert snapshots(trace) == [] and left_in_memory(world)
    done = world.fabtrace("recover", trace)
    assert done.code == 0, done.err
    (crash,) = snapshots(trace, "crash")
    assert f"{crash.name}: made of what the trace buffers still held" in done.err
    assert re.search(rf"{crash.name}: [\d.]+ s up to ", done.err)
    assert world.report(crash)["trace"]["events"] == len(event_names(crash)) > 1000
    assert left_in_memory(world) == ""
