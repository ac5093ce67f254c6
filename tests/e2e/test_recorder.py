# SPDX-License-Identifier: BSD-3-Clause
"""The recorder with real session daemons, and programs that write made-up events."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from world import FABTRACE, SECONDS, Done, World
from lttng_private import PrivateLttng, Unavailable

from fabtrace import catalogue

SUMMARY = re.compile(
    r"^fabtrace record: ([\d,]+) events recorded, ([\d,]+) lost; .* in (.*)$", re.M
)


def summary(done: Done) -> tuple[int, int]:
    """Events recorded and lost, as the recorder says."""
    match = SUMMARY.search(done.err)
    assert match, done.err
    return int(match[1].replace(",", "")), int(match[2].replace(",", ""))


def event_names(trace: Path) -> list[str]:
    """The name of each event that babeltrace2 finds in a trace."""
    text = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\[[^]]*\] \([^)]*\) \S+ fabt:(\w+): ", text, re.M)


def visible(trace: Path) -> list[str]:
    """What a trace's folder holds; columns that the analysis keeps are hidden."""
    return [path.name for path in trace.iterdir() if not path.name.startswith(".")]


def test_own_daemon(world: World, trace: Path) -> None:
    """No daemon runs: one is started and, as the fixture checks, stopped."""
    done = world.fabtrace("record", "-o", trace, "--", world.emit)
    assert done.code == 0 and done.out == ""
    names = event_names(trace)
    assert summary(done) == (len(names), 0) and len(names) > 1000
    assert f"next: fabtrace report {trace}" in done.err
    assert done.complaints == []


def test_existing_daemon(tmp_path: Path, trace: Path) -> None:
    """A daemon that runs is used and left alone; its user's sessions and settings too."""
    try:
        lttng = PrivateLttng().__enter__()
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        world = World(lttng, tmp_path)
        pid = lttng.daemon_pid()
        lttng.run(["lttng", "create", "mine", f"--output={tmp_path / 'mine'}"])
        settings = lttng.home / ".lttngrc"
        before = settings.read_text()
        assert "mine" in before
        for words, code in ((["./no-such"], 127), (["false"], 1), ([str(world.emit)], 0)):
            done = world.fabtrace("record", "-o", trace, "--", *words)
            assert done.code == code
            assert lttng.daemon_pid() == pid
            assert "mine" in world.sessions() and "fabtrace" not in world.sessions()
        assert settings.read_text() == before
        assert summary(done) == (len(event_names(trace)), 0)
    finally:
        lttng.__exit__()


def test_two_recorders_share_a_daemon(world: World, tmp_path: Path) -> None:
    """
    Description: the one that started the daemon ends first; the daemon lives until the other has
    ended too, and both traces are whole.
    """
    recorders = []
    gates = []
    for name in ("one", "two"):
        gates.append(tmp_path / f"gate-{name}")
        os.mkfifo(gates[-1])
        script = f"{world.emit} && echo ready && read x <{gates[-1]}"
        process = world.start(FABTRACE, "record", "-o", tmp_path / name, "--", "sh", "-c", script)
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        recorders.append(process)
    for gate, process in zip(gates, recorders):
        assert world.sessions().count("active") == len(recorders) - gates.index(gate)
        gate.write_text("go\n")
        done = world.finish(process)
        assert done.code == 0
        assert summary(done)[1] == 0
    assert len(event_names(tmp_path / "one")) > 1000
    assert len(event_names(tmp_path / "two")) > 1000


def test_levels(world: World, tmp_path: Path) -> None:
    """Each level records the events up to its log level and no others."""
    known = catalogue.load()
    rank = {level: index for index, level in enumerate(catalogue.LOG_LEVELS)}
    seen = {}
    for level, top in known.levels.items():
        done = world.fabtrace(
            "record", "-o", tmp_path / level, "--level", level, "--", world.emit, "--full"
        )
        assert done.code == 0
        seen[level] = set(event_names(tmp_path / level))
        assert seen[level] and all(
            rank[known.events[name].level] <= rank[top] for name in seen[level]
        )
    assert seen["light"] < seen["ops"] < seen["full"]


