# SPDX-License-Identifier: BSD-3-Clause
"""What the engine tells in its events, read from real traces by babeltrace2's text."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import bt2
import oracle
import pytest
from lttng_private import PrivateLttng, Unavailable
from world import BUILD, SANITIZER, SECONDS, SOURCE, World

from fabtrace import catalogue

PATTERN_BYTES = 76
TOTAL = 300 * PATTERN_BYTES
TCP, SHM = "tcp;ofi_rxm", "shm"
RECEIVES = {"initial_rx", "ack_rx", "vector_rx", "progress_rx"}
LISTENING = 0xFFFFFFFF


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
        deadline = time.monotonic() + SECONDS
        while True:
            for pid in self.world.leftovers():
                with suppress(OSError):
                    if Path(f"/proc/{pid}/comm").read_text().strip() == name:
                        return pid
            assert process.poll() is None and time.monotonic() < deadline

    def wait_for_work(self) -> None:
        """Until more has gone over loopback than any handshake takes: payload flows."""
        deadline = time.monotonic() + SECONDS
        get = self.pid(self.get)
        begin = loopback_bytes(get)
        while loopback_bytes(get) < begin + 8_000_000:
            assert self.put.poll() is None and time.monotonic() < deadline

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


def loopback_bytes(pid: int) -> int:
    """What the loopback interface of a process's network namespace has received."""
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == "lo":
            return int(counters.split()[0])
    raise AssertionError("no loopback interface")


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
    """
    Description: put is stopped for good. From its last answer to put until it gives up, get tells just
    once that session 0 makes no progress, and that it waits for the peer.
    """
    limits = ["--outlier", "60ms", "--timeout", "5s"]
    turns = ["--workload", "pingpong", "--size", "64K", "--duration", "1h"]
    with tracing(daemon_world, tmp_path / "trace"):
        pair = Pair(daemon_world, common(TCP, *limits, *wait), turns)
        pair.wait_for_work()
        put = pair.pid(pair.put)
        os.kill(put, signal.SIGSTOP)
        get = daemon_world.finish(pair.get)
        os.kill(put, signal.SIGKILL)
        daemon_world.finish(pair.put)
    assert get.code == 1 and "no progress for" in get.err
    events = read(tmp_path / "trace")
    roles = {e.instance: e.fields["role"] for e in events if e.name == "process"}
    own = [e for e in events if roles[e.instance] == "get"]
    # With each answer get has got further; what stalled before is the machine's affair.
    answers = [e for e in own if e.name == "op_post" and e.fields["kind"] == "vector_tx"]
    assert len(answers) > 10
    (stall,) = [e for e in own if e.name == "stall" and e.time_ns > answers[-1].time_ns]
    assert stall.fields["session"] == 0 and stall.fields["state"] == "peer"
    assert stall.fields["idle_ns"] >= 60_000_000


SIZES = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "hex64": 64, "i32": 32, "i64": 64}


def declared_events(trace: Path) -> dict[str, Any]:
    """Babeltrace's event classes, by name."""
    (folder,) = oracle.metadata_folders(trace)
    for message in bt2.TraceCollectionMessageIterator(folder):
        if type(message) is bt2._StreamBeginningMessageConst:
            return {event.name: event for event in message.stream.cls.values()}
    raise AssertionError("no stream")


def declared_field(kind: str, field: Any, enums: dict[str, tuple[str, ...]]) -> None:
    """A field of the trace is what the catalogue says."""
    if kind == "text":
        assert isinstance(field, bt2._StringFieldClassConst)
    elif kind in ("bytes", "list64"):
        assert field.element_field_class.field_value_range == 8 if kind == "bytes" else 64
    elif kind.startswith("enum."):
        assert field.field_value_range == 8
        labels = {label: mapping.ranges for label, mapping in field.items()}
        names = enums[kind.removeprefix("enum.")]
        assert list(labels) == list(names)
        for code, name in enumerate(names):
            assert [(each.lower, each.upper) for each in labels[name]] == [(code, code)]
    else:
        assert field.field_value_range == SIZES[kind]
        signed = isinstance(field, bt2._SignedIntegerFieldClassConst)
        assert signed == kind.startswith("i")
        assert (field.preferred_display_base == 16) == (kind == "hex64")


