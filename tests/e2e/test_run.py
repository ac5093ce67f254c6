# SPDX-License-Identifier: BSD-3-Clause
"""Recorded runs: what the report says of them, judged by babeltrace2's own text."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import oracle
import pytest
from fabtrace.reader import read
from reference import assert_same, read_reference
from world import FABTRACE, SANITIZER, SECONDS, SOURCE, Done, World

PATTERN_BYTES = 76
FULL_BYTES = 7_600_000
TOTAL = 300 * PATTERN_BYTES
# Small enough that the trace grows while it is recorded.
SMALL_BUFFERS = ("--buffers", "2Mx8")
SMALL_BUFFER_BYTES = 2 << 20
TCP, SHM = "tcp;ofi_rxm", "shm"


def common(provider: str, *options: str) -> list[str]:
    """Options for both sides."""
    bind = ["--bind", "127.0.0.1"] if provider != SHM else []
    return ["--provider", provider, *bind, *options]


def recording(
    world: World, trace: Path, get: list[str], *puts: list[str], options: Sequence[str] = ()
) -> list[str | Path]:
    """The command line that records a get and its puts."""
    words: list[str | Path] = [FABTRACE, "record", *options, "-o", trace, "--", world.get, *get]
    for put in puts:
        words += ["--and", world.put, *put, "{address}"]
    return words


def check_sums(report: dict[str, Any], sessions: int, total: int) -> None:
    """Every session moved all its bytes, on each side."""
    for role in ("get", "put"):
        rows = [row for row in report["sessions"] if row["role"] == role]
        assert len(rows) == sessions
        assert [row["payload_bytes"] for row in rows] == [total] * sessions
        assert {row["outcome"] for row in rows} == {"ok"}
        assert all(row["peer"] is not None for row in rows)
    sums = {row["role"]: row["payload_bytes"] for row in report["totals"]}
    assert sums == {"get": sessions * total, "put": sessions * total}


def check_sound(report: dict[str, Any], unpaired: bool = False) -> None:
    """Nothing is missing, and the shares are shares."""
    assert report["loss"]["lost_events"] == 0
    if not unpaired:
        assert report["pairing"]["unpaired"] == 0, report["pairing"]
    assert report["workers"]
    for worker in report["workers"]:
        shares = [worker["utilisation"], worker["idle_share"], worker["asleep_share"]]
        assert all(0 <= share <= 1 for share in shares), worker
        assert sum(shares) <= 1.001, worker


def check_recorder(done: Done, report: dict[str, Any]) -> None:
    """The recorder counted what the report counts."""
    assert f"{report['trace']['events']:,} events recorded, 0 lost" in done.err


def check_reader(trace: Path) -> None:
    """Each column of each event is what the reference reader finds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(read(trace), read_reference(trace))


def check_oracle(report: dict[str, Any], trace: Path) -> None:
    """Each figure is what an independent computation from the text says."""
    oracle.assert_same(report, oracle.recompute(trace))


def test_full_size_with_four_sessions(world: World, trace: Path) -> None:
    """The demonstration's run: 4 x 7,600,000 bytes on each side, nothing lost, nothing unpaired."""
    if SANITIZER:
        pytest.skip("takes long under a sanitizer; the smaller runs do the same")
    options = common(TCP, "-n", "4")
    done = world.run(*recording(world, trace, options, options))
    assert done.code == 0, done.err
    report = world.report(trace)
    check_sums(report, 4, FULL_BYTES)
    check_sound(report)
    check_recorder(done, report)
    assert report["errors"] == [] and not any(report["warnings"].values())