def test_lost_events_are_counted(world: World, tmp_path: Path) -> None:
    """With buffers made too small on purpose: what is recorded and what is lost is all there was."""
    rounds = ["--", str(world.emit), "--rounds", "20000"]
    whole = world.fabtrace("record", "-o", tmp_path / "whole", *rounds)
    total, lost = summary(whole)
    assert lost == 0
    done = world.fabtrace("record", "-o", tmp_path / "gaps", "--buffers", "4Kx2", *rounds)
    recorded, lost = summary(done)
    assert lost > 0 and "larger --buffers (they were 4KiBx2)" in done.err
    assert recorded == len(event_names(tmp_path / "gaps"))
    # Of the names whose last events and `emitted` were lost too, nobody knows how many there were.
    assert total * 0.5 < recorded + lost <= total


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_end_a_recording(world: World, trace: Path, number: signal.Signals) -> None:
    """The trace is readable and, as the fixture checks, no process is left."""
    script = f"{world.emit}; echo ready; exec sleep 1000"
    process = world.start(FABTRACE, "record", "-o", trace, "--", "sh", "-c", script)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(number)
    done = world.finish(process)
    assert done.code == 128 + number
    assert summary(done) == (len(event_names(trace)), 0)


def test_nohup(world: World, trace: Path) -> None:
    """Who ignores SIGHUP wants a recording to outlive the terminal."""
    script = f"{world.emit}; echo ready; exec sleep 1000"
    words: list[str | Path] = [FABTRACE, "record", "-o", trace, "--", "sh", "-c", script]
    process = world.start("env", "--ignore-signal=HUP", *words)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert world.finish(process).code == 128 + signal.SIGTERM


def test_a_signal_during_the_start(world: World, trace: Path) -> None:
    """Before anything runs: nothing is started, nothing is left, not even the folder."""
    process = world.start(FABTRACE, "record", "-o", trace, "--", "sleep", "1000")
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and not trace.exists() and time.monotonic() < deadline:
        pass
    process.send_signal(signal.SIGTERM)
    done = world.finish(process)
    assert done.code in (128 + signal.SIGTERM, -signal.SIGTERM)


def test_ctrl_c_on_a_terminal(world: World, trace: Path, tmp_path: Path) -> None:
    """The terminal signals its whole foreground group; the command gets SIGINT once all the same."""
    log = tmp_path / "log"
    script = f"""
        trap 'echo INT >>{log}; int=1' INT; trap 'echo TERM >>{log}; exit 5' TERM
        {world.emit}; echo ready
        while [ -z "$int" ]; do :; done
        kill -TERM $PPID
        while :; do :; done
    """
    words = world.lttng.command([FABTRACE, "record", "-o", trace, "--", "sh", "-c", script])
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execvpe(words[0], words, world.environment())
    text = b""
    try:
        while b"ready" not in text:
            text += os.read(terminal, 4096)
        os.write(terminal, b"\x03")
        while True:
            text += os.read(terminal, 4096)
    except OSError:  # the terminal's other end is closed
        pass
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 5, text
    assert log.read_text().split() == ["INT", "TERM"]
    assert re.search(rb"recording \d+ s: .*\d MB, 0 lost so far", text)
    assert b" 0 lost" in text and len(event_names(trace)) > 1000


def test_killed_commands_leave_a_readable_trace(world: World, trace: Path) -> None:
    done = world.fabtrace("record", "-o", trace, "--", "sh", "-c", f"{world.emit}; kill -KILL $$")
    assert done.code == 128 + 9
    assert summary(done) == (len(event_names(trace)), 0)


def test_no_events(world: World, trace: Path) -> None:
    """A program without tracepoints: its exit code, and a remark."""
    done = world.fabtrace("record", "-o", trace, "--", "sh", "-c", "echo hello; exit 3")
    assert (done.code, done.out) == (3, "hello\n")
    assert "no program with fabt tracepoints ran" in done.err
    assert not trace.exists()


# ------------------------------------------------------------------------------ refusals


def refused(done: Done, *words: str, code: int = 1) -> None:
    """One line that holds the words, and the exit code."""
    assert done.code == code, done.err
    assert len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith("fabtrace")
    for word in words:
        assert word in done.err


def test_no_daemon_possible(world: World, trace: Path) -> None:
    words: list[str | Path] = [FABTRACE, "record", "-o", trace, "--", world.emit]
    if os.geteuid() == 0:
        mount = 'mount -t tmpfs -o ro none /run/lttng && exec "$@"'
        done = world.run("unshare", "-m", "sh", "-c", mount, "sh", *words)
        refused(done, "session daemon", "/run/lttng", "writable")
    else:
        done = world.run(*words, LTTNG_HOME="/proc/none")
        refused(done, "session daemon", "/proc/none", "LTTNG_HOME")
    assert not trace.exists()


