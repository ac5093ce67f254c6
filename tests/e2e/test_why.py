# SPDX-License-Identifier: BSD-3-Clause
"""Planted causes are named first, accounts are complete, and clocks of two "hosts" are set to one.

A machine that does something else at the same time takes the processors away: then that is the first
cause, and what was planted comes after it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from world import BUILD, FABTRACE, SECONDS, World

from lttng_private import PrivateLttng, Unavailable
from oracle import events

TCP, SHM = "tcp;ofi_rxm", "shm"
UNATTRIBUTED = 0.01


def record(
    world: World, trace: Path, get: list[str], put: list[str], provider: str = TCP,
    level: str = "ops", **extra: str,
) -> None:  # fmt: skip
    """Record a pair."""
    bind = [] if provider == SHM else ["--bind", "127.0.0.1"]
    common = ["--provider", provider, *bind]
    done = world.fabtrace(
        "record", "-o", trace, "--level", level, "--", world.get, *common, *get,
        "--and", world.put, *common, *put, "{address}", **extra,
    )  # fmt: skip
    assert done.code == 0, done.err


def two_processors() -> tuple[str, str]:
    """Two processors that we may use."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        pytest.skip("needs two processors")
    return str(allowed[0]), str(allowed[1])


def view(world: World, name: str, trace: Path, *words: str) -> dict[str, Any]:
    """A view's document."""
    done = world.fabtrace(name, trace, "--json", *words)
    assert done.code == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return document