@pytest.mark.parametrize("provider", [TCP, SHM])
@pytest.mark.parametrize(
    "get, put",
    [([], []), ([], ["-g"]), (["-r"], ["-r"]), (["-w"], ["-w"]), (["-r", "-w"], ["-g", "-w"])],
    ids=lambda words: "".join(words) or "default",
)
def test_report_is_right(
    world: World, trace: Path, provider: str, get: list[str], put: list[str]
) -> None:
    """Four sessions with each option: every column equals the recomputed one."""
    options = common(provider, "-n", "4", "--total", str(TOTAL))
    done = world.run(*recording(world, trace, [*options, *get], [*options, *put]))
    assert done.code == 0, done.err
    report = world.report(trace)
    check_sums(report, 4, TOTAL)
    check_sound(report)
    check_recorder(done, report)
    check_oracle(report, trace)


# Small enough for readers that take every event in Python. udp;ofi_rxd needs a moment for each message.
STRESS_TOTAL = str(60 * PATTERN_BYTES)
WORKLOADS = {
    "stress": ["--total", STRESS_TOTAL],
    "stress in pieces": ["--total", STRESS_TOTAL, "-g"],
    "stream": ["--workload", "stream", "--size", "4K", "--total", "64K", "--depth", "8"],
    "pingpong": ["--workload", "pingpong", "--size", "512", "--total", "8K"],
}


def known_leaks(provider: str) -> dict[str, str]:
    """The environment in which the leak sanitizer knows what is the provider's own; see lsan-net.supp."""
    options = os.environ.get("LSAN_OPTIONS", "")
    if not provider.startswith("net"):
        return {}
    return {"LSAN_OPTIONS": options.replace("lsan.supp", "lsan-net.supp")}


PROVIDERS = (TCP, "net;ofi_rxm", SHM, "sockets", "udp;ofi_rxd")


@pytest.mark.parametrize(
    "workload, provider",
    [
        (workload, provider)
        for workload in WORKLOADS
        for provider in PROVIDERS
        if workload != "stress in pieces" or provider in (TCP, SHM)
    ],
)
def test_each_workload_on_each_provider(
    world: World, trace: Path, provider: str, workload: str
) -> None:
    """
    Description: two sessions at level full. The tables are the reference reader's, and the report's
    figures what an independent computation makes of babeltrace2's text.
    """
    words = WORKLOADS[workload]
    put = common(provider, "-n", "2", "-w", *words)
    get = [word for word in put if word != "-g"]  # which only put has
    command = recording(world, trace, get, put, options=["--level", "full"])
    done = world.run(*command, **known_leaks(provider))
    if done.code != 0 and "FI_PROVIDER" in done.err:
        pytest.skip(f"{provider} is not there: {done.err.splitlines()[0]}")
    assert done.code == 0, done.err
    report = world.report(trace)
    check_sums(report, 2, int(report["sessions"][0]["total_bytes"]))
    check_sound(report)
    check_recorder(done, report)
    check_oracle(report, trace)
    check_reader(trace)
    pieces = [row["kind"] for row in report["latency"]["kinds"] if row["kind"] == "fragment"]
    if workload != "stress":  # which may split a buffer or not
        assert bool(pieces) == (workload == "stress in pieces")


def test_losses(world: World, trace: Path) -> None:
    """
    Description: rings that are far too small lose events. What is lost, and every figure of what is left,
    is what an independent computation says; what sessions waited for may be unknown.
    """
    options = common(SHM, "-n", "2", "-w", "--total", str(4 * TOTAL))
    done = world.run(*recording(world, trace, options, options, options=["--buffers", "4Kx2"]))
    assert done.code == 0, done.err
    report = world.report(trace)
    assert (
        report["loss"]["lost_events"] > 0 and f"{report['loss']['lost_events']:,} lost" in done.err
    )
    expected = oracle.recompute(trace)
    for row in (*report["sessions"], *expected["sessions"]):
        shares = row.pop("state_shares")
        assert not shares or sum(shares.values()) == pytest.approx(1)
    oracle.assert_same(report, expected)
    check_reader(trace)