def test_the_trace_declares_the_catalogue(daemon_world: World, tmp_path: Path) -> None:
    """Each event with its log level, and each of its fields with its type, in order."""
    with tracing(daemon_world, tmp_path / "trace"):
        Pair(daemon_world, common(SHM, "--total", str(TOTAL)), []).finish()
    known = catalogue.load()
    declared = declared_events(tmp_path / "trace")
    levels = oracle.declared(tmp_path / "trace")
    assert declared.keys() == {f"fabt:{name}" for name in known.events}
    for name, event in known.events.items():
        assert levels[name] == list(catalogue.LOG_LEVELS).index(event.level), name
        fields = declared[f"fabt:{name}"].payload_field_class
        # The length of a sequence is a field of its own.
        found = [field for field in fields if not field.startswith("__") and field[0] != "_"]
        names = [field for field in found if not field.endswith("_length")]
        assert names == [field.name for field in event.fields], name
        for field in event.fields:
            declared_field(field.kind, fields[field.name].field_class, known.enums)


def test_numbers_have_no_gap(daemon_world: World, tmp_path: Path) -> None:
    """
    Description: by writer and name the events count from 0 on, and `emitted` says how many there
    are; each operation that completes was posted once before, as the same kind.
    """
    with tracing(daemon_world, tmp_path / "trace"):
        Pair(daemon_world, common(TCP, "-n", "2", "--total", str(TOTAL)), ["-g"]).finish()
    seen: dict[tuple[int, str], int] = {}
    emitted: dict[tuple[int, str], int] = {}
    posted: dict[tuple[int, int, int], str] = {}
    done = set()
    for event in read(tmp_path / "trace"):
        key = (event.fields["writer"], event.name)
        assert event.fields["seq"] == seen.get(key, 0)
        seen[key] = event.fields["seq"] + 1
        if event.name == "emitted":
            emitted[event.fields["writer"], event.fields["event"]] = event.fields["count"]
        if event.name == "op_post":
            assert of_op(event) not in posted
            posted[of_op(event)] = event.fields["kind"]
        if event.name in ("op_complete", "op_abandon"):
            assert of_op(event) not in done
            done.add(of_op(event))
            if event.fields["kind"] != "fragment":
                assert posted[of_op(event)] == event.fields["kind"]
    assert emitted == {key: count for key, count in seen.items() if key[1] != "emitted"}
    assert done == posted.keys() and len(done) > 1000


def check_waits(events: list[Event], put: int, session: int) -> None:
    """A put's state agrees with the writes and reports that are under way just then."""
    in_flight = unreported = 0
    credit = 0
    seen = set()
    for event in events:
        if event.instance != put or event.fields.get("session") != session:
            continue
        fields = event.fields
        kind = fields.get("kind")
        write = kind in ("write", "fragment")
        if event.name == "op_post" and write:
            in_flight += 1
            credit -= fields["payload_bytes"]
        elif event.name == "op_complete" and write:
            in_flight -= 1
            unreported += fields["payload_bytes"]
        elif event.name == "op_complete" and kind == "vector_rx":
            credit += fields["payload_bytes"]
        elif event.name == "op_post" and kind == "progress_tx":
            unreported -= fields["payload_bytes"]
        elif event.name == "session_state":
            state = fields["state"]
            seen.add(state)
            if state == "provider":
                assert in_flight > 0
            if state in ("memory", "eof"):
                assert in_flight == 0 and unreported == 0
    assert {"setup", "peer", "memory", "provider", "drain", "done"} <= seen


@pytest.mark.parametrize("provider", [TCP, SHM])
def test_states_are_what_a_session_waits_for(
    daemon_world: World, tmp_path: Path, provider: str
) -> None:
    """
    Description: from its first event to its last a session is in some state, each different from the
    one before, and what it is said to wait for is what is missing just then. `session_time` tells
    where the time went; its parts are the session's life.
    """
    options = common(provider, "-n", "2", "--total", str(3 * TOTAL))
    with tracing(daemon_world, tmp_path / "trace", "DEBUG_PROGRAM"):
        Pair(daemon_world, options, []).finish()
    events = read(tmp_path / "trace")
    roles = {e.instance: e.fields["role"] for e in events if e.name == "process"}
    assert sorted(roles.values()) == ["get", "put"]
    for instance, role in roles.items():
        for session in (0, 1):
            own = [
                e for e in events if e.instance == instance and e.fields.get("session") == session
            ]
            named = {name: [e for e in own if e.name == name] for name in {e.name for e in own}}
            states = [e.fields["state"] for e in named["session_state"]]
            assert states[0] == "setup" and states[-1] == "done"
            assert all(a != b for a, b in zip(states, states[1:]))
            opened, closed = named["session_open"][0], named["session_close"][0]
            # Nothing happens to a session before its first state or after its last.
            before = own[: own.index(named["session_state"][0])]
            after = own[own.index(named["session_state"][-1]) + 1 :]
            assert {e.name for e in before} <= {"session_open", "session_phase"}
            assert {e.name for e in after} <= {"session_close", "session_count", "session_time"}
            totals = {e.fields["state"]: e.fields for e in named["session_time"]}
            parts = ("own_ns", "polling_ns", "others_ns", "asleep_ns", "off_cpu_ns")
            accounted = sum(total[part] for total in totals.values() for part in parts)
            life = closed.time_ns - opened.time_ns
            assert abs(accounted - life) <= life / 20 + 20_000_000
            if role == "put":
                check_waits(events, instance, session)


