# SPDX-License-Identifier: BSD-3-Clause
"""The timeline of recorded made-up runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Emitted
from test_report import BYTES, fabtrace


def timeline(folder: object, *options: str) -> dict[str, Any]:
    document = json.loads(fabtrace("timeline", str(folder), "--json", *options).stdout)
    assert isinstance(document, dict)
    return document


def test_milestones_tell_the_story_in_order(emitted: Emitted) -> None:
    (one,) = timeline(emitted(), "--session", "1")["timelines"]
    assert one["sessions"] == ["put:1", "get:1"]
    times = [row["time_us"] for row in one["milestones"]]
    assert times == sorted(times) and times[0] == 0
    put = [row["what"] for row in one["milestones"] if row["session"] == "put:1"]
    story = [
        "open", "phase_hello", "first_initial_tx", "first_ack_rx", "start", "first_vector_rx",
        "first_write_posted", "first_write_completed", "first_progress_tx", "first_deferral",
        "last_write_completed", "eof", "first_cancelled", "first_abandoned", "close",
    ]  # fmt: skip
    assert [what for what in put if what in story] == story


@pytest.mark.parametrize("loglevel", ["INFO", "DEBUG_PROGRAM"])
@pytest.mark.parametrize("slices", [1, 7, 100])
def test_slices_add_up(emitted: Emitted, slices: int, loglevel: str) -> None:
    """All payload is in some slice, at each level; shares of states are shares."""
    folder = emitted(loglevel=loglevel)
    (one,) = timeline(folder, "--session", "0", "--slices", str(slices))["timelines"]
    assert len(one["slices"]) == slices
    for end in one["sessions"]:
        rows = [row["ends"][end] for row in one["slices"]]
        assert sum(row["payload_bytes"] for row in rows) == BYTES
        for row in rows:
            assert sum(row["state_shares"].values()) <= 1 + 1e-9
    edges = [(row["begin_us"], row["end_us"]) for row in one["slices"]]
    assert all(before[1] == after[0] for before, after in zip(edges, edges[1:]))


def test_one_end_only(emitted: Emitted) -> None:
    (one,) = timeline(emitted(), "--session", "put:0")["timelines"]
    assert one["sessions"] == ["put:0"] and one["peer"] == "get:0"
    (one,) = timeline(emitted(), "--session", "0", "--process", "4001")["timelines"]
    assert one["sessions"] == ["get:0"]
    (one,) = timeline(emitted("--one-sided"), "--session", "0")["timelines"]
    assert one["sessions"] == ["get:0"] and one["peer"] is None


def test_events_are_all_there_and_can_be_left_out(emitted: Emitted) -> None:
    folder = emitted()
    (whole,) = timeline(folder, "--session", "0", "--events", "--limit", "0")["timelines"]
    rows = whole["events"]["rows"]
    assert whole["events"]["left_out_before"] == whole["events"]["left_out_after"] == 0
    assert [row["time_us"] for row in rows] == sorted(row["time_us"] for row in rows)
    posted = sum(row["event"] == "op_post" and row["session"] == "put:0" for row in rows)
    assert (
        posted == 2 + 4 + 40 * 5
    )  # handshake, receives, and 3 writes, a report, a receive a round
    middle = f"{rows[100]['time_us']}"
    (part,) = timeline(
        folder, "--session", "0", "--events", "--begin", middle, "--limit", "10"
    )["timelines"]  # fmt: skip
    events = part["events"]
    assert events["rows"] == rows[100:110]
    assert (events["left_out_before"], events["left_out_after"]) == (100, len(rows) - 110)


def test_begin_and_end_take_units(emitted: Emitted) -> None:
    folder, words = emitted(), ("--session", "0", "--events", "--limit", "0")
    plain = timeline(folder, *words, "--begin", "100", "--end", "300")
    units = timeline(folder, *words, "--begin", "0.1ms", "--end", "0.0003s")
    assert plain == units and plain["timelines"][0]["events"]["rows"]


def test_overview_has_a_lane_for_each(emitted: Emitted) -> None:
    document = timeline(emitted())
    assert [row["session"] for row in document["sessions"]] == ["get:0", "get:1", "put:0", "put:1"]
    for row in document["sessions"]:
        moved = sum(row["lane_mib_s"]) * document["slice_us"] / 1e6 * 2**20
        assert moved == pytest.approx(BYTES, rel=0.05)
    assert len(document["workers"]) == 2


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--session", "1"),
        ("--session", "get:0"),
        ("--session", "0", "--events", "--limit", "0"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("run", [(), ("--full",), ("--kill",), ("--one-sided",)], ids="".join)
def test_text_fits_80_columns(
    emitted: Emitted, run: tuple[str, ...], words: tuple[str, ...]
) -> None:
    text = fabtrace("timeline", emitted(*run), *words, COLUMNS="200", FORCE_COLOR="1").stdout
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text


def test_text_without_unicode(emitted: Emitted) -> None:
    """Where standard output can only show ASCII, lanes and bars are drawn with that."""
    encoding = "ascii:replace"
    text = fabtrace("timeline", emitted(), PYTHONIOENCODING=encoding).stdout
    lanes = [line for line in text.splitlines() if line.startswith(("get:", "put:"))]
    # How full a slice is depends on how fast the machine is; that something is drawn does not.
    assert len(lanes) == 4 and all(set(lane[9:60]) & set(".:-=+*%#") for lane in lanes)
    assert text.isascii()
    assert not any("?" in lane for lane in lanes)
    text = fabtrace("timeline", emitted(), "--session", "0", PYTHONIOENCODING=encoding).stdout
    assert "#" * 12 in text  # the best slice fills its bar


@pytest.mark.parametrize(
    "words, code, says",
    [
        (("--session", "7"), 1, "there is no such session; the trace has get:0 to get:1"),
        (("--session", "put3:0"), 1, "there is no such session"),
        (("--process", "pot"), 1, "--process pot: not in the trace, which has get (pid 4001)"),
        (("--session", "x:y"), 2, "is no session"),
        (("--session", "0", "--events", "--begin", "soon"), 2, "is no time"),
        (("--session", "0", "--begin", "1"), 2, "need --events"),
        (("--events",), 2, "--events needs --session"),
        (("--slices", "0"), 2, "--slices"),
    ],
)
def test_wrong_words(emitted: Emitted, words: tuple[str, ...], code: int, says: str) -> None:
    done = fabtrace("timeline", emitted(), *words, check=False)
    assert done.returncode == code and says in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
