# SPDX-License-Identifier: BSD-3-Clause
"""The report of recorded made-up runs: each figure recomputed from text, and how it looks."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import oracle
import pytest
from conftest import BUILD, SOURCE, Emitted
from fabtrace.views import report_text
from rich.console import Console

ROUNDS = 40
BYTES = ROUNDS * 3 * 97  # of a session of `emit`

RUNS = {
    "whole": (),
    "full": ("--full",),
    "killed": ("--kill",),
    "one-sided": ("--one-sided",),
}


def fabtrace(
    *words: str | Path, check: bool = True, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "fabtrace", *map(str, words)],
        cwd=SOURCE / "analysis",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "FABT_BUILD": str(BUILD), **extra},
        capture_output=True,
        text=True,
    )
    assert not check or done.returncode == 0, done.stderr
    return done


def report(folder: Path) -> dict[str, Any]:
    document = json.loads(fabtrace("report", folder, "--json").stdout)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("loglevel", ["INFO", "DEBUG_PROGRAM", "DEBUG"])
@pytest.mark.parametrize("name", RUNS)
def test_every_column_is_right(emitted: Emitted, name: str, loglevel: str) -> None:
    """
    Description: each kind of run at each level; the report equals what a second program with nothing
    in common computes from babeltrace2's text.
    """
    folder = emitted(*RUNS[name], loglevel=loglevel)
    oracle.assert_same(report(folder), oracle.recompute(folder))


def test_the_oracle_would_notice(emitted: Emitted) -> None:
    """Any figure that is changed is found."""
    folder = emitted()
    truth = oracle.recompute(folder)
    for path in (
        ("sessions", 0, "payload_bytes"),
        ("sessions", 3, "state_shares", "memory"),
        ("workers", 1, "utilisation"),
        ("latency", "kinds", 4, "p99.9_us"),
        ("pairing", "rows", 0, "paired"),
        ("loss", "lost_events"),
        ("processes", 0, "exit_code"),
    ):
        wrong = report(folder)
        place: Any = wrong
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] += 1
        with pytest.raises(AssertionError, match="1 differences"):
            oracle.assert_same(wrong, truth)


def test_known_figures(emitted: Emitted) -> None:
    """What `emit` is known to do, not only what two programs agree on."""
    document = report(emitted())
    assert [row["session"] for row in document["sessions"]] == ["get:0", "get:1", "put:0", "put:1"]
    assert [row["peer"] for row in document["sessions"]] == ["put:0", "put:1", "get:0", "get:1"]
    assert {row["payload_bytes"] for row in document["sessions"]} == {BYTES}
    assert [row["payload_bytes"] for row in document["totals"]] == [2 * BYTES, 2 * BYTES]
    split = document["sessions"][3]
    assert (split["writes"], split["fragments"], split["deferred"]) == (4 * ROUNDS, ROUNDS, 1)
    assert split["out_of_order"] == ROUNDS
    assert [round(row["utilisation"], 3) for row in document["workers"]] == [0.305, 0.695]
    pairing = document["pairing"]
    assert (pairing["unpaired"], pairing["abandoned"]) == (0, 8)
    assert document["loss"]["lost_events"] == 0


def test_a_killed_run(emitted: Emitted) -> None:
    document = report(emitted("--kill"))
    assert {row["outcome"] for row in document["sessions"]} == {"open"}
    assert {row["end_recorded"] for row in document["processes"]} == {False}
    assert document["loss"]["lost_events"] == 0
    assert len(document["loss"]["threads_without_end"]) == 4
    assert document["pairing"]["posts_without_end"] == 17


def test_level_light_is_enough_for_sessions_and_workers(emitted: Emitted) -> None:
    light, full = report(emitted(loglevel="INFO")), report(emitted())
    assert light["trace"]["level"] == "light" and full["trace"]["level"] == "full"
    assert light["latency"]["kinds"] == [] and not light["pairing"]["recorded"]
    same = (
        "payload_bytes",
        "operations",
        "writes",
        "fragments",
        "out_of_order",
        "deferred",
        "outcome",
    )
    for one, other in zip(light["sessions"], full["sessions"]):
        assert {name: one[name] for name in same} == {name: other[name] for name in same}
    for one, other in zip(light["workers"], full["workers"]):
        assert one["utilisation"] == other["utilisation"] is not None


@pytest.mark.parametrize("name", RUNS)
def test_text_fits_80_columns_and_is_plain(emitted: Emitted, name: str) -> None:
    text = fabtrace("report", emitted(*RUNS[name]), COLUMNS="200", FORCE_COLOR="1").stdout
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in text and all(line == line.rstrip() for line in lines)
    assert re.search(r"^get:0 +(put:0|-|pid 4002) +0 ", text, re.MULTILINE)


def three_digits(value: float) -> str:
    """How the text shows a throughput below 1000."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def test_text_says_what_the_document_says(emitted: Emitted) -> None:
    """A session's line has the document's figures in the order of the header."""
    folder = emitted()
    document, text = report(folder), fabtrace("report", folder).stdout
    row = document["sessions"][3]
    line = next(line for line in text.splitlines() if line.startswith("put:1 "))
    assert line.split() == [
        "put:1", "get:1", "0", f"{BYTES:,}", f"{row['elapsed_s']:.3f}",
        three_digits(row["throughput_mib_s"]), str(row["operations"]), "160", "40", "40", "1", "ok",
    ]  # fmt: skip
    assert "Lost events: none" in text
    assert "unpaired: none" in text


