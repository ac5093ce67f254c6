# SPDX-License-Identifier: BSD-3-Clause
"""fabtget and fabtput alone, with no session daemon anywhere: options, exit codes, cancellation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from world import SECONDS, Done, World, wait_busy

PATTERN_BYTES = 76
TOTAL = 200 * PATTERN_BYTES
ENDLESS = "1T"
PROVIDERS = ("tcp;ofi_rxm", "shm")


def common(provider: str) -> list[str]:
    """Options for both sides: provider and loopback."""
    return ["--provider", provider, *(["--bind", "127.0.0.1"] if provider != "shm" else [])]


def first_line(process: subprocess.Popen[str]) -> str:
    """The address that fabtget prints."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.endswith("\n"), process.communicate()
    return line.strip()


def pair(world: World, provider: str, get: list[str], *puts: list[str]) -> list[Done]:
    """Run fabtget and the fabtputs that belong to it, and wait for all."""
    server = world.start(world.get, *common(provider), *get)
    address = first_line(server)
    clients = [world.start(world.put, *common(provider), *put, address) for put in puts]
    return [world.finish(process) for process in (server, *clients)]


def rows(done: Done) -> list[list[str]]:
    """The table of results: a row a session, and the total's."""
    lines = [line.split() for line in done.out.splitlines()]
    heads = [index for index, line in enumerate(lines) if line[:2] == ["session", "bytes"]]
    assert len(heads) == 1, done.out
    return lines[heads[0] + 1 :]


def verified(done: Done, sessions: int) -> None:
    """The process ended well and moved all bytes of each of its sessions."""
    assert done.code == 0, done.err
    assert done.err == ""
    table = rows(done)
    assert [row[1] for row in table] == [str(TOTAL)] * sessions + [str(sessions * TOTAL)]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "get, put",
    [
        ([], []),
        (["-n", "4"], ["-n", "4"]),
        ([], ["-g"]),
        (["-r"], ["-r"]),
        (["-r"], ["-g", "-r"]),
        (["-n", "9", "--placement", "spread"], ["-n", "9", "--sessions-per-worker", "3"]),
        (["-p", "auto"], ["-p", "0"]),
    ],
    ids=lambda words: "_".join(words) or "default",
)
def test_every_byte_is_verified(
    world: World, provider: str, get: list[str], put: list[str]
) -> None:
    size = ["--total", str(TOTAL)]
    sessions = int(get[1]) if get[:1] == ["-n"] else 1
    for done in pair(world, provider, [*get, *size], [*put, *size]):
        verified(done, sessions)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_sleeping_workers(world: World, provider: str) -> None:
    """-w; where the provider can't wake anybody (shm) it is said once, and all is well."""
    size = ["--total", str(TOTAL), "-w", "-n", "2"]
    for done in pair(world, provider, size, size):
        assert done.code == 0
        assert len(done.err.splitlines()) <= (1 if provider == "shm" else 0), done.err
        assert rows(done)[-1][1] == str(2 * TOTAL)


def test_two_puts_share_the_sessions(world: World) -> None:
    size = ["--total", str(TOTAL), "-n", "4"]
    get, *puts = pair(world, PROVIDERS[0], size, [*size, "-k", "2"], [*size, "-k", "2"])
    verified(get, 4)
    for put in puts:
        verified(put, 2)


def test_address_file(world: World, tmp_path: Path) -> None:
    """It appears complete, replaces an older one, and standard output is free of it."""
    file = tmp_path / "address"
    file.write_text("old\n")
    old = file.stat().st_ino
    server = world.start(world.get, *common(PROVIDERS[0]), "--total", str(TOTAL), "-a", file)
    deadline = time.monotonic() + SECONDS
    while file.stat().st_ino == old and server.poll() is None and time.monotonic() < deadline:
        pass
    address = file.read_text()
    assert address.endswith("\n") and address != "old\n"
    client = world.run(world.put, *common(PROVIDERS[0]), "--total", str(TOTAL), address.strip())
    verified(client, 1)
    done = world.finish(server)
    verified(done, 1)
    assert address.strip() not in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["address"]


def test_results_as_json(world: World, tmp_path: Path) -> None:
    size = ["--total", str(TOTAL), "-n", "2"]
    get, put = pair(
        world,
        PROVIDERS[0],
        [*size, "--json", str(tmp_path / "get")],
        [*size, "--json", str(tmp_path / "put")],
    )
    for name, done in (("get", get), ("put", put)):
        verified(done, 2)
        document: dict[str, Any] = json.loads((tmp_path / name).read_text())
        assert document


# ------------------------------------------------------------------------------ cancellation