def check_accounts(document: dict[str, Any], trace: Path) -> None:
    """
    Shares add up to 1 with at most 1 % unattributed, and the engine's account of each session is
    its wall time: recomputed from babeltrace2's text.
    """
    assert document["sessions"]
    for row in document["sessions"]:
        assert sum(row["shares"].values()) == pytest.approx(1.0)
        assert abs(row["shares"]["unattributed"]) <= UNATTRIBUTED, row
    for row in document["workers"]:
        assert sum(row["shares"].values()) == pytest.approx(1.0, abs=0.01)
    begun: dict[tuple[int, int], int] = {}
    ended: dict[tuple[int, int], int] = {}
    spent: dict[tuple[int, int], dict[str, int]] = {}
    for name, moment, fields in events(trace):
        if name not in ("session_open", "session_close", "session_time"):
            continue
        key = (fields["writer"] // 1024, fields["session"])
        if name == "session_open" and fields["cause"] == "start":
            begun[key] = moment
        elif name == "session_close":
            ended[key] = moment
        elif name == "session_time":
            spent.setdefault(key, {})[fields["state"]] = sum(
                value for field, value in fields.items() if field.endswith("_ns")
            )
    assert spent.keys() == begun.keys() == ended.keys() and len(spent) == len(document["sessions"])
    walls = sorted(ended[key] - begun[key] for key in spent)
    for key, states in spent.items():
        wall = ended[key] - begun[key]
        assert abs(sum(states.values()) - wall) <= UNATTRIBUTED * wall
    shown = sorted(round(row["wall_s"] * 1e9) for row in document["sessions"])
    assert shown == pytest.approx(walls, abs=2)


def check_first(document: dict[str, Any], cause: str, process: str | None = None) -> None:
    """
    The planted cause is named first. Where others take the processors that is the first cause, and true:
    then what was planted must still be among the findings.
    """
    findings = document["findings"]
    said = [(f["cause"], f["process"], round(f["times_normal"], 2)) for f in findings]
    named = [f for f in findings if f["cause"] == cause]
    assert named, said
    if cause == "off_cpu" or not any(f["cause"] == "off_cpu" and f["stands_out"] for f in findings):
        assert findings[0]["cause"] == cause and findings[0]["stands_out"], said
        assert document["verdict"].startswith(findings[0]["text"])
    if process is not None:
        assert process in {f["process"] for f in named}, said


def test_four_spinning_sessions_share_a_processor(world: World, trace: Path) -> None:
    """Four workers of put on processor 0: they are off it, and the verdict says who else is there."""
    here, there = two_processors()
    record(
        world, trace, ["-n", "4", "-p", there],
        ["-n", "4", "--workers", "4", "--placement", "spread", "-p", here, "--total", "40K"],
    )  # fmt: skip
    document = view(world, "why", trace)
    check_accounts(document, trace)
    check_first(document, "off_cpu", "put")
    mine = [f for f in document["findings"] if f["process"] == "put"]
    assert mine[0]["cause"] == "off_cpu" and mine[0]["stands_out"], mine
    assert mine[0]["share"] > 0.25
    assert re.search(rf"is pinned to CPU {here}, as do (put/\d(, )?){{3}}", mine[0]["text"])


def test_a_worker_pinned_onto_a_busy_processor(world: World, trace: Path) -> None:
    """Another program spins on put's processor."""
    here, there = two_processors()
    hog = world.start("taskset", "-c", here, "sh", "-c", "while :; do :; done")
    try:
        record(world, trace, ["-p", there], ["-p", here, "--total", "20K"])
    finally:
        hog.kill()
        hog.communicate()
    document = view(world, "why", trace)
    check_accounts(document, trace)
    check_first(document, "off_cpu")
    mine = [f for f in document["findings"] if f["cause"] == "off_cpu" and f["process"] == "put"]
    assert mine[0]["share"] > 0.4
    assert f"is pinned to CPU {here}, where no other worker of this run is" in mine[0]["text"]


def test_get_offers_too_little_memory(world: World, trace: Path) -> None:
    """Three buffers of some 30 bytes circulate while put has 64 to send."""
    here, there = two_processors()
    record(world, trace, ["-p", there], ["-p", here, "--total", "6M"], provider=SHM)
    document = view(world, "why", trace)
    check_accounts(document, trace)
    check_first(document, "memory", "put")
    flow = view(world, "sessions", trace, "--process", "put")["sessions"][0]["flow"]
    assert flow["offered_bytes_max"] == 37 + 31 + 29 and flow["no_memory_share"] > 0.5


def test_a_provider_that_defers(world: World, trace: Path) -> None:
    """shm defers every other post of single segments. (Elsewhere put keeps to the provider's queue.)"""
    record(world, trace, [], ["-g", "--total", "300K"], provider=SHM)
    document = view(world, "why", trace)
    check_accounts(document, trace)
    check_first(document, "deferred", "put")
    (session,) = view(world, "sessions", trace, "--process", "put")["sessions"]
    assert session["deferred"] > 1000


def test_registration_before_each_use(world: World, trace: Path) -> None:
    record(world, trace, ["-r"], ["-r", "--total", "150K"], provider=SHM)
    document = view(world, "why", trace)
    check_accounts(document, trace)
    check_first(document, "registration")


def test_accounts_need_level_light_only(world: World, trace: Path) -> None:
    record(world, trace, ["-n", "3"], ["-n", "3", "--total", "40K"], level="light")
    document = view(world, "why", trace)
    check_accounts(document, trace)
    assert document["findings"] and document["trace"]["level"] == "light"


def record_two_hosts(here: World, there: World, folder: Path, skewed: dict[str, str]) -> None:
    """get and put each recorded on a host of its own, into folders of their own; put's clock is skewed."""
    common = ["--provider", TCP, "--bind", "127.0.0.1"]
    file = folder / "address"
    get = here.start(
        FABTRACE, "record", "-o", folder / "get", "--", here.get, *common, "-a", file
    )  # fmt: skip
    deadline = time.monotonic() + SECONDS
    while not file.exists():  # it appears complete
        assert get.poll() is None and time.monotonic() < deadline
    put = there.fabtrace(
        "record", "-o", folder / "put", "--",
        there.put, *common, "--total", "150K", file.read_text().strip(), **skewed,
    )  # fmt: skip
    for done in (put, here.finish(get)):
        assert done.code == 0, done.err


@pytest.fixture
def other_host(world: World, tmp_path: Path) -> Iterator[World]:
    """A host beside that of `world`: it has a session daemon of its own, and the same network."""
    try:
        with PrivateLttng(start_daemon=False, beside=world.lttng) as lttng:
            result = World(lttng, tmp_path)
            yield result
            leftovers = result.leftovers()
            result.kill_leftovers()
            assert not leftovers and lttng.daemon_pid() is None
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("offset_ns, drift_ppm", [(3_000_000_000, 200), (-3_000_000_000, -200)])
def test_two_hosts_with_skewed_clocks(
    world: World, other_host: World, trace: Path, offset_ns: int, drift_ppm: int
) -> None:
    """
    Description: the clock of put's host is 3 s off and drifts by 200 ppm. From the folders of both hosts,
    copied below one, the offset is recovered within the bound that is stated, which is below 50 µs;
    no message travels back in time.
    """
    origin_ns = time.monotonic_ns()
    skewed = {
        "LTTNG_UST_CLOCK_PLUGIN": str(BUILD / "tests" / "tools" / "libskewed_clock.so"),
        "FABT_CLOCK_OFFSET_NS": str(offset_ns),
        "FABT_CLOCK_DRIFT_PPM": str(drift_ppm),
        "FABT_CLOCK_ORIGIN_NS": str(origin_ns),
    }
    hosts = trace.parent / "hosts"
    hosts.mkdir()
    record_two_hosts(world, other_host, hosts, skewed)
    for name in ("get", "put"):
        shutil.copytree(hosts / name, trace / name)
    (clock,) = world.report(trace)["clocks"]
    assert clock["applied"] and clock["bound_us"] < 50
    # What the clock of put shows is known exactly, and so is the clock of get.
    monotonic_ns = clock["at_ns"] - (time.time_ns() - time.monotonic_ns())
    truth_us = offset_ns / 1e3 + (monotonic_ns - origin_ns) / 1e3 * drift_ppm / 1e6
    assert abs(clock["offset_us"] - truth_us) <= clock["bound_us"] + 2
    # Over its whole length the line stays within the bound: so does its slope.
    seconds = clock["last_ns"] - clock["at_ns"]
    drift_error_us = abs(clock["drift_ppm"] - drift_ppm) / 1e6 * seconds / 1e3
    assert drift_error_us <= 2 * clock["bound_us"]
    rows = view(world, "sessions", trace)["one_way"]
    assert len(rows) == 2 and all(row["min_us"] >= 0 and row["count"] > 1000 for row in rows)
    raw_rows = view(world, "sessions", trace, "--no-clock-sync")["one_way"]
    assert min(row["min_us"] for row in raw_rows) < -2_900_000


def test_view_commands_on_a_run(world: World, trace: Path) -> None:
    """Every command works as a user calls it, in 80 columns, and says something."""
    record(world, trace, ["-n", "2"], ["-n", "2", "-g", "--total", "20K"])
    for name in ("why", "sessions", "workers", "latency", "slowest", "fragments", "loss", "check"):
        done = world.fabtrace(name, trace)
        assert done.code == 0 and done.err == "", (name, done.err)
        lines = done.out.splitlines()
        assert len(lines) > 3 and max(map(len, lines)) <= 80, name
    done = world.fabtrace("export", trace, "--format", "csv", "-o", trace.parent / "tables")
    assert done.code == 0 and (trace.parent / "tables" / "operations.csv").exists()
