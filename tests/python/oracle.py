# SPDX-License-Identifier: BSD-3-Clause
"""An independent calculation of the report, from the plain text of `babeltrace2`.

It shares no code with the analysis: other reader (the text output, parsed with regular expressions),
other methods (dictionaries and loops instead of columns), and its own knowledge of labels, which the
text carries. doc/report.md defines what each column is; this is a second reading of that page.

    assert_same(json.loads(`fabtrace report DIR --json`), recompute(DIR))
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Fields = dict[str, Any]
Row = dict[str, Any]

LISTENING = 0xFFFFFFFF
LEVEL_OF = {"light": 6, "ops": 8, "full": 14}  # LTTng log levels up to which they record

LINE = re.compile(r"^\[(\d+)\.(\d{9})\] (?:\S+ )?fabt:(\w+): (.*)$")
FIELD = re.compile(
    r'(\w+) = (?:\( ("(?:[^"\\]|\\.)*"|<unknown>) : container = (\d+) \)'
    r'|("(?:[^"\\]|\\.)*")|\[([^\]]*(?:\[\d+\][^\]]*)*)\]|(-?(?:0x[0-9A-Fa-f]+|\d+)))'
)
WARNINGS = ("payload_mismatch", "leak", "initial_dropped", "stray_completion")


class Label(str):
    """An enumeration's label with its code."""

    code: int


def parse_fields(text: str) -> Fields:
    """The fields of an event from `{ a = 1, b = "x" }`; sequences are left out."""
    fields: Fields = {}
    for name, label, code, string, _, number in FIELD.findall(text):
        if label:
            fields[name] = Label(label.strip('"'))
            fields[name].code = int(code)
        elif string:
            fields[name] = re.sub(r"\\(.)", r"\1", string[1:-1])
        elif number:
            fields[name] = int(number, 0)
    return fields


def metadata_folders(folder: str | os.PathLike[str]) -> list[str]:
    """The folders that hold a trace."""
    return sorted(where for where, _, files in os.walk(folder) if "metadata" in files)


