# SPDX-License-Identifier: BSD-3-Clause
"""The report as text: a table a question, at least 80 columns wide, plain without a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fabtrace import catalogue
from fabtrace.snapshot import clock_time
from fabtrace.views import form

Row = dict[str, Any]

MOST_ERRORS = 10
PERCENT_KEYS = ("p50_us", "p90_us", "p99_us", "p99.9_us", "max_us")


def print_report(console: Console, report: Row) -> None:
    """Print a report document."""
    print_processes(console, report)
    print_runs(console, report)
    print_clocks(console, report)
    print_sessions(console, report)
    print_waits(console, report)
    print_workers(console, report)
    print_latency(console, report)
    print_trouble(console, report)
    print_completeness(console, report)


def print_processes(console: Console, report: Row) -> None:
    """Who took part."""
    trace = report["trace"]
    form.show(
        console,
        Text(
            f"{trace['path']}: {form.count(trace['events'])} events in "
            f"{form.seconds(trace['duration_s'])} s, level {trace['level']}",
            style="bold",
        ),
    )
    print_summary(console, report["summary"])
    print_snapshot(console, report["snapshot"])
    form.heading(console, "Processes (s: since the first event)")
    several = len(report["runs"]) > 1
    table = form.make_table(
        *(["run"] if several else []),
        "process", "pid", "provider", "libfabric", "host", "wk", "sessions", "from s", "to s", "exit",
        left=("process", "provider", "host"),
    )  # fmt: skip
    for row in report["processes"]:
        exit_code = "not seen" if row["exit_code"] is None else str(row["exit_code"])
        table.add_row(
            *([str(row["run"])] if several else []),
            row["process"], str(row["pid"] or form.UNKNOWN), row["provider"] or form.UNKNOWN,
            row["libfabric_version"], row["hostname"],
            form.count(row["workers"]), form.count(row["sessions"]), form.seconds(row["begin_s"]),
            form.seconds(row["end_s"]), exit_code,
        )  # fmt: skip
    form.show(console, table)
    for row in report["processes"]:
        if row["command_line"]:
            line = Text(f"{row['process']}: {row['command_line']}", style="dim")
            form.show(console, line, cut=True)


def print_summary(console: Console, summary: Row | None) -> None:
    """What is not exact in a summary."""
    if summary is None:
        return
    text = (
        "A summary in bounded memory: percentiles of latencies are approximate, within "
        f"{summary['percentile_error']:.2%}; all else is exact, by each host's own clock."
    )
    if summary["operations_forgotten"]:
        text += (
            f" Too many operations were open at a time: the {form.count(summary['operations_forgotten'])}"
            " oldest count as unpaired."
        )
    form.paragraph(console, text)


def print_snapshot(console: Console, snapshot: Row | None) -> None:
    """What a flight recorder's snapshot covers."""
    if snapshot is None:
        return
    begin, complete, end = (snapshot[key] for key in ("begin_ns", "complete_from_ns", "end_ns"))
    whole, everywhere = (form.seconds((end - since) / 1e9) for since in (begin, complete))
    text = (
        f"A flight recorder's snapshot ({snapshot['cause']}): the last {whole} s before"
        f" {clock_time(end)}"
    )
    if complete > begin:
        text += (
            f"; of all processors the last {everywhere} s, what is missing before that"
            " was overwritten"
        )
    form.show(console, text)


def print_runs(console: Console, report: Row) -> None:
    """Which processes ran together, if there are several runs."""
    if len(report["runs"]) < 2:
        return
    form.heading(console, f"{len(report['runs'])} runs are in this trace; --run N shows one alone")
    table = form.make_table(
        "run", "run id", "from s", "to s", "processes", left=("run id", "processes")
    )
    table.columns[4].no_wrap, table.columns[4].overflow = False, "fold"
    for row in report["runs"]:
        known = row["run_id"].strip("0")
        table.add_row(
            str(row["run"]), row["run_id"] if known else "not known", form.seconds(row["begin_s"]),
            form.seconds(row["end_s"]), ", ".join(row["processes"]),
        )  # fmt: skip
    form.show(console, table)


def print_clocks(console: Console, report: Row) -> None:
    """How clocks were found to differ."""
    if not report["clocks"]:
        return
    form.heading(console, "Clocks (offset at the first message; the truth is within ± bound)")
    table = form.make_table(
        "clock", "against", "offset µs", "drift ppm", "± µs", "messages", "taken out",
        left=("clock", "against", "taken out"),
    )  # fmt: skip
    for row in report["clocks"]:
        number = row["messages_to_clock"] + row["messages_from_clock"]
        offset, drift = row["offset_us"], row["drift_ppm"]
        table.add_row(
            row["clock"], row["against"], form.UNKNOWN if offset is None else f"{offset:,.1f}",
            form.UNKNOWN if drift is None else f"{drift:.2f}", form.micros(row["bound_us"]),
            form.count(number), "yes" if row["applied"] else "no",
        )  # fmt: skip
    form.show(console, table)


