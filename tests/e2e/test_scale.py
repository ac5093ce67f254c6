# SPDX-License-Identifier: BSD-3-Clause
"""Many sessions, what limits them, how memory is addressed, and what idle workers do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from test_engine import common, first_line, refused
from world import Done, World, wait_busy, worker_threads

BYTES = 2 * 76
SMALL = ["--total", str(BYTES), "--json", "-"]
# ofi_rxm's own buffers are what a session takes of memory; both sides must agree (doc/limits.md).
SMALLER = {"FI_OFI_RXM_BUFFER_SIZE": "1024", "FI_OFI_RXM_MSG_RX_SIZE": "64"}
LITTLE = (SMALLER, SMALLER)


def document(done: Done) -> dict[str, Any]:
    """The JSON results of a process."""
    assert done.code == 0, done.err
    result = json.loads(done.out[done.out.index("{") :])
    assert isinstance(result, dict)
    return result


def run(
    world: World,
    provider: str,
    get: list[str],
    *puts: list[str],
    environments: tuple[dict[str, str], dict[str, str]] = ({}, {}),
) -> list[Done]:
    """Run fabtget and the fabtputs that belong to it; `environments` of get and of the puts."""
    server = world.start(world.get, *common(provider), *get, **environments[0])
    address = first_line(server)
    clients = [
        world.start(world.put, *common(provider), *put, address, **environments[1]) for put in puts
    ]
    return [world.finish(process) for process in (server, *clients)]


def complete(done: Done, sessions: int) -> None:
    """All bytes of so many sessions were moved, and nothing was complained about."""
    result = document(done)
    assert done.err == ""
    assert result["success"] is True and result["sessions_ok"] == sessions
    assert [row["bytes"] for row in result["sessions"]] == [BYTES] * sessions


# ------------------------------------------------------------------------------ scale


def test_1024_sessions_between_two_processes(world: World) -> None:
    """128 workers with 8 sessions each on put; get's take more when earlier ones have ended."""
    many = ["-n", "1024", *SMALL]
    get, put = run(world, "tcp;ofi_rxm", many, many, environments=LITTLE)
    complete(get, 1024)
    complete(put, 1024)
    workers = [row["worker"] for row in document(put)["sessions"]]
    assert {workers.count(worker) for worker in range(128)} == {8}


def test_1024_sessions_of_four_puts(world: World) -> None:
    many = ["-n", "1024", *SMALL]
    get, *puts = run(world, "tcp;ofi_rxm", many, *[[*many, "-k", "256"]] * 4, environments=LITTLE)
    complete(get, 1024)
    for put in puts:
        complete(put, 256)


@pytest.mark.parametrize(
    "provider, sessions",
    [("net;ofi_rxm", 128), ("shm", 256), ("sockets", 64), ("udp;ofi_rxd", 64)],
)
def test_many_sessions_on_other_providers(world: World, provider: str, sessions: int) -> None:
    many = ["-n", str(sessions), *SMALL]
    for done in run(world, provider, many, many, environments=LITTLE):
        complete(done, sessions)


# ------------------------------------------------------------------------------ limits


def test_more_sessions_than_shm_has_room_for(world: World) -> None:
    """Refused on both sides before anything starts, with the number that is possible."""
    words = ["--provider", "shm", "-n", "257"]
    refused(world.run(world.get, *words), 1, "257", "256", "shm")
    refused(world.run(world.put, *words, "66:69:00"), 1, "257", "256", "shm")


def test_more_sessions_of_all_sizes_than_shm_has_room_for(world: World) -> None:
    words = ["--provider", "shm", "-n", "100", "--workload", "stream", "--size", "64-512"]
    refused(world.run(world.put, *words, "66:69:00"), 1, "each --size", "400", "256")


@pytest.mark.parametrize("program", ["fabtget", "fabtput"])
def test_too_few_open_files(world: World, program: str) -> None:
    """The hard limit is what counts; the line says what is needed and how to raise it."""
    address = "02:00:15:b3:7f:00:00:01:00:00:00:00:00:00:00:00"
    rest = [address] if program == "fabtput" else []
    words = [str(world.get.with_name(program)), *common("tcp;ofi_rxm"), "-n", "512", *rest]
    refused(
        world.run("prlimit", "--nofile=64:600", *words), 1, "512", "open files", "600", "ulimit"
    )


def test_the_limit_on_open_files_is_raised(world: World) -> None:
    """A low soft limit does not matter where the hard one is high."""
    words = ["-n", "48", *SMALL]
    server = world.start("prlimit", "--nofile=32:4096", world.get, *common("tcp;ofi_rxm"), *words)
    put = world.run(world.put, *common("tcp;ofi_rxm"), *words, first_line(server))
    complete(put, 48)
    complete(world.finish(server), 48)


def test_too_little_memory(world: World) -> None:
    """ofi_rxm's buffers: the line says how to have smaller ones."""
    done = world.run(
        world.get, *common("tcp;ofi_rxm"), "-n", "512", FI_OFI_RXM_BUFFER_SIZE="67108864"
    )
    refused(done, 1, "512", "MiB of memory", "FI_OFI_RXM_BUFFER_SIZE=1024")


