# SPDX-License-Identifier: BSD-3-Clause
"""Recordings in which something dies or the disk is full: what is left is a readable trace."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from test_recorder import event_names, summary, visible
from world import FABTRACE, World

ROUNDS = 10000  # of `emit`: 410,000 events, 18 MB
# Process ids of the daemons, for a shell that runs in the recording.
SESSIOND = '$(cat "$DAEMON/lttng-sessiond.pid")'
CONSUMER = f"$(pgrep -P {SESSIOND} lttng-consumerd)"
# The recorder's own children: keeper and session daemon; it has no others but the shell.
KEEPER = '$(pgrep -P $PPID -x "python3|fabtrace")'


def rings() -> str:
    """A shell's word: the folders of ring files in /dev/shm."""
    return "/dev/shm/fabtrace-*"


def record(world: World, trace: Path, script: str, *options: str | Path) -> list[str | Path]:
    """The words that record a shell script."""
    folder = "/run/lttng" if os.geteuid() == 0 else f"{world.lttng.home}/.lttng"
    env = ["env", f"DAEMON={folder}"]
    return [*env, FABTRACE, "record", "-o", trace, *options, "--", "sh", "-c", script]


def left_in_memory(world: World) -> str:
    """Ring files that nobody removed."""
    return world.run("sh", "-c", f"ls -d {rings()} 2>/dev/null || true").out


@pytest.fixture
def total(world: World, tmp_path: Path) -> int:
    """How many events `emit` writes."""
    done = world.fabtrace("record", "-o", tmp_path / "whole", "--", world.emit)
    count, lost = summary(done)
    assert lost == 0
    return count


@pytest.mark.parametrize(
    "victims", [["consumer"], ["session"], ["consumer", "session"]], ids="-".join
)
def test_daemons_are_killed(world: World, trace: Path, total: int, victims: list[str]) -> None:
    """
    Description: the events are still in the rings when a daemon, or both, are killed. They all get into
    the trace, and the user is told that nothing more is recorded.
    """
    pids = {"consumer": CONSUMER, "session": SESSIOND}
    kill = f"kill -KILL {' '.join(pids[name] for name in victims)}"
    done = world.run(*record(world, trace, f"{world.emit}; {kill}"))
    assert done.code == 1
    assert all(f"the {name} daemon died: nothing more is recorded" in done.err for name in victims)
    assert summary(done) == (total, 0) == (len(event_names(trace)), 0)
    assert left_in_memory(world) == ""
    assert visible(trace) == ["ust"]
    assert world.report(trace)["trace"]["events"] == total
    # What the killed daemon left keeps nobody from recording.
    assert world.fabtrace("record", "-o", trace.with_name("n"), "--", world.emit).code == 0


def test_a_stopped_program_outlives_the_consumer(world: World, trace: Path) -> None:
    """
    Description: the consumer daemon is killed in the middle of a program's run. What the program writes
    afterwards goes into the ring until that is full, and from there into the trace.
    """
    script = f"""
        {world.emit} --rounds {ROUNDS * 20} & emit=$!
        until [ -n "$(find {trace}/ust -name 'events_*' -size +1M)" ]; do :; done 2>/dev/null
        kill -STOP $emit; kill -KILL {CONSUMER}; kill -CONT $emit
        sleep 0.2; kill -KILL $emit
    """
    done = world.run(*record(world, trace, script, "--buffers", "1Mx4"))
    assert "regained from the trace buffers" in done.err
    events, _ = summary(done)
    assert events == len(event_names(trace)) > 30000
    assert world.report(trace)["processes"]


def test_programs_killed_while_they_write(world: World, trace: Path, total: int) -> None:
    """
    Description: a program killed in the middle of an event leaves a sub-buffer that the consumer daemon
    never takes. Whatever of it is in the ring gets into the trace. One killed while it registers
    makes LTTng keep its ring for ever; the recording ends all the same.
    """
    script = f"""
        for i in 1 2 3 4 5 6 7 8; do
            {world.emit} --rounds {ROUNDS * 100} & emit=$!
            sleep 0.0$i; kill -KILL $emit
        done
        {world.emit}
    """
    done = world.run(*record(world, trace, script))
    assert done.code == 0
    events, _ = summary(done)
    assert events == len(event_names(trace)) >= total
    assert world.report(trace)["processes"]
    assert left_in_memory(world) == ""