def check_identified(events: list[Event], sessions: int, workers: int) -> None:
    """The trace says who everybody is whom its events name."""
    processes = {e.instance: e.fields for e in events if e.name == "process"}
    assert sorted(f["role"] for f in processes.values()) == ["get", "put"]
    assert {e.instance for e in events} == processes.keys()
    by_role = {fields["role"]: instance for instance, fields in processes.items()}
    assert all(f["provider"] and f["command_line"] and f["pid"] for f in processes.values())
    addresses: dict[tuple[str, str], set[str]] = {}
    for role, instance in by_role.items():
        own = [e for e in events if e.instance == instance]
        assert {e.fields["worker"] for e in own if e.name == "worker"} == set(range(workers))
        opened = {e.fields["session"]: e.fields for e in own if e.name == "session_open"}
        assert opened.keys() == set(range(sessions))
        assert {f["cause"] for f in opened.values()} == {"state_dump"}
        assert {f["phase"] for f in opened.values()} == {"transfer"}
        assert all(f["age_ns"] > 0 and f["worker"] < workers for f in opened.values())
        told = {e.fields["session"] for e in own if e.name in ("op_post", "op_complete")}
        assert told - {LISTENING} <= opened.keys()
        assert any(e.name == "params" for e in own)
        for event in own:
            if event.name == "session_address":
                key = (role, event.fields["address_kind"])
                addresses.setdefault(key, set()).add(event.fields["address"])
    assert len(addresses["get", "listen"]) == 1
    for one, other in (("get", "put"), ("put", "get")):
        assert len(addresses[one, "local"]) == sessions
        assert addresses[one, "local"] == addresses[other, "peer"]


@pytest.mark.parametrize("wait", [[], ["-w"]], ids=["poll", "wait"])
def test_traces_that_start_late(daemon_world: World, tmp_path: Path, wait: list[str]) -> None:
    """A recording that starts in the middle of a run knows who is who; a second one too."""
    options = common(TCP, "-c", "-n", "3", "--sessions-per-worker", "2", *wait)
    stream = ["--workload", "stream", "--size", "4K"]
    pair = Pair(daemon_world, options, stream)
    pair.wait_for_work()
    with tracing(daemon_world, tmp_path / "first", "INFO"):
        with tracing(daemon_world, tmp_path / "second", "INFO"):
            # All is told once a second: this much time is the promise.
            time.sleep(1.5)
    pair.cancel()
    for name in ("first", "second"):
        check_identified(read(tmp_path / name), 3, 2)


def test_losses_are_told_exactly(world: World) -> None:
    """
    Description: nothing is lost with the usual buffers; with tiny ones what is said to be lost is what
    another recording of the same run has more, by thread, name and time.
    """
    options = ["--seconds", "1", "--small-seconds", "1.5", "--sessions", "2", "--buffers", "4Kx2"]
    done = world.run(SOURCE / "scripts" / "soak-loss", *options, "--build", str(BUILD))
    assert done.code == 0, done.out + done.err
    assert re.search(r"^whole: [\d,]+ events .*, 0 problems$", done.out, re.M)
    assert re.search(r"^small: [\d,]+ events lost, 0 problems$", done.out, re.M)


def test_a_switched_off_tracepoint_is_three_instructions(tmp_path: Path) -> None:
    """A load, a test, a branch: no argument is computed. Counted, not timed."""
    if shutil.which("valgrind") is None or SANITIZER:
        pytest.skip("needs valgrind, and a program without sanitizer")
    counts = {}
    for mode in ("empty", "off"):
        for rounds in (10_000, 110_000):
            out = tmp_path / f"{mode}-{rounds}"
            tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
            cost = [str(BUILD / "tests" / "tools" / "cost"), mode, str(rounds)]
            subprocess.run([*tool, *cost], check=True, capture_output=True)
            (total,) = re.findall(r"^totals: (\d+)", out.read_text(), re.M)
            counts[mode, rounds] = int(total)
    loops = {mode: counts[mode, 110_000] - counts[mode, 10_000] for mode in ("empty", "off")}
    # Other threads execute a few hundred instructions more or less.
    assert round((loops["off"] - loops["empty"]) / 100_000, 1) <= 3
