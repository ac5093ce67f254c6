# SPDX-License-Identifier: BSD-3-Clause
"""The model in bounded memory: equal to the whole one but for percentiles, whose error is bounded."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from conftest import Emitted
from fabtrace.cli import main
from fabtrace.model import build
from fabtrace.model.bounded import build_bounded, numbers, operations
from fabtrace.model.bounded.histogram import ERROR, Histogram
from fabtrace.model.percentiles import nearest_rank
from fabtrace.reader import read
from fabtrace.tables import Table, Tables, make_table
from fabtrace.views.report_document import make_report
from synthetic import GET, PUT, Trace

RUNS = {
    "whole": (),
    "full": ("--full",),
    "killed": ("--kill",),
    "one-sided": ("--one-sided",),
}
PERCENTS = ("50", "90", "99", "99.9", "99.99", "100")


def differences(exact: Any, found: Any, where: str = "") -> list[str]:
    """Where two documents differ by more than a summary may."""
    if isinstance(exact, dict) and isinstance(found, dict):
        if list(exact) != list(found):
            return [f"{where}: {list(exact)} is not {list(found)}"]
        return [d for key in exact for d in differences(exact[key], found[key], f"{where}/{key}")]
    if isinstance(exact, list) and isinstance(found, list) and len(exact) == len(found):
        pairs = enumerate(zip(exact, found))
        return [d for at, pair in pairs for d in differences(*pair, f"{where}/{at}")]
    if where.startswith("/latency/kinds/") and exact is not None:
        bound = ERROR if where.rpartition("/")[2].startswith("p") else 1e-12  # mean: another sum
        if isinstance(exact, float) and abs(exact - found) <= bound * abs(exact):
            return []
    return [] if exact == found else [f"{where}: {exact} is not {found}"]


def compare(tables: Tables, window_events: int) -> dict[str, Any]:
    """The summary of a trace, which is the same as the whole report."""
    exact = make_report(build(tables, align_clocks=False))
    found = make_report(build_bounded(tables, window_events))
    summary = found["summary"]
    assert exact.pop("summary") is None and found.pop("summary")["clocks_compared"] is False
    exact["latency"].pop("percentiles"), found["latency"].pop("percentiles")
    assert differences(exact, found) == []
    return {**found, "summary": summary}


def without_some(tables: Tables, share: float, seed: int) -> Tables:
    """A trace that lost a share of its events at random, single ones and many in a row."""
    random = np.random.default_rng(seed)
    kept = {}
    for event, table in tables.tables.items():
        lost = random.random(len(table)) < share / 2
        for begin in np.flatnonzero(random.random(len(table)) < share / 40).tolist():
            lost[begin : begin + int(random.integers(1, 40))] = True
        kept[event] = table.rows(np.flatnonzero(~lost))
    return replace(tables, tables={event: table for event, table in kept.items() if len(table)})


@pytest.mark.parametrize("loglevel", ["INFO", "DEBUG_PROGRAM", "DEBUG"])
@pytest.mark.parametrize("name", RUNS)
def test_equals_the_whole_report(emitted: Emitted, name: str, loglevel: str) -> None:
    """
    Description: recorded runs of each kind at each level, in windows of some events, of many, of all.
    """
    tables = read(emitted(*RUNS[name], loglevel=loglevel))
    for window in (50, 999, 1_000_000):
        compare(tables, window)


@pytest.mark.parametrize("seed", range(12))
def test_equals_the_whole_report_of_lossy_traces(emitted: Emitted, seed: int) -> None:
    """
    Description: events are taken away at random: gaps, unknown states and unpaired operations, also
    where these reach over windows, are those of the whole report.
    """
    tables = without_some(read(emitted(*(("--kill",) if seed % 3 == 0 else ()))), 0.1, seed)
    found = compare(tables, 300 + 100 * seed)
    assert found["loss"]["lost_events"] and found["pairing"]["unpaired"]
    assert any("unknown" in row["state_shares"] for row in found["sessions"])


def test_a_recording_that_began_later(emitted: Emitted) -> None:
    """
    Description: the first half of the events is not there; sessions and operations of before that are
    what they are in the whole report, and sessions' states at first unknown.
    """
    tables = read(emitted())
    middle = int(np.median(tables["op_post"].times))
    later = {
        event: table.rows(np.flatnonzero(table.times >= middle))
        for event, table in tables.tables.items()
    }
    found = compare(replace(tables, tables={e: t for e, t in later.items() if len(t)}), 200)
    assert any("unknown" in row["state_shares"] for row in found["sessions"])


def test_differences_are_noticed(emitted: Emitted) -> None:
    """A percentile beyond the bound, and any other figure, differ."""
    exact = make_report(build(read(emitted())))
    for place, change in (("p99_us", 1 + 2 * ERROR), ("count", 2), ("max_us", 1 + ERROR)):
        wrong = json.loads(json.dumps(exact))
        wrong["latency"]["kinds"][4][place] *= change
        assert len(differences(exact, wrong)) == 1


def make_samples(kind: str) -> Any:
    """Samples in ns as they occur, and worse."""
    random = np.random.default_rng(7)
    made = {
        "small": random.integers(0, 5000, 10_000),
        "latencies": (random.lognormal(10, 2, 10_000)).astype(np.int64),
        "one": np.array([123_456_789]),
        "negative": random.integers(-(10**9), 10**6, 10_000),
        "edges": np.array([sign * (2**bit + d) for bit in range(2, 62) for d in (-1, 0, 1)
                           for sign in (-1, 1)]),
        "huge": np.full(3, 2**62 + 12345),
    }  # fmt: skip
    return made[kind].astype(np.int64)


@pytest.mark.parametrize("kind", ["small", "latencies", "one", "negative", "edges", "huge"])
def test_histogram_is_within_its_bound(kind: str) -> None:
    """
    Description: percentiles of samples that were added in portions are within the stated error of those
    from the sorted samples; the other figures are exact.
    """
    samples = make_samples(kind)
    histogram = Histogram()
    for portion in np.array_split(samples, 7):
        histogram.add(portion)
    exact = nearest_rank(samples, PERCENTS)
    for want, got in zip(exact, histogram.percentiles(PERCENTS)):
        assert abs(got - want) <= ERROR * abs(want)
    summary = histogram.summary()
    assert (summary.count, summary.max_ns) == (len(samples), int(samples.max()))
    assert summary.mean_ns == pytest.approx(sum(samples.tolist()) / len(samples), rel=1e-12)


def test_histogram_without_samples() -> None:
    """Nothing is known of nothing."""
    assert Histogram().summary().max_ns is None


def long_trace(operations_: int) -> Tables:
    """A made-up session with so many operations, 16 of them in flight."""
    number = np.arange(operations_)
    common = {"writer": np.full(operations_, PUT * 1024 + 1), "seq": number, "op": number + 1}
    trace = Trace()
    trace.process(GET, "get")
    trace.process(PUT, "put")
    tables = trace.tables()
    made: dict[str, Table] = dict(tables.tables)
    for event, shift in (("op_post", 0), ("op_complete", 16_000)):
        made[event] = make_table(event, {"timestamp_ns": 1000 * number + shift, **common})
    return replace(tables, tables=made, declared=frozenset(made))


def test_memory_does_not_grow() -> None:
    """
    Description: a trace of four times the length takes no more memory. (The tables themselves are
    not counted: of a recorded trace they are a mapped file.)
    """
    peaks = []
    for length in (100_000, 400_000):
        tables = long_trace(length)
        tracemalloc.start()
        made = build_bounded(tables, 20_000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert [row.paired for row in made.pairing] == [length]
    assert peaks[1] < 1.1 * peaks[0]


def test_too_many_open_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Description: when more operations are open than are kept the oldest count as unpaired, each end by
    itself, and the summary says how many.
    """
    monkeypatch.setattr(operations, "MOST_OPEN", 8)
    made = build_bounded(long_trace(1000), 100)
    assert made.bounded is not None and made.bounded.forgotten_operations > 0
    (row,) = made.pairing
    assert row.paired + row.posts_without_end == 1000
    assert row.posts_without_end == row.ends_without_post > 0