def print_sessions(console: Console, report: Row) -> None:
    """What each session did, and the totals of each role."""
    if not report["sessions"]:
        form.heading(console, "Sessions: none")
        return
    form.heading(console, "Sessions")
    tables = [session_table(report, shortened) for shortened in ("", "counts", "bytes")]
    form.print_fitting(console, *tables)
    if any(row["fragments"] for row in report["sessions"]):
        form.show(
            console, Text("splits: a payload buffer sent in k pieces was split k - 1 times", "dim")
        )
    for row in report["sessions"]:
        if row["reason"]:
            form.show(
                console, Text(f"{row['session']} {row['outcome']}: {row['reason']}", style="red")
            )


def session_table(report: Row, shortened: str) -> Table:
    """The sessions; `shortened` shows large numbers in three digits: "counts", or those and "bytes"."""
    table = form.make_table(
        "session", "peer", "wk", "bytes", "s", "MiB/s", "ops", "writes", "splits", "ooo", "defer",
        "end", left=("session", "peer", "end"),
    )  # fmt: skip
    totals = {(row["run"], row["role"]): row for row in report["totals"]}
    rows = report["sessions"]
    groups = [(row["run"], row["role"]) for row in rows]
    for group, following, row in zip(groups, [*groups[1:], None], rows):
        peer = row["peer"] or (f"pid {row['peer_pid']}" if row["peer_pid"] else form.UNKNOWN)
        worker = form.UNKNOWN if row["worker"] is None else str(row["worker"])
        table.add_row(row["session"], peer, worker, *figures(row, shortened), row["outcome"])
        if following != group:
            name = (
                f"run {row['run']} {row['role']}"
                if len(report["runs"]) > 1
                else f"all {row['role']}"
            )
            table.add_row(name, "", "", *figures(totals[group], shortened), "", style="bold")
    return table


def figures(row: Row, shortened: str) -> list[str]:
    """The numbers that a session and a total have in common."""
    compact = shortened != ""
    large = shortened == "bytes" or (compact and row["payload_bytes"] >= 10**10)
    return [
        form.count(row["payload_bytes"], large),
        form.seconds(row["elapsed_s"]),
        form.rate(row["throughput_mib_s"]),
        *(
            form.count(row[name], compact)
            for name in ("operations", "writes", "fragments", "out_of_order", "deferred")
        ),
    ]


def print_waits(console: Console, report: Row) -> None:
    """What the time of sessions went to."""
    rows = [row for row in report["sessions"] if row["state_shares"]]
    if not rows:
        return
    form.heading(console, "What sessions waited for (% of the session's time)")
    names = [
        name
        for name in (*catalogue.load().enums["state"], "unknown")
        if any(row["state_shares"].get(name, 0) >= 0.0005 for row in rows)
    ]
    table = form.make_table("session", *names, left=("session",))
    short = form.make_table("session", "waited for", left=("session", "waited for"))
    for row in rows:
        shares = row["state_shares"]
        table.add_row(row["session"], *(form.percent(shares.get(name, 0.0)) for name in names))
        short.add_row(row["session"], form.shares(shares, most=5))
    form.print_fitting(console, table, short)


def print_workers(console: Console, report: Row) -> None:
    """What the workers' time went to."""
    if not report["workers"]:
        return
    form.heading(console, "Workers (util: busy share of wall time; load: mean contexts a loop)")
    form.show(console, worker_table(report["workers"]))
    if any(row["wait_mode"] == "poll_fallback" for row in report["workers"]):
        form.show(console, Text("poll*: the provider has no wait descriptor", style="dim"))


def worker_table(rows: list[Row]) -> Table:
    """A row a worker."""
    table = form.make_table(
        "process", "wk", "tid", "pin", "CPU", "wait", "sessions", "wall s", "util", "idle", "asleep",
        "load", "migr", left=("process", "CPU", "wait"),
    )  # fmt: skip
    for row in rows:
        pinned = form.UNKNOWN if row["pinned_cpu"] is None else str(row["pinned_cpu"])
        average = row["load_average"]
        table.add_row(
            row["process"], str(row["worker"]), str(row["tid"]), pinned,
            form.cpu_list(row["cpus"]), row["wait_mode"].replace("_fallback", "*"),
            form.count(row["sessions"]), form.seconds(row["wall_s"]),
            share(row["utilisation"]), share(row["idle_share"]), share(row["asleep_share"]),
            form.UNKNOWN if average is None else f"{average:,.2f}", form.count(row["migrations"]),
        )  # fmt: skip
    return table


def share(value: float | None) -> str:
    """A share of 0 to 1."""
    return form.UNKNOWN if value is None else f"{value:.3f}"