def cancelled(world: World, provider: str, number: signal.Signals, *options: str) -> list[Done]:
    """Signal both sides in the middle of an endless transfer."""
    words = [*common(provider), "--total", ENDLESS, "-n", "2", *options]
    server = world.start(world.get, *words)
    client = world.start(world.put, *words, first_line(server))
    for process in (server, client):
        wait_busy(process)
    for process in (server, client):
        process.send_signal(number)
    return [world.finish(process) for process in (server, client)]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_expected_cancellation(world: World, provider: str, number: signal.Signals) -> None:
    for done in cancelled(world, provider, number, "-c"):
        assert done.code == 0, done.err


@pytest.mark.parametrize("provider", PROVIDERS)
def test_unexpected_cancellation(world: World, provider: str) -> None:
    for done in cancelled(world, provider, signal.SIGINT):
        assert done.code == 1
        assert done.err != ""


def test_cancellation_that_does_not_come(world: World) -> None:
    size = ["--total", str(TOTAL), "-c", "--timeout", "2s"]
    for done in pair(world, PROVIDERS[0], size, size):
        assert done.code == 1
        assert "cancel" in done.err


@pytest.mark.parametrize("options, code", [(["-c"], 0), ([], 1)])
def test_cancellation_while_nobody_comes(world: World, options: list[str], code: int) -> None:
    server = world.start(world.get, *common(PROVIDERS[0]), *options)
    first_line(server)
    server.send_signal(signal.SIGINT)
    assert world.finish(server).code == code


# ------------------------------------------------------------------------------ refusals


def refused(done: Done, code: int, *words: str) -> None:
    """One line that names the program and the words, and the exit code."""
    assert done.code == code, done.err
    assert len(done.err.splitlines()) == 1, done.err
    assert done.err.startswith("fabt")
    for word in words:
        assert word in done.err
    assert done.out == ""


@pytest.mark.parametrize(
    "option, value",
    [
        ("-n", "0"),
        ("-n", "abc"),
        ("-n", "-1"),
        ("-n", "5x"),
        ("-p", "3 -"),
        ("-p", "5-2"),
        ("-p", "9999"),
        ("--total", "5x"),
        ("--timeout", "soon"),
        ("--workers", "0"),
        ("--placement", "heap"),
    ],
)
def test_bad_values(world: World, option: str, value: str) -> None:
    """The line names the option and the value."""
    refused(world.run(world.get, option, value), 2, option, value)
    refused(world.run(world.put, option, value, "02:00"), 2, option, value)


def test_more_local_sessions_than_sessions(world: World) -> None:
    refused(world.run(world.put, "-k", "5", "-n", "2", "02:00"), 2, "-k", "5")


@pytest.mark.parametrize("option", ["-z", "--bogus"])
def test_unknown_options(world: World, option: str) -> None:
    refused(world.run(world.get, option), 2, option)


@pytest.mark.parametrize("address", ["zz", "2:0", "02:", "02-00", "+6: 9", ""])
def test_bad_addresses(world: World, address: str) -> None:
    refused(world.run(world.put, address), 2, "address")


def test_no_address(world: World) -> None:
    refused(world.run(world.put), 2, "address")


def test_unwritable_address_file(world: World) -> None:
    refused(world.run(world.get, *common(PROVIDERS[0]), "-a", "/proc/none/x"), 1, "/proc/none/x")


def test_no_such_provider(world: World) -> None:
    refused(world.run(world.get, "--provider", "pigeon"), 1, "pigeon", "fi_info")


def test_nobody_listens(world: World) -> None:
    """An address of ours at which nobody listens: an error within the time-out."""
    server = world.start(world.get, *common(PROVIDERS[0]), "-c")
    address = first_line(server)
    server.send_signal(signal.SIGINT)
    assert world.finish(server).code == 0
    done = world.run(world.put, *common(PROVIDERS[0]), "--timeout", "2s", address)
    assert done.code == 1 and done.err.startswith("fabtput: session 0")


def stop_between_calls(pid: int) -> None:
    """Stop a process; its main thread waits in the kernel, and so is not inside a call of libfabric."""
    deadline = time.monotonic() + SECONDS
    tasks = Path("/proc", str(pid), "task")
    while time.monotonic() < deadline:
        os.kill(pid, signal.SIGSTOP)
        # The signal only asks: each thread stops when it gets to it.
        while any(") T " not in (task / "stat").read_text() for task in tasks.iterdir()):
            assert time.monotonic() < deadline
        if not (tasks / str(pid) / "syscall").read_text().startswith("-1 "):
            return
        os.kill(pid, signal.SIGCONT)
    pytest.fail("the process never waits")