def test_very_many_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Description: of more gaps than are kept the sums remain, and when the first one was.
    """
    monkeypatch.setattr(numbers, "MOST_RUNS", 10)
    tables = long_trace(1000)
    posts = tables["op_post"]
    lossy = replace(
        tables, tables={**tables.tables, "op_post": posts.rows(np.flatnonzero(posts["seq"] % 3))}
    )
    found = compare(lossy, 50)
    assert found["loss"]["rows"][0]["lost_between"] == 332


def test_numbers_in_any_order() -> None:
    """
    Description: runs of numbers that come in disorder, touch, overlap or repeat give the gaps that are
    left in the end.
    """
    random = np.random.default_rng(3)
    for _ in range(200):
        runs, seen = numbers.Runs(), set()
        for _ in range(int(random.integers(1, 12))):
            low = int(random.integers(0, 60))
            high = low + int(random.integers(0, 9))
            runs.add(np.array([[low, high, low * 10, high * 10]], np.int64))
            seen |= set(range(low, high + 1))
        ordered = sorted(seen)
        gaps = [(a * 10, b * 10, b - a - 1) for a, b in zip(ordered, ordered[1:]) if b > a + 1]
        made = runs.numbers()
        assert (made.first, made.last, made.seen) == (ordered[0], ordered[-1], len(ordered))
        assert [(gap.begin_ns, gap.end_ns, gap.count) for gap in made.gaps] == gaps


def test_command(emitted: Emitted, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Description: the text and the document say what is approximate; a part of the run is refused.
    """
    folder = str(emitted())
    assert main(["report", folder, "--summary"]) == 0
    text = capsys.readouterr().out
    assert "approximate, within 0.05%" in " ".join(text.split()) and "± 0.05%" in text
    assert main(["report", folder, "--summary", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["summary"]["percentile_error"] == ERROR
    assert "within 0.05%" in document["latency"]["percentiles"]
    for part in (
        ["--run", "1"],
        ["--begin", "1ms"],
        ["--session", "0"],
        ["--process", "get"],
        ["--worker", "0"],
    ):
        assert main(["report", folder, "--summary", *part]) == 2
        assert part[0] in capsys.readouterr().err
