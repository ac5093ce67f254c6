# SPDX-License-Identifier: BSD-3-Clause
"""Timelines as text, never wider than the console."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from fabtrace.views import form
from fabtrace.views.events import describe

Row = dict[str, Any]

BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:-=+*%#"
EIGHTHS = " ▏▎▍▌▋▊▉█"
BAR = 12


def unicode_possible() -> bool:
    """Whether standard output can show block characters."""
    try:
        (BLOCKS + EIGHTHS).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# --------------------------------------------------------------------------------- overview


def print_overview(console: Console, overview: Row) -> None:
    """A lane a session, a lane a worker."""
    duration_ns = overview["end_ns"] - overview["begin_ns"]
    form.show(
        console,
        Text(
            f"{overview['trace']['path']}: {form.seconds(duration_ns / 1e9)} s, "
            f"a column is {time_text(overview['slice_us'], overview['slice_us'])}",
            style="bold",
        ),
    )
    if not overview["sessions"]:
        form.show(console, "No session in the trace.")
    lanes = [value for row in overview["sessions"] for value in row["lane_mib_s"]]
    top = max(lanes, default=0.0)
    if overview["sessions"]:
        form.heading(console, f"Throughput of sessions (full height: {form.rate(top)} MiB/s)")
        form.show(console, Text(lane_header("session", "MiB/s  end", console.width), style="bold"))
    for row in overview["sessions"]:
        lane = draw_lane(row["lane_mib_s"], top)
        line = (
            f"{row['session']:<9} {lane} {form.rate(row['throughput_mib_s']):>6} {row['outcome']}"
        )
        form.show(console, line, cut=True)
    if overview["workers"]:
        form.heading(console, "Utilisation of workers (full height: busy all the time)")
        form.show(console, Text(lane_header("worker", "busy", console.width), style="bold"))
    for row in overview["workers"]:
        lane = draw_lane([value or 0.0 for value in row["lane_utilisation"]], 1.0)
        busy = form.percent(row["utilisation"]) + " %"
        line = f"{row['process'] + '/' + str(row['worker']):<9} {lane} {busy:>8}"
        form.show(console, line, cut=True)
    if overview["sessions"]:
        form.show(console)
        form.show(console, f"More: --session {overview['sessions'][0]['session'].split(':')[1]}")


def lane_header(name: str, right: str, width: int) -> str:
    """The line above lanes."""
    return f"{name:<9} {'':<{width - 26}} {right}"


def draw_lane(values: list[float], top: float) -> str:
    """A character a value; anything above nothing shows at least the lowest block."""
    blocks = BLOCKS if unicode_possible() else ASCII_BLOCKS
    steps = len(blocks) - 1
    lane = ""
    for value in values:
        level = 0 if value <= 0 or top <= 0 else max(1, min(steps, round(value / top * steps)))
        lane += blocks[level]
    return lane


# --------------------------------------------------------------------------------- sessions


def print_timelines(console: Console, document: Row) -> None:
    """Each timeline: milestones, slices, and events if they were asked for."""
    for number, timeline in enumerate(document["timelines"]):
        if number:
            form.show(console)
        print_title(console, timeline)
        print_milestones(console, timeline)
        print_slices(console, timeline, document["trace"]["level"])
        if "events" in timeline:
            print_events(console, timeline)


def print_title(console: Console, timeline: Row) -> None:
    """Which session, how long, and where its zero is."""
    duration_us = (timeline["end_ns"] - timeline["begin_ns"]) / 1e3
    ends = " and ".join(timeline["sessions"])
    if len(timeline["sessions"]) == 1:
        peer = timeline["peer"]
        ends += f" (peer {peer})" if peer else " (its peer is not in the trace)"
    begin = form.seconds(timeline["begin_in_trace_s"])
    form.show(
        console,
        Text(f"Session {ends}: {time_text(duration_us, duration_us)}", style="bold"),
    )
    form.show(console, f"Time 0 is {begin} s after the first event of the trace.")


def print_milestones(console: Console, timeline: Row) -> None:
    """The moments that tell the story."""
    form.heading(console, "Milestones")
    table = form.make_table("µs", "end", "what", left=("end", "what"))
    table.columns[2].no_wrap = False
    table.columns[2].overflow = "fold"
    for row in timeline["milestones"]:
        bad = row["what"] in ("error", "payload_mismatch", "leak", "stray_completion")
        style = "red" if bad else ""
        table.add_row(f"{row['time_us']:,.1f}", row["session"], Text(row["text"], style=style))
    form.show(console, table)


def print_slices(console: Console, timeline: Row, level: str) -> None:
    """A line a slice: throughput as number and bar, in flight, what the ends waited for."""
    slices, ends = timeline["slices"], timeline["sessions"]
    main = ends[0]
    top = max(row["ends"][main]["throughput_mib_s"] for row in slices)
    writes = "writes" if main.startswith("put") else "offers"
    form.heading(
        console, f"Slices: payload of {main}; mean {writes} in flight; waits, % of the slice"
    )
    unit, scale, digits = slice_unit(slices[-1]["end_us"])
    # Two blanks before each end's waits: their words have blanks, too.
    room = (console.width - (9 + 1 + 7 + 1 + BAR + 1 + 6)) // len(ends) - 2
    header = f"{'from ' + unit:>9} {'MiB/s':>7} {'':<{BAR}} {'flight':>6}"
    for end in ends:
        header += f"  {(end + ' waits for')[:room]:<{room}}"
    form.show(console, Text(header.rstrip()[: console.width], style="bold"))
    for row in slices:
        shown = row["ends"][main]
        flight = "-" if shown["in_flight"] is None else f"{shown['in_flight']:,.1f}"
        line = (
            f"{row['begin_us'] / scale:>9,.{digits}f} {form.rate(shown['throughput_mib_s']):>7} "
            f"{draw_bar(shown['throughput_mib_s'], top):<{BAR}} {flight:>6}"
        )
        for end in ends:
            waits = fitting_shares(row["ends"][end]["state_shares"], room)
            line += f"  {waits:<{room}}"
        form.show(console, Text(line.rstrip()[: console.width]))
    if level == "light":
        form.show(console, "In flight and waits are not recorded at level light.")


def draw_bar(value: float, top: float) -> str:
    """A bar of up to BAR columns."""
    if top <= 0 or value <= 0:
        return ""
    if not unicode_possible():
        return "#" * max(1, round(value / top * BAR))
    eighths = max(1, round(value / top * BAR * 8))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def fitting_shares(parts: dict[str, float], room: int) -> str:
    """As many of the largest parts as fit."""
    text = ""
    for most in range(1, len(parts) + 1):
        longer = form.shares(parts, most)
        if len(longer) > room:
            break
        text = longer
    return text


def slice_unit(end_us: float) -> tuple[str, float, int]:
    """Unit for the times of slices, its length in µs, digits behind the point."""
    if end_us < 100_000:
        return "µs", 1.0, 1
    return ("ms", 1e3, 1) if end_us < 100_000_000 else ("s", 1e6, 2)


def time_text(value_us: float, scale_us: float) -> str:
    """A time in a unit that suits the scale."""
    if scale_us < 1e3:
        return f"{value_us:.3g} µs"
    return f"{value_us / 1e3:.3g} ms" if scale_us < 1e6 else f"{value_us / 1e6:,.3f} s"


def print_events(console: Console, timeline: Row) -> None:
    """One event a line, cut at the right margin (--json has them whole)."""
    events = timeline["events"]
    form.heading(console, "Events (µs)")
    if events["left_out_before"]:
        form.show(console, f"{events['left_out_before']:,} events before --begin are left out")
    for row in events["rows"]:
        line = f"{row['time_us']:>14,.3f} {row['session']:<6} {row['event']:<13} {describe(row)}"
        form.show(console, Text(line), cut=True)
    if events["left_out_after"]:
        form.show(
            console,
            f"{events['left_out_after']:,} later events are left out; "
            f"see --begin, --end and --limit (0: all)",
        )