def test_two_puts(world: World, trace: Path) -> None:
    """Three processes, recorded together; peers are found across them."""
    options = common(TCP, "-n", "4", "--total", str(TOTAL))
    put = [*options, "-k", "2"]
    done = world.run(*recording(world, trace, options, put, put))
    assert done.code == 0, done.err
    report = world.report(trace)
    assert len(report["processes"]) == 3
    assert len({row["run_id"] for row in report["processes"]}) == 1
    check_sums(report, 4, TOTAL)
    check_sound(report)
    check_oracle(report, trace)


@pytest.mark.parametrize("level", ["light", "full"])
def test_levels(world: World, trace: Path, level: str) -> None:
    """Sessions and workers are known at every level."""
    options = common(TCP, "-n", "2", "--total", str(TOTAL))
    done = world.run(*recording(world, trace, options, options, options=["--level", level]))
    assert done.code == 0, done.err
    report = world.report(trace)
    assert report["trace"]["level"] == level
    check_sums(report, 2, TOTAL)
    check_sound(report)
    check_oracle(report, trace)


def test_messages_are_told_by_both_ends(world: World, trace: Path) -> None:
    """At level full each vector and each progress message stands twice: sent and taken in."""
    options = common(SHM, "--total", str(TOTAL))
    done = world.run(*recording(world, trace, options, options, options=["--level", "full"]))
    assert done.code == 0, done.err
    text = world.run("babeltrace2", trace).out
    for event, sender in (("vector", "get"), ("progress", "put")):
        told: dict[str, list[str]] = {"tx": [], "rx": []}
        for line in re.findall(rf" fabt:{event}: .*", text):
            found = re.search(r'direction = \( "(tx|rx)".*?number = (.*) \}', line)
            assert found is not None, line
            told[found[1]].append(found[2])
        assert len(told["tx"]) > 10, sender
        assert sorted(told["tx"]) == sorted(told["rx"]), event
    for direction in ("tx", "rx"):
        assert re.search(rf' fabt:control_queue: .*direction = \( "{direction}"', text)


@pytest.mark.parametrize("provider", [TCP, SHM])
def test_expected_cancellation(world: World, trace: Path, provider: str) -> None:
    """
    Description: SIGINT to the recorder reaches both sides, which expect it: exit code 0, a readable
    trace whose operations all have an end, and, as the fixture checks, no process left.
    """
    options = common(provider, "-n", "2", "--total", "1T", "-c")
    process = world.start(*recording(world, trace, options, options, options=SMALL_BUFFERS))
    wait_for_payload(process, trace)
    process.send_signal(signal.SIGINT)
    done = world.finish(process)
    assert done.code == 0, done.err
    report = world.report(trace)
    assert {row["outcome"] for row in report["sessions"]} == {"cancelled"}
    assert [row["exit_code"] for row in report["processes"]] == [0, 0]
    check_sound(report)
    check_oracle(report, trace)


def test_unexpected_cancellation(world: World, trace: Path) -> None:
    """Without -c the programs fail, and so does the recorder; the trace is as good."""
    options = common(TCP, "-n", "2", "--total", "1T")
    process = world.start(*recording(world, trace, options, options, options=SMALL_BUFFERS))
    wait_for_payload(process, trace)
    process.send_signal(signal.SIGINT)
    done = world.finish(process)
    assert done.code == 1, done.err
    report = world.report(trace)
    check_sound(report)
    check_oracle(report, trace)


def test_a_killed_put(world: World, trace: Path) -> None:
    """get ends with an error in time; the trace shows put's operations as open, none as lost."""
    options = common(TCP, "--total", "1T", "--timeout", "10s")
    process = world.start(*recording(world, trace, options, options, options=SMALL_BUFFERS))
    wait_for_payload(process, trace)
    put = next(pid for pid, words in world.leftovers().items() if words.startswith(str(world.put)))
    os.kill(put, signal.SIGKILL)
    done = world.finish(process)
    assert done.code == 1, done.err
    report = world.report(trace)
    assert report["loss"]["lost_events"] == 0
    check_sound(report, unpaired=True)
    check_oracle(report, trace)