def test_the_recorder_is_killed(world: World, trace: Path, total: int) -> None:
    """Its keeper ends the command, the session and the daemon, and the trace is whole."""
    done = world.run(*record(world, trace, f"{world.emit}; kill -KILL $PPID; exec sleep 1000"))
    # Standard error is open until the keeper has done its work.
    assert done.code in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert f"what was recorded is in {trace}" in done.err
    assert len(event_names(trace)) == total
    assert left_in_memory(world) == ""
    assert visible(trace) == ["ust"]


def test_recorder_and_keeper_are_killed(world: World, trace: Path, total: int) -> None:
    """
    Description: nobody is left to clean up. The next recording says so, `recover` does it; the
    daemon that the recorder had started goes too.
    """
    gate = trace.with_name("gate")
    script = f"{world.emit}; kill -KILL {KEEPER} $PPID; echo go >{gate}"
    os.mkfifo(gate)
    process = world.start(*record(world, trace, script))
    assert gate.read_text() == "go\n"
    world.finish(process)
    done = world.fabtrace("record", "-o", trace.with_name("next"), "--", world.emit)
    assert done.code == 0
    assert f"a recording to {trace} was cut short: `fabtrace recover {trace}`" in done.err
    done = world.fabtrace("recover", trace)
    assert done.code == 0, done.err
    # What the second recording's program wrote went to both.
    assert f"{2 * total:,} events, 0 lost" in done.err
    assert len(event_names(trace)) == 2 * total
    assert left_in_memory(world) == ""
    again = world.fabtrace("recover", trace)
    assert again.code == 0 and "nothing to recover" in again.err