@pytest.mark.parametrize("missing", ["lttng", "lttng-sessiond"])
def test_lttng_is_not_installed(world: World, trace: Path, tmp_path: Path, missing: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in {"lttng", "lttng-sessiond"} - {missing}:
        (programs / name).symlink_to(f"/usr/bin/{name}")
    words: list[str | Path] = [
        "/usr/bin/python3",
        FABTRACE,
        "record",
        "-o",
        trace,
        "--",
        world.emit,
    ]
    done = world.run("env", f"PATH={programs}", *words)
    refused(done, f"`{missing}`", "apt-get install lttng-tools")
    assert not trace.exists()


def test_a_daemon_that_does_not_start(world: World, trace: Path, tmp_path: Path) -> None:
    """What the daemon said last is the reason."""
    programs = tmp_path / "bin"
    programs.mkdir()
    sessiond = programs / "lttng-sessiond"
    sessiond.write_text("#!/bin/sh\necho Error: out of cheese >&2\nexit 3\n")
    sessiond.chmod(0o755)
    done = world.fabtrace(
        "record", "-o", trace, "--", world.emit, PATH=f"{programs}:{os.environ['PATH']}"
    )
    refused(done, "did not start: out of cheese")


def small_shm(size: str, *words: str | Path) -> list[str | Path]:
    """Run a command with a small /dev/shm, as containers have it."""
    mount = f'mount -t tmpfs -o size={size} none /dev/shm && exec "$@"'
    return ["unshare", "-m", "sh", "-c", mount, "sh", *words]


@pytest.mark.parametrize(
    "size, said", [("64m", "instead of 4 MiB x 8"), ("1m", "on the disk of the trace")]
)
def test_little_room_for_buffers(world: World, trace: Path, size: str, said: str) -> None:
    """A container's /dev/shm: smaller buffers, or buffers on the disk; both work."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small /dev/shm")
    done = world.run(*small_shm(size, FABTRACE, "record", "-o", trace, "--", world.emit))
    assert done.code == 0
    assert "/dev/shm has" in done.err and said in done.err and "remount,size=" in done.err
    assert summary(done) == (len(event_names(trace)), 0)
    assert visible(trace) == ["ust"]


def test_no_room_for_buffers(world: World, trace: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small /dev/shm")
    words: list[str | Path] = [FABTRACE, "record", "-o", trace, "--shm-path", "/dev/shm", "--"]
    done = world.run(*small_shm("1m", *words, world.emit))
    refused(done, "/dev/shm has 1 MiB free", "remount,size=")
    assert not trace.exists()


@pytest.mark.parametrize(
    "words, said, code",
    [
        (["--"], "no command", 2),
        (["--", "true", "--and"], "--and", 2),
        (["--", "echo", "{address}"], "{address}", 2),
        (["--level", "much", "--", "true"], "much", 2),
        (["--buffers", "1", "--", "true"], "--buffers 1", 2),
        (["--grace", "-1", "--", "true"], "--grace -1", 2),
        (["true"], "`-- true`", 2),
        (["--pid", "1", "--", "true"], "--pid: only without commands", 2),
        (["--pid", "1,x"], "--pid 1,x", 2),
        (["--pid", "999999999"], "--pid 999999999: no such process", 2),
        (["--duration", "1s", "--", "true"], "`timeout`", 2),
        (["--duration", "1"], "--duration 1: expected a time", 2),
        (["--shm-path", "/no/such", "--", "true"], "--shm-path /no/such", 2),
        (["--on", "error", "--", "true"], "--flight-recorder", 2),
        (["--flight-recorder", "--on", "rain", "--", "true"], "--on rain", 2),
        (["--flight-recorder", "--snapshots", "0", "--", "true"], "--snapshots 0", 2),
        (["--flight-recorder", "--rearm", "5", "--", "true"], "--rearm 5", 2),
        (["--", "no-such-program"], "no-such-program: not found in PATH", 127),
        (["--", "/etc/passwd"], "/etc/passwd: not an executable file", 126),
        (["-o", "/proc/x", "--", "true"], "/proc/x", 1),
        (["-o", "/etc/passwd", "--", "true"], "not a folder", 2),
        (["-o", "/etc", "--", "true"], "not empty", 2),
    ],
)
def test_bad_command_lines(world: World, words: list[str], said: str, code: int) -> None:
    refused(world.fabtrace("record", *words), said, code=code)


def test_programs_that_begin_no_run(world: World, trace: Path) -> None:
    """Nothing to record: what to do is said, and not what to look at next."""
    done = world.fabtrace("record", "-o", trace, "--", world.put, "no address")
    assert done.code == 2 and summary(done) == (0, 0)
    assert "see what they print, and record again" in done.err and "next:" not in done.err
    done = world.fabtrace("record", "-o", world.folder / "other", "--", "true")
    assert done.code == 0 and "`fabtget --version` says whether" in done.err