def wait_for_payload(process: subprocess.Popen[str], trace: Path) -> None:
    """Return when some sub-buffers have been written: payload flows."""
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if sum(path.stat().st_size for path in trace.rglob("events_*")) >= 2 * SMALL_BUFFER_BYTES:
            return
    pytest.fail(f"no payload flows; exit code {process.poll()}")


def test_a_put_that_fails_at_once(world: World, trace: Path) -> None:
    """The recorder doesn't wait for ever for the get that nobody comes to."""
    get, put = common(TCP), common(TCP, "-n", "none")
    words = recording(world, trace, get, put, options=["--grace", "3"])
    done = world.run(*words)
    assert done.code == 1  # get's, which was cancelled
    assert "fabtput: -n: 'none'" in done.err and "(--grace)" in done.err


def test_a_get_that_fails_at_once(world: World, trace: Path) -> None:
    done = world.run(*recording(world, trace, common(TCP, "-n", "0"), common(TCP)))
    assert done.code == 2
    assert done.complaints[0].startswith("fabtget: -n")
    assert "no address for {address}: fabtget ended with exit code 2" in done.complaints[1]
    assert len(done.complaints) == 2


# ------------------------------------------------------------------------------ the other commands


def test_timeline(world: World, trace: Path) -> None:
    """A line is no longer than a terminal is wide."""
    options = common(SHM, "-n", "2", "--total", str(PATTERN_BYTES))
    assert world.run(*recording(world, trace, options, options)).code == 0
    choices: tuple[list[str], ...] = ([], ["--session", "1"])
    for words in choices:
        done = world.fabtrace("timeline", trace, *words)
        assert done.code == 0 and done.err == ""
        lines = done.out.splitlines()
        assert len(lines) > 10 and max(map(len, lines)) <= 80
        assert "\x1b" not in done.out


def refused(done: Done, code: int, *words: str) -> None:
    """One line that holds the words, and the exit code."""
    assert done.code == code, done.err
    assert len(done.err.splitlines()) == 1 and done.out == "", done.err + done.out
    for word in words:
        assert word in done.err


@pytest.mark.parametrize("command", ["report", "timeline"])
def test_what_is_no_trace(world: World, tmp_path: Path, command: str) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "metadata").write_text("not a trace\n")
    refused(world.fabtrace(command, empty), 1, str(empty))
    refused(world.fabtrace(command, other), 1, str(other))
    refused(world.fabtrace(command, tmp_path / "none"), 1, str(tmp_path / "none"))
    refused(world.fabtrace(command, SOURCE / "LICENSE"), 1, "LICENSE")


def test_no_trace_named(world: World) -> None:
    refused(world.fabtrace("report"), 2)


# ------------------------------------------------------------------------------ installed


def test_installed_copy(world: World, trace: Path, tmp_path: Path) -> None:
    """What `meson install` puts below DESTDIR works from there, and after it was moved."""
    destination = tmp_path / "destination"
    build = world.get.parents[1]
    subprocess.run(
        ["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", destination],
        check=True,
        capture_output=True,
    )
    launcher = next(destination.rglob("bin/fabtrace"))
    prefix = tmp_path / "moved"
    launcher.parents[1].rename(prefix)
    programs = prefix / "bin"
    assert {path.name for path in programs.iterdir()} >= {"fabtget", "fabtput", "fabtrace"}
    options = common(SHM, "--total", str(TOTAL))
    words: list[str | Path] = [programs / "fabtrace", "record", "-o", trace]
    words += [
        "--",
        programs / "fabtget",
        *options,
        "--and",
        programs / "fabtput",
        *options,
        "{address}",
    ]
    done = world.run(*words)
    assert done.code == 0, done.err
    done = world.run(programs / "fabtrace", "report", trace)
    assert done.code == 0 and "put" in done.out