def test_writes_of_sessions_are_those_of_the_latency_table(emitted: Emitted) -> None:
    """Whole buffers and pieces together; a buffer in k pieces was split k - 1 times. The text says so."""
    folder = emitted()
    document, text = report(folder), fabtrace("report", folder).stdout
    counts = {row["kind"]: row["count"] for row in document["latency"]["kinds"]}
    posted = sum(row["writes"] for row in document["sessions"])
    assert counts["write"] + counts["fragment"] == posted and counts["fragment"] > 0
    (pieces,) = json.loads(fabtrace("fragments", folder, "--json").stdout)["sessions"]
    splits = sum(row["fragments"] for row in document["sessions"])
    assert splits == pieces["pieces"] - pieces["buffers_split"] == ROUNDS
    assert "fragment: a write that carries a piece" in text and " splits " in text


def test_no_figure_is_cut() -> None:
    """Latencies of many seconds still stand in full in 80 columns."""
    row = {"kind": "initial_rx", "count": 123456, "errors": 0, "cancelled": 256, "abandoned": 0}
    figures = {name: 1258901.25 * (1 + i) for i, name in enumerate(report_text.PERCENT_KEYS)}
    out = io.StringIO()
    console = Console(file=out, width=80)
    document = {
        "latency": {"kinds": [{**row, **figures}]},
        "trace": {"level": "ops"},
        "runs": [],
        "summary": None,
    }
    report_text.print_latency(console, document)
    assert "…" not in out.getvalue()
    for value in figures.values():
        assert f"{value:.0f}" in out.getvalue().replace(",", "")
    assert "256 cancelled" in out.getvalue()


@pytest.mark.parametrize(
    "words, says",
    [
        ((), "required: COMMAND"),
        (("repord", "x"), "repord"),
        (("report",), "required: DIR"),
        (("report", "x", "--width", "20"), "--width: '20' is no number from 80 to 1000"),
        (("report", "x", "y"), "y"),
    ],
)
def test_wrong_words(words: tuple[str, ...], says: str) -> None:
    """Usage errors: one line that names the word and where to read on, and exit code 2."""
    done = fabtrace(*words, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert says in done.stderr and "--help" in done.stderr and done.stderr.count("\n") == 1


def test_output_that_can_not_be_written(emitted: Emitted) -> None:
    """A full disk behind standard output is one line and a failure, also when Python flushes last."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fabtrace", "report", emitted()],
            cwd=SOURCE / "analysis",
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == "fabtrace: No space left on device\n"


def test_the_reader_of_our_output_may_go_away(emitted: Emitted) -> None:
    """`fabtrace report | head -1` is no error."""
    done = subprocess.run(
        f"{sys.executable} -m fabtrace timeline {emitted('--full')} --session 0 --events --limit 0 | head -1",
        shell=True,
        cwd=SOURCE / "analysis",
        capture_output=True,
        text=True,
    )
    assert done.stderr == "" and done.stdout.count("\n") == 1