def print_latency(console: Console, report: Row) -> None:
    """How long operations took."""
    kinds = report["latency"]["kinds"]
    if not kinds:
        if report["trace"]["level"] == "light":
            form.show(console)
            form.show(console, "Latency: not recorded at level light; ops and full have it")
        return
    runs = ", all runs together" if len(report["runs"]) > 1 else ""
    summary = report["summary"]
    within = f"; percentiles ± {summary['percentile_error']:.2%}" if summary else ""
    form.heading(console, f"Latency in µs, from the posting call to the completion{runs}{within}")
    form.print_fitting(console, latency_table(kinds, False), latency_table(kinds, True))
    print_kinds(console, kinds)


def print_kinds(console: Console, rows: list[Row]) -> None:
    """What the kinds of writes are, if there are both."""
    if any(row["kind"] == "fragment" for row in rows):
        text = (
            "fragment: a write that carries a piece of a split buffer; write: one of whole buffers"
        )
        form.show(console, Text(text, style="dim"))


def latency_table(kinds: list[Row], compact: bool) -> Table:
    """A row a kind of operation; `compact` takes less room for the same figures."""
    table = form.make_table(
        "operation", "count", "p50", "p90", "p99", "p99.9", "max", "not ok",
        left=("operation", "not ok"),
    )  # fmt: skip
    for row in kinds:
        other = [
            f"{form.count(row[name])} {name}"
            for name in ("errors", "cancelled", "abandoned")
            if row[name]
        ]
        table.add_row(
            row["kind"], form.count(row["count"], compact),
            *(form.micros(row[k], compact) for k in PERCENT_KEYS), ", ".join(other),
        )  # fmt: skip
    return table


def print_trouble(console: Console, report: Row) -> None:
    """Errors and warnings, if there were any."""
    errors, warnings = report["errors"], {k: v for k, v in report["warnings"].items() if v}
    if not errors and not warnings:
        return
    form.heading(console, "Errors and warnings")
    for row in errors[:MOST_ERRORS]:
        who = row["process"] if row["session"] is None else f"{row['process']}:{row['session']}"
        form.show(console, Text(f"{row['time_s']:,.6f} s {who}: {row['text']}", style="red"))
    if len(errors) > MOST_ERRORS:
        form.show(console, f"and {len(errors) - MOST_ERRORS:,} more errors (--json has all)")
    for name, number in warnings.items():
        form.show(console, f"{name}: {number:,}")


def print_completeness(console: Console, report: Row) -> None:
    """Whether one can rely on the figures: what is missing in the trace."""
    form.heading(console, "Is the trace complete?")
    print_loss(console, report["loss"])
    print_pairing(console, report["pairing"])


def print_loss(console: Console, loss: Row) -> None:
    """Lost events."""
    if not loss["rows"]:
        form.show(console, "Lost events: none")
    else:
        overwritten = loss["overwritten_events"]
        more = f" (and {form.count(overwritten)} overwritten)" if overwritten else ""
        form.show(console, f"Lost events: {form.count(loss['lost_events'])}{more}")
        table = form.make_table(
            "process", "thread", "event", "seen", "lost: start", "between", "end", "first gap s",
            left=("process", "thread", "event"),
        )  # fmt: skip
        for row in loss["rows"]:
            table.add_row(
                row["process"], row["thread"], row["event"], form.count(row["seen"]),
                form.count(row["lost_at_start"]), form.count(row["lost_between"]),
                form.count(row["lost_at_end"]), form.seconds(row["first_gap_s"]),
            )  # fmt: skip
        form.show(console, table)
    unended = loss["threads_without_end"]
    if unended:
        names = ", ".join(f"{row['process']} {row['thread']}" for row in unended)
        form.show(
            console,
            f"Threads whose end is not in the trace (killed, or still running): {names}; "
            f"what they lost last cannot be known",
        )
    if loss["tracer_reports"]:
        form.show(
            console,
            f"LTTng reported discarded events {len(loss['tracer_reports']):,} times "
            f"(a hint: its counts are not exact)",
        )


def print_pairing(console: Console, pairing: Row) -> None:
    """Operations without their partner event."""
    if not pairing["recorded"]:
        return
    rows = [
        row
        for row in pairing["rows"]
        if row["posts_without_end"] or row["ends_without_post"] or row["deferred_for_ever"]
    ]
    abandoned = pairing["abandoned"]
    form.show(
        console,
        f"Operations: {form.count(pairing['paired'])} posts with their end"
        + (f" ({form.count(abandoned)} abandoned at a close)" if abandoned else "")
        + ("; unpaired: none" if not rows else f"; unpaired: {form.count(pairing['unpaired'])}"),
    )
    if not rows:
        return
    table = form.make_table(
        "process", "operation", "post without end", "end without post", "deferred for ever",
        left=("process", "operation"),
    )  # fmt: skip
    for row in rows:
        table.add_row(
            row["process"], row["kind"], form.count(row["posts_without_end"]),
            form.count(row["ends_without_post"]), form.count(row["deferred_for_ever"]),
        )  # fmt: skip
    form.show(console, table)