def events(folder: str | os.PathLike[str]) -> Iterator[tuple[str, int, Fields]]:
    """Name, time in ns and fields of each event, in time order."""
    command = ["babeltrace2", "--clock-seconds", "--no-delta", *metadata_folders(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = LINE.match(line)
            if found is None:
                continue
            seconds, nanoseconds, name, text = found.groups()
            # The payload is the last group in braces; contexts stand before it.
            payload = text[text.index("{ writer = ") :]
            yield name, int(seconds) * 10**9 + int(nanoseconds), parse_fields(payload)
    assert process.returncode == 0, "babeltrace2 failed"


def declared(folder: str | os.PathLike[str]) -> dict[str, int]:
    """The events that the trace's metadata declares, with their log levels."""
    found: dict[str, int] = {}
    for where in metadata_folders(folder):
        text = subprocess.run(
            ["babeltrace2", "-o", "ctf-metadata", where], capture_output=True, text=True, check=True
        ).stdout
        for name, level in re.findall(r'name = "fabt:(\w+)";[^}]*?loglevel = (\d+);', text):
            found[name] = int(level)
    return found


class Side:
    """All that the text says of one session."""

    def __init__(self) -> None:
        self.open: Fields | None = None
        self.start: Fields | None = None
        self.count: Fields = {}
        self.close: Fields | None = None
        self.start_ns: int | None = None
        self.count_ns: int | None = None
        self.close_ns: int | None = None
        self.first_ns: int | None = None
        self.last_ns = 0
        self.local = self.peer = ""
        self.tally: Counter[str] = Counter()
        self.errors = 0
        self.states: list[tuple[int, str, int]] = []
        self.began = False  # its begin is in the trace

    def saw(self, time: int) -> None:
        self.first_ns = time if self.first_ns is None else self.first_ns
        self.last_ns = time


class Story:
    """All that the text says, gathered event by event."""

    def __init__(self) -> None:
        self.number = 0
        self.begin = self.end = 0
        self.spans: dict[int, list[int]] = {}
        self.process: dict[int, Fields] = {}
        self.started: set[int] = set()
        self.run_ids: dict[int, int] = {}  # the first that a process says
        self.process_end: dict[int, Fields] = {}
        self.sides: defaultdict[tuple[int, int], Side] = defaultdict(Side)
        self.worker: dict[tuple[int, int], Fields] = {}
        self.load: dict[tuple[int, int], Fields] = {}
        self.cpus: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self.stats: dict[tuple[int, int], Fields] = {}
        self.moved: Counter[tuple[int, int]] = Counter()
        self.given: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        self.posts: dict[tuple[int, int, int], tuple[int, Fields]] = {}
        self.ends: dict[tuple[int, int, int], tuple[int, str, Fields]] = {}
        self.defers: list[tuple[tuple[int, int, int], str]] = []
        self.seqs: defaultdict[tuple[int, str], dict[int, int]] = defaultdict(dict)
        self.emitted: dict[tuple[int, str], int] = {}
        self.errors: list[tuple[int, int, Fields]] = []
        self.warnings: Counter[str] = Counter()
        self.schema = 0

    def take(self, name: str, time: int, f: Fields) -> None:
        """One event."""
        self.number += 1
        self.begin = self.begin or time
        self.end = time
        instance = f["writer"] // 1024
        self.spans.setdefault(instance, [time, time])[1] = time
        self.seqs[(f["writer"], name)][f["seq"]] = time
        handler = getattr(self, f"on_{name}", None)
        if handler is not None:
            handler(instance, time, f)
        if name in WARNINGS:
            self.warnings[name] += 1

    def side(self, instance: int, time: int, f: Fields) -> Side | None:
        session = f["session"] & 0xFFFFFFFF
        if session == LISTENING:
            return None
        side = self.sides[(instance, session)]
        side.saw(time)
        return side

    def on_process(self, instance: int, time: int, f: Fields) -> None:
        self.process.setdefault(instance, f)
        if f["run_id"]:
            self.run_ids.setdefault(instance, f["run_id"])
        self.schema = max(self.schema, f["schema_version"])
        if f["cause"] == "start":
            self.started.add(instance)

    def on_process_end(self, instance: int, time: int, f: Fields) -> None:
        self.process_end[instance] = f

    def on_worker(self, instance: int, time: int, f: Fields) -> None:
        self.worker[(instance, f["worker"])] = f

    def on_load(self, instance: int, time: int, f: Fields) -> None:
        self.load[(instance, f["worker"])] = f
        self.cpus[(instance, f["worker"])].add(f["cpu"])

    def on_worker_stats(self, instance: int, time: int, f: Fields) -> None:
        self.stats[(instance, f["worker"])] = f

    def on_migrate(self, instance: int, time: int, f: Fields) -> None:
        self.moved[(instance, f["worker"])] += 1
        self.cpus[(instance, f["worker"])] |= {f["from_cpu"], f["to_cpu"]}

    def on_session_open(self, instance: int, time: int, f: Fields) -> None:
        side = self.side(instance, time, f)
        assert side is not None
        side.open = f
        side.began |= f["cause"] == "start"
        self.given[(instance, f["worker"])].add(f["session"])

    def on_session_address(self, instance: int, time: int, f: Fields) -> None:
        if f["session"] >= 0 and f["address_kind"] in ("local", "peer"):
            setattr(self.sides[(instance, f["session"])], f["address_kind"], f["address"])

    def on_session_phase(self, instance: int, time: int, f: Fields) -> None:
        self.side(instance, time, f)

    def on_session_start(self, instance: int, time: int, f: Fields) -> None:
        side = self.side(instance, time, f)
        assert side is not None
        side.start, side.start_ns = f, time

    def on_session_count(self, instance: int, time: int, f: Fields) -> None:
        side = self.side(instance, time, f)
        assert side is not None
        side.count, side.count_ns = f, time

    def on_session_close(self, instance: int, time: int, f: Fields) -> None:
        side = self.side(instance, time, f)
        assert side is not None
        side.close, side.close_ns = f, time

    def on_session_state(self, instance: int, time: int, f: Fields) -> None:
        side = self.side(instance, time, f)
        assert side is not None
        side.states.append((time, str(f["state"]), f["state"].code))

    def on_op_post(self, instance: int, time: int, f: Fields) -> None:
        side = self.side(instance, time, f)
        self.posts[(instance, f["session"], f["op"])] = (time, f)
        if side is not None:
            side.tally["operations"] += 1
            side.tally["writes"] += f["kind"] in ("write", "fragment")

    def on_op_complete(self, instance: int, time: int, f: Fields) -> None:
        side = self.side(instance, time, f)
        self.ends[(instance, f["session"], f["op"])] = (time, "complete", f)
        if side is not None:
            side.tally["operations_completed"] += 1
            side.tally["out_of_order"] += f["earlier_pending"] > 0

    def on_op_abandon(self, instance: int, time: int, f: Fields) -> None:
        self.ends[(instance, f["session"], f["op"])] = (time, "abandon", f)

    def on_op_defer(self, instance: int, time: int, f: Fields) -> None:
        self.defers.append(((instance, f["session"], f["op"]), str(f["kind"])))
        if f["session"] != LISTENING:
            self.sides[(instance, f["session"])].tally["deferred"] += 1

    def on_fragment(self, instance: int, time: int, f: Fields) -> None:
        self.sides[(instance, f["session"])].tally["fragments"] += f["last"] == 0

    def on_emitted(self, instance: int, time: int, f: Fields) -> None:
        self.emitted[(f["writer"], str(f["event"]))] = f["count"]

    def on_error(self, instance: int, time: int, f: Fields) -> None:
        self.errors.append((time, instance, f))
        if f["session"] >= 0:
            self.sides[(instance, f["session"])].errors += 1


def recompute(trace_dir: str | os.PathLike[str]) -> Row:
    """The report of a trace in the shape of `fabtrace report --json`."""
    story = Story()
    for name, time, fields in events(trace_dir):
        story.take(name, time, fields)
    known = declared(trace_dir)
    names = process_names(story)
    sides = {key: side for key, side in story.sides.items() if side.first_ns is not None}
    order = sorted(sides, key=lambda key: (list(names).index(key[0]), key[1]))
    roles = {instance: role_of(story, instance) for instance in names}
    states = "session_state" in known
    sessions = [session_row(story, key, names, roles, sides, states) for key in order]
    runs = run_rows(story, names, sessions)
    number_of = {name: row["run"] for row in runs for name in row["processes"]}
    for row in sessions:
        row["run"] = number_of[row["process"]]
    processes = [process_row(story, i, names) | {"run": number_of[names[i]]} for i in names]
    placed = sorted(
        zip(sessions, [sides[key] for key in order]), key=lambda item: int(item[0]["run"])
    )
    return {
        "schema": "fabtrace.report",
        "version": 1,
        "trace": {
            "schema_version": story.schema or None,
            "level": next(
                level for level, top in LEVEL_OF.items() if max(known.values(), default=0) <= top
            ),
            "events": story.number,
            "begin_ns": story.begin,
            "end_ns": story.end,
            "duration_s": (story.end - story.begin) / 1e9,
        },
        "summary": None,
        "snapshot": None,
        "processes": sorted(processes, key=lambda row: int(row["run"])),
        "runs": runs,
        "clocks": [],  # traces of one clock
        "sessions": [row for row, _ in placed],
        "totals": total_rows(placed),
        "workers": worker_rows(story, names),
        "latency": {"kinds": latency_rows(story)},
        "loss": loss_part(story, names, known),
        "pairing": pairing_part(story, names, known),
        "errors": [
            {
                "process": names[instance],
                "session": None if f["session"] < 0 else f["session"],
                "time_s": (time - story.begin) / 1e9,
                "code": f["code"],
                "text": f["text"],
            }
            for time, instance, f in story.errors
        ],
        "warnings": {name: story.warnings[name] for name in WARNINGS},
    }


def role_of(story: Story, instance: int) -> str:
    return str(story.process[instance]["role"]) if instance in story.process else "unknown"


def process_names(story: Story) -> dict[int, str]:
    """The name of each process instance, in the report's order."""
    ordered = sorted(story.spans, key=lambda i: (role_of(story, i), story.spans[i]))
    number = Counter(role_of(story, i) for i in ordered)
    used: Counter[str] = Counter()
    names = {}
    for instance in ordered:
        role = role_of(story, instance)
        names[instance] = role if number[role] == 1 else f"{role}{used[role]}"
        used[role] += 1
    return names


def process_row(story: Story, instance: int, names: dict[int, str]) -> Row:
    facts = story.process.get(instance, {})
    end = story.process_end.get(instance)
    row = {
        "process": names[instance],
        "role": role_of(story, instance),
        "instance": instance,
        "run_id": f"{run_id_of(story, instance):016x}",
        "begin_s": (story.spans[instance][0] - story.begin) / 1e9,
        "end_s": (story.spans[instance][1] - story.begin) / 1e9,
        "start_recorded": instance in story.started,
        "end_recorded": end is not None,
        "exit_code": end["exit_code"] if end else None,
        "sessions_ok": end["ok"] if end else None,
        "sessions_failed": end["failed"] if end else None,
        "sessions_cancelled": end["cancelled"] if end else None,
        "initials_dropped": end["dropped"] if end else None,
    }
    for name in ("pid", "sessions", "workers"):
        row[name] = facts.get(name, 0)
    for name in (
        "hostname", "provider", "engine_version", "libfabric_version", "command_line"
    ):  # fmt: skip
        row[name] = facts.get(name, "")
    return row


def run_id_of(story: Story, instance: int) -> int:
    """A process's run id: what it said first, or its sessions."""
    said = [
        side.open["run_id"]
        for key, side in story.sides.items()
        if key[0] == instance and side.open and side.open["run_id"]
    ]
    return story.run_ids.get(instance) or (said[0] if said else 0)


def run_rows(story: Story, names: dict[int, str], sessions: list[Row]) -> list[Row]:
    """Processes that share a run id, or sessions, numbered by time."""
    by_name = {name: instance for instance, name in names.items()}
    runs = [{instance} for instance in names]

    def together(a: set[int], b: set[int]) -> bool:
        ids = [{run_id_of(story, instance) for instance in mine} - {0} for mine in (a, b)]
        joined = any(
            row["peer"]
            and by_name[row["process"]] in a
            and by_name[row["peer"].partition(":")[0]] in b
            for row in sessions
        )
        lone = [len(mine) == 1 and not found for mine, found in zip((a, b), ids)]
        return bool(ids[0] & ids[1]) or joined or all(lone)

    merged = True
    while merged:
        merged = False
        for a in runs:
            b = next((b for b in runs if b is not a and (together(a, b) or together(b, a))), None)
            if b is not None:
                a |= b
                runs.remove(b)
                merged = True
                break
    runs.sort(key=lambda mine: min(story.spans[i][0] for i in mine))
    rows = []
    for number, mine in enumerate(runs, start=1):
        ordered = [instance for instance in names if instance in mine]
        ids = Counter(
            side.open["run_id"]
            for key, side in story.sides.items()
            if key[0] in mine and side.open and side.open["run_id"]
        ) or Counter(run_id_of(story, i) for i in ordered)
        rows.append(
            {
                "run": number,
                "run_id": f"{ids.most_common(1)[0][0]:016x}",
                "processes": [names[instance] for instance in ordered],
                "hosts": sorted({story.process.get(i, {}).get("hostname", "") for i in mine}),
                "begin_s": min(story.spans[i][0] - story.begin for i in mine) / 1e9,
                "end_s": max(story.spans[i][1] - story.begin for i in mine) / 1e9,
            }
        )
    return rows


def session_row(
    story: Story,
    key: tuple[int, int],
    names: dict[int, str],
    roles: dict[int, str],
    sides: dict[tuple[int, int], Side],
    recorded: bool,
) -> Row:
    side = sides[key]
    instance, number = key
    opened, closed, count = side.open or {}, side.close, side.count
    elapsed = None
    if closed is not None:
        elapsed = closed["elapsed_ns"]
    elif side.start_ns is not None and side.count_ns is not None:
        elapsed = max(0, side.count_ns - side.start_ns)
    payload = closed["payload_bytes"] if closed else count.get("payload_bytes", 0)
    peers = [
        other
        for other, there in sides.items()
        if side.local and side.peer and (there.local, there.peer) == (side.peer, side.local)
        and other[0] != instance
        # Without `session_open`, or with an older peer, the run is not known: any may be it.
        and len({opened.get("run_id", 0), (there.open or {}).get("run_id", 0)} - {0}) <= 1
    ]  # fmt: skip
    row = {
        "session": f"{names[instance]}:{number}",
        "process": names[instance],
        "number": number,
        "role": roles[instance],
        "worker": opened.get("worker"),
        "peer": f"{names[peers[0][0]]}:{peers[0][1]}" if peers else None,
        "peer_pid": opened.get("peer_pid", 0),
        "workload": str(opened.get("workload", "")),
        "total_bytes": opened.get("total_bytes"),
        "payload_bytes": payload,
        "elapsed_s": None if elapsed is None else elapsed / 1e9,
        "throughput_mib_s": payload / 1048576 / (elapsed / 1e9) if elapsed else None,
        "handshake_us": side.start["handshake_ns"] / 1e3 if side.start else None,
        "errors": side.errors,
        "outcome": str(closed["outcome"]) if closed else "open",
        "reason": closed["reason"] if closed else "",
        "registration_us": count.get("registration_ns", 0) / 1e3,
        "state_shares": state_shares(side, recorded),
    }
    for column, counter in (
        ("operations", "ops_posted"),
        ("operations_completed", "ops_completed"),
        ("writes", "writes"),
        ("fragments", "fragments"),
        ("out_of_order", "out_of_order"),
        ("deferred", "deferred"),
        ("vectors", "vectors"),
        ("progresses", "progresses"),
        ("registrations", "registrations"),
    ):
        row[column] = max(side.tally[column], count.get(counter, 0))
    return row


def state_shares(side: Side, recorded: bool) -> dict[str, float]:
    """Share of each state in the time from the first state (of a session that began before the trace:
    from its first event) to the close."""
    spent: Counter[str] = Counter()
    states = list(side.states)
    if not side.began and recorded:
        states.insert(0, (side.first_ns or 0, "unknown", 255))
    if not states:
        return {}
    final = side.close_ns if side.close_ns is not None else side.last_ns
    for (time, state, _), (until, _, _) in zip(
        states, [*states[1:], (max(final, states[-1][0]), "", 0)]
    ):
        spent[state] += until - time
    whole = sum(spent.values())
    return {state: ns / whole for state, ns in spent.items()} if whole else {}


def total_rows(sessions: list[tuple[Row, Side]]) -> list[Row]:
    rows = []
    for run, role in sorted({(row["run"], row["role"]) for row, _ in sessions}):
        mine = [(row, side) for row, side in sessions if (row["run"], row["role"]) == (run, role)]
        starts, ends = [], []
        for row, side in mine:
            if side.start_ns is not None and row["elapsed_s"] is not None:
                starts.append(side.start_ns)
                ends.append(side.start_ns + round(row["elapsed_s"] * 1e9))
        elapsed = (max(ends) - min(starts)) / 1e9 if starts else None
        total = {
            "run": run,
            "role": role,
            "sessions": len(mine),
            "elapsed_s": elapsed,
            **{
                name: sum(row[name] for row, _ in mine)
                for name in (
                    "payload_bytes", "operations", "writes", "fragments", "out_of_order", "deferred"
                )
            },
        }  # fmt: skip
        total["throughput_mib_s"] = total["payload_bytes"] / 1048576 / elapsed if elapsed else None
        rows.append(total)
    return rows


def worker_rows(story: Story, names: dict[int, str]) -> list[Row]:
    keys = set(story.worker) | set(story.load) | set(story.stats) | set(story.given)
    rows = []
    for key in sorted(keys, key=lambda key: (list(names).index(key[0]), key[1])):
        about, load = story.worker.get(key, {}), story.load.get(key, {})
        busy, idle, asleep = (load.get(f"{n}_ns", 0) for n in ("busy", "idle", "asleep"))
        wall = busy + idle + asleep
        rows.append(
            {
                "process": names[key[0]],
                "worker": key[1],
                "tid": about.get("tid", 0),
                "pinned_cpu": about["pinned_cpu"] if about.get("pinned_cpu", -1) >= 0 else None,
                "cpus": sorted(cpu for cpu in story.cpus[key] if cpu >= 0),
                "wait_mode": str(about.get("wait_mode", "")),
                "sessions": len(story.given[key]),
                "wall_s": wall / 1e9,
                "utilisation": busy / wall if wall else None,
                "idle_share": idle / wall if wall else None,
                "asleep_share": asleep / wall if wall else None,
                "cpu_time_s": load.get("cpu_time_ns", 0) / 1e9,
                "load_average": load["average_fp8"] / 256 if load else None,
                "loops": load.get("loops", 0),
                "contexts": load.get("contexts", 0),
                "migrations": max(story.moved[key], story.stats.get(key, {}).get("migrations", 0)),
            }
        )
    return rows


def latency_rows(story: Story) -> list[Row]:
    """Percentiles by counting how many samples are not greater: no ranks, no interpolation."""
    samples: defaultdict[str, list[int]] = defaultdict(list)
    others: defaultdict[str, Counter[str]] = defaultdict(Counter)
    codes: dict[str, int] = {}
    for key, (time, post) in story.posts.items():
        codes[str(post["kind"])] = post["kind"].code
        if key in story.ends:
            end, how, fields = story.ends[key]
            if how == "complete" and fields["status"] == "ok":
                samples[str(post["kind"])].append(end - (time - post["call_ns"]))
    for _, how, fields in story.ends.values():
        codes[str(fields["kind"])] = fields["kind"].code
        if how == "abandon":
            others[str(fields["kind"])]["abandoned"] += 1
        elif fields["status"] == "error":
            others[str(fields["kind"])]["errors"] += 1
        elif fields["status"] == "cancelled":
            others[str(fields["kind"])]["cancelled"] += 1
    rows = []
    for kind in sorted(codes, key=lambda kind: codes[kind]):
        values = sorted(samples[kind])
        row: Row = {"kind": kind, "count": len(values)}
        for text, numerator, denominator in (
            ("50", 50, 100), ("90", 90, 100), ("99", 99, 100), ("99.9", 999, 1000),
            ("99.99", 9999, 10000),
        ):  # fmt: skip
            # The least sample that at least this share of all samples do not exceed.
            row[f"p{text}_us"] = next(
                (
                    value / 1e3
                    for position, value in enumerate(values, 1)
                    if position * denominator >= numerator * len(values)
                ),
                None,
            )
        row["max_us"] = values[-1] / 1e3 if values else None
        row["mean_us"] = sum(values) / len(values) / 1e3 if values else None
        for name in ("errors", "cancelled", "abandoned"):
            row[name] = others[kind][name]
        rows.append(row)
    return rows


def thread(writer: int) -> str:
    return f"worker {writer % 1024 - 1}" if writer % 1024 else "main"


def loss_part(story: Story, names: dict[int, str], known: dict[str, int]) -> Row:
    order = event_order()
    rows: list[Row] = []
    keys = set(story.seqs) | {key for key in story.emitted if key[1] in known}
    for writer, event in sorted(keys, key=lambda key: (order.index(key[1]), key[0])):
        seen = story.seqs.get((writer, event), {})
        promised = story.emitted.get((writer, event))
        started = writer // 1024 in story.started
        if not seen and not started:
            continue
        present = set(seen)
        low = 0 if started else min(present)
        top = max(present, default=-1)
        missing = [n for n in range(low, max(top + 1, promised or 0)) if n not in present]
        if not missing:
            continue
        at_start = [n for n in missing if present and n < min(present)]
        at_end = [n for n in missing if n > top]
        between = len(missing) - len(at_start) - len(at_end)
        gap = None
        if between:
            first = next(n for n in missing if n not in at_start)
            gap = seen[min(n for n in present if n > first)]
        elif at_start:
            gap = seen[min(present)]
        rows.append(
            {
                "process": names[writer // 1024],
                "thread": thread(writer),
                "event": event,
                "seen": len(present),
                "lost_at_start": len(at_start),
                "lost_between": between,
                "lost_at_end": len(at_end),
                "first_gap_s": None if gap is None else (gap - story.begin) / 1e9,
            }
        )
    closed = {writer for writer, _ in story.emitted}
    unended = sorted({writer for writer, _ in story.seqs} - closed)
    return {
        "overwritten_events": 0,  # only of snapshots
        "lost_events": sum(
            row["lost_at_start"] + row["lost_between"] + row["lost_at_end"] for row in rows
        ),
        "rows": rows,
        "threads_without_end": [
            {"process": names[writer // 1024], "thread": thread(writer)} for writer in unended
        ],
    }


def event_order() -> list[str]:
    """The catalogue's order of events, read from its file."""
    path = Path(__file__).resolve().parents[2] / "tracepoints" / "catalogue.toml"
    with path.open("rb") as file:
        return [event["name"] for event in tomllib.load(file)["events"]]


def pairing_part(story: Story, names: dict[int, str], known: dict[str, int]) -> Row:
    columns = ("paired", "abandoned", "posts_without_end", "ends_without_post", "deferred_for_ever")
    counted: defaultdict[tuple[int, int, str], Counter[str]] = defaultdict(Counter)
    places = list(names)
    codes: dict[str, int] = {}

    def cell(instance: int, kind: Any) -> Counter[str]:
        code = codes.setdefault(str(kind), getattr(kind, "code", -1))
        return counted[(places.index(instance), code, str(kind))]

    for key, (_, post) in story.posts.items():
        into = cell(key[0], post["kind"])
        into["paired" if key in story.ends else "posts_without_end"] += 1
        if key in story.ends and story.ends[key][1] == "abandon":
            into["abandoned"] += 1
    for key, (_, _, fields) in story.ends.items():
        if key not in story.posts:
            cell(key[0], fields["kind"])["ends_without_post"] += 1
    for key, kind in story.defers:
        if key not in story.posts and key not in story.ends:
            cell(key[0], kind)["deferred_for_ever"] += 1
    rows: list[Row] = [
        {"process": names[places[place]], "kind": kind, **{name: found[name] for name in columns}}
        for (place, _, kind), found in sorted(counted.items())
    ]
    totals: Row = {name: sum(row[name] for row in rows) for name in columns}
    return {
        "recorded": any(level > LEVEL_OF["light"] for level in known.values()),
        **totals,
        "unpaired": totals["posts_without_end"] + totals["ends_without_post"],
        "rows": rows,
    }


# What only describes (path, definitions), or is LTTng's own hint and not in the text.
NOT_COMPARED = {"path", "definition", "percentiles", "tracer_reports"}


def differences(report: Any, oracle: Any, where: str = "") -> list[str]:
    """Where two documents differ; floats may differ in the last bits."""
    if isinstance(report, dict) and isinstance(oracle, dict):
        found = []
        for key in sorted((set(report) | set(oracle)) - NOT_COMPARED):
            if key not in report or key not in oracle:
                found.append(f"{where}.{key}: only in {'oracle' if key in oracle else 'report'}")
            else:
                found += differences(report[key], oracle[key], f"{where}.{key}")
        return found
    if isinstance(report, list) and isinstance(oracle, list):
        if len(report) != len(oracle):
            return [f"{where}: {len(report)} rows in the report, {len(oracle)} in the oracle"]
        return [
            text
            for index, (one, other) in enumerate(zip(report, oracle))
            for text in differences(one, other, f"{where}[{index}]")
        ]
    if isinstance(report, float) and isinstance(oracle, (int, float)):
        same = math.isclose(report, oracle, rel_tol=1e-12, abs_tol=1e-15)
    else:
        same = report == oracle and isinstance(report, bool) == isinstance(oracle, bool)
    return [] if same else [f"{where}: report {report!r}, oracle {oracle!r}"]


def assert_same(report: Row, oracle: Row) -> None:
    """Fail with all differences between a report and its recomputation."""
    found = differences(report, oracle)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:40])