def test_a_put_that_left_before_it_was_heard(world: World) -> None:
    """
    Description: get was stopped while put came and went, and with put the memory that get has to map to
    answer: a shm peer asks to be connected before it sends anything. get survives that request, has
    heard of no session, and serves the next put.
    """
    server = world.start(world.get, *common("shm"), "--total", str(TOTAL))
    address = first_line(server)
    pid = int(
        bytes.fromhex(address.replace(":", "")).decode().removeprefix("fi_shm://").split(":")[0]
    )
    stop_between_calls(pid)
    put = world.run(world.put, *common("shm"), "--timeout", "500ms", address)
    os.kill(pid, signal.SIGCONT)
    assert put.code == 1 and "no acknowledgement came" in put.err
    after = world.run(world.put, *common("shm"), "--total", str(TOTAL), address)
    verified(after, 1)
    verified(world.finish(server), 1)


@pytest.mark.parametrize("program", ["fabtget", "fabtput"])
def test_help_and_version(world: World, program: str) -> None:
    path = world.get.with_name(program)
    done = world.run(path, "--help")
    assert (done.code, done.err) == (0, "") and done.out.startswith(f"Usage: {program}")
    done = world.run(path, "--version")
    assert done.code == 0 and program in done.out and "libfabric" in done.out


# ------------------------------------------------------------------------------ builds

LTTNG_WORDS = ("lttng", "tracepoint", "urcu")


def references(program: Path) -> list[str]:
    """Libraries and symbols of a program that have to do with LTTng."""
    text = ""
    for words in (["ldd"], ["nm"], ["nm", "-D"]):
        command = [*words, str(program)]
        text += subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line for line in text.splitlines() if any(word in line.lower() for word in LTTNG_WORDS)]


@pytest.mark.parametrize("program", ["fabtget", "fabtput"])
def test_without_tracing_there_is_no_lttng(world: World, program: str) -> None:
    """The program with tracing shows that the test would find something."""
    folder = os.environ.get("FABT_NONE_BUILD")
    if not folder:
        pytest.skip("FABT_NONE_BUILD names no build with -Dtracing=none")
    assert references(Path(folder, "src", program)) == []
    assert references(world.get.with_name(program)) != []


def results(done: Done) -> dict[str, Any]:
    """The JSON document of a run that ended well."""
    assert done.code == 0, done.err
    document = json.loads(done.out[done.out.index("{") :])
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("verify", [True, False])
def test_stream_moves_its_total(world: World, provider: str, verify: bool) -> None:
    """A bandwidth run of two sessions: a write a buffer, nothing split, the last buffer short."""
    total = 100 * 4096 + 1
    options = ["-n", "2", "--json", "-"] + ([] if verify else ["--no-verify"])
    asked = ["--workload", "stream", "--size", "4K", "--depth", "5", "--total", str(total)]
    get, put = pair(world, provider, options, [*options, *asked])
    for document in (results(get), results(put)):
        assert [row["bytes"] for row in document["sessions"]] == [total, total]
        assert [row["workload"] for row in document["sessions"]] == ["stream", "stream"]
        assert document["total"]["fragments"] == 0
    assert results(put)["total"]["writes"] == 2 * 101
    assert results(put)["total"]["write_latency"]["samples"] == 2 * 101


@pytest.mark.parametrize("provider", PROVIDERS)
def test_pingpong_by_time(world: World, provider: str) -> None:
    """Round trips until the time is over: each write's memory comes back, both ends count alike."""
    options = ["--json", "-"]
    asked = ["--workload", "pingpong", "--size", "100", "--duration", "300ms"]
    get, put = pair(world, provider, options, [*options, *asked])
    moved = results(put)["total"]
    assert moved["bytes"] == results(get)["total"]["bytes"] == 100 * moved["writes"] > 0
    # The last write's memory need not come back: get answers the end of the stream instead.
    assert moved["round_trip"]["samples"] in (moved["writes"], moved["writes"] - 1)


def test_a_sweep_goes_through_its_sizes(world: World) -> None:
    """Two puts of one session each go through three sizes; get learns of the rounds from them."""
    sweep = ["-n", "2", "-k", "1", "--json", "-", "--workload", "stream", "--size", "64,1K-2K"]
    sweep += ["--total", "10K"]
    get, *puts = pair(world, "shm", ["-n", "2", "--json", "-"], sweep, sweep)
    assert [row["size_bytes"] for row in results(get)["rounds"]] == [64, 1024, 2048]
    assert [row["bytes"] for row in results(get)["rounds"]] == [2 * 10240] * 3
    for put in puts:
        assert [row["bytes"] for row in results(put)["rounds"]] == [10240] * 3


def test_the_warm_up_is_left_out(world: World) -> None:
    """The figures begin after the warm-up; get, without one, counts everything."""
    options = ["--json", "-"]
    asked = ["--workload", "stream", "--size", "1K", "--duration", "300ms", "--warmup", "200ms"]
    get, put = pair(world, "shm", options, [*options, *asked])
    assert 0 < results(put)["total"]["bytes"] < results(get)["total"]["bytes"]
    assert results(put)["total"]["seconds"] < results(get)["total"]["seconds"]