def test_too_little_shared_memory(world: World) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small /dev/shm")
    small = 'mount -t tmpfs -o size=100M small /dev/shm && exec "$@"'
    words = ["unshare", "-m", "sh", "-c", small, "sh", str(world.get), "--provider", "shm"]
    refused(world.run(*words, "-n", "64"), 1, "/dev/shm", "65 endpoints")


def test_the_writes_in_flight_fit_the_provider(world: World) -> None:
    """sockets queues 256 transmits: more --depth than that takes turns and defers nothing."""
    asked = ["--workload", "stream", "--size", "64", "--depth", "500", "--total", "200K"]
    get, put = run(world, "sockets", ["--json", "-"], [*asked, "--json", "-"])
    assert document(get)["total"]["bytes"] == document(put)["total"]["bytes"] == 200 * 1024


# ------------------------------------------------------------------------------ memory modes

RAW = {"FABT_MR_MODE": "none"}
VIRTUAL = {"FABT_MR_MODE": "virt_addr"}


@pytest.mark.parametrize("options", [[], ["-r"]], ids=["once", "each_use"])
@pytest.mark.parametrize("put", [RAW, VIRTUAL], ids=["put_raw", "put_virtual"])
@pytest.mark.parametrize("get", [RAW, VIRTUAL], ids=["get_raw", "get_virtual"])
def test_both_address_modes(
    world: World, get: dict[str, str], put: dict[str, str], options: list[str]
) -> None:
    """shm takes addresses or offsets, as get's domain is opened; put need not be opened alike."""
    words = ["-n", "2", "--total", str(20 * BYTES), "--json", "-", *options]
    for done, environment in zip(
        run(world, "shm", words, words, environments=(get, put)), (get, put), strict=True
    ):
        result = document(done)
        assert ("virt_addr" in result["mr_mode"]) == (environment is VIRTUAL)
        assert [row["bytes"] for row in result["sessions"]] == [20 * BYTES] * 2


def test_a_registration_mode_that_does_not_exist(world: World) -> None:
    done = world.run(world.get, "--provider", "shm", FABT_MR_MODE="local,magic")
    refused(done, 2, "FABT_MR_MODE", "magic", "virt_addr")


# ------------------------------------------------------------------------------ idle workers


def voluntary_switches(pid: int) -> int:
    """How often the busiest worker went to sleep."""
    counts = []
    for task in worker_threads(pid):
        status = dict(
            line.split(":", 1) for line in (task / "status").read_text().splitlines() if ":" in line
        )
        counts.append(int(status["voluntary_ctxt_switches"]))
    return max(counts)


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a process and wait until it has stopped."""
    process.send_signal(signal.SIGSTOP)
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert process.poll() is None


def switches_while_idle(world: World, *options: str) -> int:
    """How often get's worker wakes up in a second in which its peer is stopped."""
    words = [*common("tcp;ofi_rxm"), "--total", "1T", "-c", *options]
    server = world.start(world.get, *words)
    client = world.start(world.put, *words, first_line(server))
    for process in (server, client):
        wait_busy(process)
    stop(client)
    before = voluntary_switches(server.pid)
    end = time.monotonic() + 1
    while time.monotonic() < end:
        time.sleep(0.05)  # the second is what is measured
    count = voluntary_switches(server.pid) - before
    client.send_signal(signal.SIGCONT)
    for process in (server, client):
        process.send_signal(signal.SIGINT)
    for process in (server, client):
        assert world.finish(process).code == 0
    return count


def test_an_idle_worker_sleeps(world: World) -> None:
    """With -w it wakes up a few times a second for its own clocks; without, a thousand times."""
    sleeping, polling = switches_while_idle(world, "-w"), switches_while_idle(world)
    assert 0 < sleeping * 5 < polling, (sleeping, polling)


def ticks(pid: int) -> int:
    """The CPU time of a process so far, in ticks of the kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("provider", ["tcp;ofi_rxm", "net;ofi_rxm", "net"])
def test_waiting_takes_no_processor(world: World, provider: str) -> None:
    """With -w, when one of two sessions has ended. (net never lets a worker wait.)"""
    server = world.start(world.get, *common(provider), "-n", "2", "-w", "-c")
    words = [*common(provider), "-n", "2", "-k", "1", "-w", "--total", str(20 * BYTES)]
    client = world.finish(world.start(world.put, *words, first_line(server)))
    assert client.code == 0, client.err
    before, begin = ticks(server.pid), time.monotonic()
    while time.monotonic() < begin + 1.5:
        time.sleep(0.05)  # the time is what is measured
    used = (ticks(server.pid) - before) / os.sysconf("SC_CLK_TCK")
    server.send_signal(signal.SIGINT)
    assert world.finish(server).code == 0
    assert used < 0.4 * (time.monotonic() - begin)