def test_all_are_killed(world: World, trace: Path, total: int) -> None:
    """Recorder, keeper and daemons: the rings are still there, and `recover` takes them."""
    script = f"{world.emit}; kill -KILL {CONSUMER} {SESSIOND} {KEEPER} $PPID"
    world.run(*record(world, trace, script))
    assert left_in_memory(world)
    done = world.fabtrace("recover", trace, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["version"] == 1 and document["complete"]
    assert (document["events"], document["lost"]) == (total, 0)
    assert sum(stream["packets_regained"] for stream in document["streams"]) > 0
    assert world.report(trace)["trace"]["events"] == total
    assert len(event_names(trace)) == total
    assert left_in_memory(world) == ""


def test_a_trace_that_was_deleted_leaves_nothing(world: World, trace: Path) -> None:
    """The rings of a killed recorder go with the next recording when nobody can want them."""
    script = f"{world.emit}; kill -KILL {CONSUMER} {SESSIOND} {KEEPER} $PPID; rm -r {trace}"
    gate = trace.with_name("gate")
    os.mkfifo(gate)
    process = world.start(*record(world, trace, f"{script}; echo go >{gate}"))
    gate.read_text()
    world.finish(process)
    assert left_in_memory(world)
    assert world.fabtrace("record", "-o", trace, "--", world.emit).code == 0
    assert left_in_memory(world) == ""


def test_rings_on_a_disk(world: World, trace: Path, total: int) -> None:
    """`--shm-path`: the rings are there, and recovered from there."""
    place = trace.with_name("rings")
    place.mkdir()
    script = f"{world.emit}; kill -KILL {CONSUMER} {SESSIOND} {KEEPER} $PPID"
    world.run(*record(world, trace, script, "--shm-path", place))
    assert any(place.iterdir()) and left_in_memory(world) == ""
    done = world.fabtrace("recover", trace)
    assert f"{total:,} events, 0 lost" in done.err
    assert not any(place.iterdir())


def test_recover_leaves_a_living_recording_alone(world: World, trace: Path) -> None:
    gate = trace.with_name("gate")
    os.mkfifo(gate)
    process = world.start(*record(world, trace, f"{world.emit}; echo ready; read x <{gate}"))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    done = world.fabtrace("recover", trace)
    assert done.code == 1 and "is being recorded" in done.err
    gate.write_text("go\n")
    assert summary(world.finish(process))[1] == 0


# ------------------------------------------------------------------------------ full disks


def on_small_disk(size: str, disk: Path, *words: str | Path) -> list[str | Path]:
    """Run commands, in a shell's words, with a small disk in a folder."""
    mount = f'mount -t tmpfs -o size={size} none {disk} && cd {disk} && exec sh -c "$0"'
    return ["unshare", "-m", "sh", "-c", mount, *words]


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where to mount a small disk."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


def test_a_full_disk(world: World, disk: Path, tmp_path: Path) -> None:
    """
    Description: the disk is filled up between two programs, while the recorder can't see it. The trace
    of the first is readable; what the rings kept of the second waits in memory, and comes when there
    is room.
    """
    keep = tmp_path / "trace"
    script = f"""
        {world.emit} --rounds {ROUNDS}; kill -STOP $PPID
        head -c 200M /dev/zero >fill 2>/dev/null
        {world.emit} --rounds {ROUNDS}; kill -CONT $PPID
    """
    steps = f"""
        {FABTRACE} record --buffers 512kx8 -o run -- sh -c '{script}'
        echo "code $?"
        FABTRACE_CACHE=off {FABTRACE} report run >/dev/null; echo "report $?"
        {FABTRACE} recover run; echo "recover $?"
        rm fill
        {FABTRACE} recover run; echo "recover $?"
        cp -r run {keep}
    """
    done = world.run(*on_small_disk("96m", disk, steps))
    assert done.out.split("\n")[:4] == ["code 1", "report 0", "recover 1", "recover 0"], done.err
    assert "the disk is full: part of the trace is still in /dev/shm/fabtrace-" in done.err
    assert "regained from the trace buffers" in done.err
    counts = [int(text.replace(",", "")) for text in re.findall(r"([\d,]+) events, \d", done.err)]
    assert counts[-1] == len(event_names(keep)) > counts[0]
    assert left_in_memory(world) == ""


def test_a_disk_that_gets_full(world: World, disk: Path, tmp_path: Path) -> None:
    """The recording stops while what is in the rings still finds room; the commands go on."""
    keep = tmp_path / "trace"
    script = f"""
        {world.emit} --rounds {ROUNDS}; head -c 45M /dev/zero >fill
        until [ "$(lttng --no-sessiond list | grep -c inactive)" = 1 ]; do :; done
        {world.emit} --rounds {ROUNDS}; echo commands go on
    """
    steps = f"""
        {FABTRACE} record --buffers 512kx8 -o run -- sh -c '{script}'
        echo "code $?"
        cp -r run {keep}
    """
    done = world.run(*on_small_disk("104m", disk, steps))
    assert done.out == "commands go on\ncode 1\n", done.err
    assert "free on its disk: the recording stops here" in done.err
    events, lost = summary(done)
    assert lost == 0 and events == len(event_names(keep)) > 100000


def test_too_little_disk_is_refused(world: World, disk: Path) -> None:
    done = world.run(*on_small_disk("80m", disk, f"{FABTRACE} record -o run -- {world.emit}"))
    assert done.code == 1 and len(done.err.splitlines()) == 1
    assert "free on its disk, too little for trace buffers" in done.err


# ------------------------------------------------------------------------------ refusals


def test_nothing_to_recover_from(world: World, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, said in (("none", "no such folder"), ("empty", "nothing can be recovered")):
        done = world.fabtrace("recover", tmp_path / folder)
        assert done.code == 1 and len(done.err.splitlines()) == 1 and said in done.err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version": 1, "session": "x", "ring": "/etc", "recorder": 1}',
    ],
)
def test_a_damaged_note(world: World, trace: Path, text: str) -> None:
    """Nothing is removed by a note that doesn't look like ours."""
    trace.mkdir()
    (trace / "recording.json").write_text(text)
    done = world.fabtrace("recover", trace)
    assert done.code == 1 and len(done.err.splitlines()) == 1
    assert "recording.json is damaged" in done.err