def test_an_expected_cancellation_outlasts_the_duration(world: World) -> None:
    """With -c a run by time goes on until the signal."""
    server = world.start(world.get, *common("shm"), "-c")
    address = first_line(server)
    asked = ["--workload", "stream", "--size", "1K", "--duration", "1ms", "--json", "-"]
    client = world.start(world.put, *common("shm"), "-c", *asked, address)
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:  # both must still run well after the duration
        assert server.poll() is None and client.poll() is None
    for process in (server, client):
        process.send_signal(signal.SIGINT)
    assert world.finish(server).code == 0
    assert results(world.finish(client))["cancelled"] is True


@pytest.mark.parametrize(
    "mine, yours, says",
    [
        (["--total", "1K"], ["--total", "2K"], "--total allows 1024"),
        (["--size", "4K"], ["--workload", "stream", "--size", "8K"], "--size allows 4096"),
        (["--depth", "4"], ["--workload", "stream", "--depth", "5"], "--depth allows 4"),
        (["--duration", "1s"], ["--workload", "pingpong"], "--duration allows 1.000 s"),
        (["--total", "10M"], ["--workload", "stream"], "until its --duration is over"),
        (["--workload", "stream"], [], "put's workload is stress, --workload allows stream"),
    ],
)
def test_get_keeps_to_its_limit(world: World, mine: list[str], yours: list[str], says: str) -> None:
    """What get is told of the workload bounds what a put may ask for; both sides say so."""
    get, put = pair(world, "shm", mine, yours)
    assert get.code == put.code == 1
    assert says in get.err and "(put is fi_shm://" in get.err
    assert "refused the session" in put.err


def test_nobody_comes(world: World) -> None:
    done = world.run(world.get, *common("shm"), "-w", "-n", "3", "--accept-timeout", "300ms")
    assert done.code == 1
    assert "3 of 3 sessions did not come: waited 0.3 s (--accept-timeout)" in done.err


def test_a_session_that_never_comes(world: World) -> None:
    """get serves the one that came, then waits so long for the other and says what is missing."""
    server = world.start(
        world.get, *common("shm"), "-n", "2", "--accept-timeout", "6s", "--json", "-"
    )
    words = [*common("shm"), "-n", "2", "-k", "1", "--timeout", "20s", "--total", str(TOTAL)]
    assert world.finish(world.start(world.put, *words, first_line(server))).code == 0
    done = world.finish(server)
    assert done.code == 1
    assert "1 of 2 sessions did not come: waited 6.0 s (--accept-timeout)" in done.err
    document = json.loads(done.out)
    assert document["sessions_ok"] == document["sessions_failed"] == 1


def test_a_run_that_ends_within_its_warm_up(world: World) -> None:
    words = ["--workload", "stream", "--total", "1M", "--json", "-"]
    get, put = pair(world, "shm", ["--json", "-"], [*words, "--warmup", "10m"])
    assert get.code == put.code == 0
    assert "--warmup: 1 of 1 sessions ended before it was over" in put.err
    (row,) = results(put)["sessions"]
    assert row["bytes"] == row["writes"] == 0


@pytest.mark.parametrize(
    "words, code, says",
    [
        (["--bind", "300.1.1.1"], 2, "--bind: '300.1.1.1' is no address"),
        (["--bind", "nonsense.invalid"], 2, "--bind: 'nonsense.invalid' is no address"),
        (["--bind", "203.0.113.77"], 2, "--bind: '203.0.113.77' is not an address of this host"),
        (["--json", "/no/such/folder/run.json"], 1, "--json: cannot write"),
    ],
)
def test_what_can_not_work_is_said_before_the_run(
    world: World, words: list[str], code: int, says: str
) -> None:
    """A wrong local address is never replaced by another; results have a place before they exist."""
    done = world.finish(world.start(world.get, *words))
    assert done.code == code
    assert says in done.err and done.err.count("\n") == 1
    assert done.out == ""


@pytest.mark.parametrize("provider, address", [("tcp;ofi_rxm", "02:00"), ("shm", "02:00:7f:01")])
def test_an_address_of_another_provider_is_refused_once(
    world: World, provider: str, address: str
) -> None:
    """One line, however many sessions there are."""
    done = world.finish(world.start(world.put, "--provider", provider, "-n", "20", address))
    assert done.code == 1
    assert "the address is none of provider" in done.err and done.err.count("\n") == 1


def test_a_provider_that_does_not_exist(world: World) -> None:
    """The message says which there are."""
    done = world.run(world.get, "--provider", "cobweb", "--bind", "127.0.0.1")
    assert done.code == 1 and done.err.count("\n") == 1
    assert "called cobweb" in done.err and "tcp;ofi_rxm" in done.err and "--provider" in done.err
