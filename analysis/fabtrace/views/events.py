# SPDX-License-Identifier: BSD-3-Clause
"""The single events of some sessions, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fabtrace import catalogue
from fabtrace.model import Run
from fabtrace.model.keys import session_keys
from fabtrace.model.sessions import Session
from fabtrace.tables import Table

HIDDEN = ("writer", "seq", "session")


@dataclass(frozen=True)
class Window:
    """Which events to show: from begin to end, ns since the Unix epoch, and how many (0: all)."""

    begin_ns: int
    end_ns: int
    limit: int


@dataclass(frozen=True)
class Listing:
    """The events that were chosen, and how many were not."""

    rows: list[dict[str, Any]]
    before: int
    after: int


def list_events(run: Run, sessions: Sequence[Session], zero_ns: int, window: Window) -> Listing:
    """The events of some sessions in time order. Times of the rows are µs since `zero_ns`."""
    labels = {session.key: session.label for session in sessions}
    tables: list[Table] = []
    times, keys, which, rows = [], [], [], []
    for event, table in run.tables.tables.items():
        if not any(item.name == "session" for item in catalogue.load().events[event].fields):
            continue
        table_keys = session_keys(table)
        mine = np.flatnonzero(np.isin(table_keys, list(labels)))
        times.append(table.times[mine])
        keys.append(table_keys[mine])
        which.append(np.full(len(mine), len(tables)))
        rows.append(mine)
        tables.append(table)
    if not tables:
        return Listing([], 0, 0)
    time, key, table_of, row = map(np.concatenate, (times, keys, which, rows))
    order = np.argsort(time, kind="stable")
    low = int(np.searchsorted(time[order], window.begin_ns, side="left"))
    high = int(np.searchsorted(time[order], window.end_ns, side="right"))
    if window.limit:
        high = min(high, low + window.limit)
    chosen = order[low : max(low, high)]
    listed = [
        {
            "time_us": (int(time[i]) - zero_ns) / 1e3,
            "session": labels[int(key[i])],
            "event": tables[table_of[i]].event,
            "fields": fields(tables[table_of[i]], int(row[i])),
        }
        for i in chosen.tolist()
    ]
    return Listing(listed, low, len(order) - max(low, high))


def fields(table: Table, row: int) -> dict[str, Any]:
    """An event's own fields as plain values; enumerations as labels."""
    known = catalogue.load()
    plain: dict[str, Any] = {}
    for item in known.events[table.event].fields:
        if item.name in HIDDEN:
            continue
        value = table[item.name][row]
        if item.enum:
            plain[item.name] = known.label(item.enum, int(value))
        elif item.kind == "text":
            plain[item.name] = str(value)
        elif item.kind in ("bytes", "list64"):
            plain[item.name] = [int(element) for element in value]
        else:
            plain[item.name] = int(value)
    return plain


def describe(row: dict[str, Any]) -> str:
    """An event's fields for people: hot events in words, the others as name=value."""
    event, values = row["event"], row["fields"]
    if event == "op_post":
        return (
            f"#{values['op']} {values['kind']} {values['len_bytes']:,} B, "
            f"at {values['position']:,}, call {values['call_ns'] / 1e3:,.1f} µs"
        )
    if event == "op_complete":
        late = values["earlier_pending"]
        overtaken = f", {late} earlier pending" if late else ""
        return (
            f"#{values['op']} {values['kind']} {values['status']}, "
            f"{values['len_bytes']:,} B{overtaken}"
        )
    if event in ("op_defer", "op_abandon"):
        return f"#{values['op']} {values['kind']}"
    if event == "fragment":
        last = ", last" if values["last"] else ""
        return (
            f"#{values['op']} piece {values['child']} of buffer {values['parent']}: "
            f"{values['len_bytes']} B at {values['offset_bytes']}{last}"
        )
    if event in ("session_state", "session_phase"):
        return str(values[event.removeprefix("session_")])
    return " ".join(f"{name}={short(value)}" for name, value in values.items())


def short(value: Any) -> str:
    """A value in few characters."""
    if isinstance(value, list):
        return "[" + " ".join(str(element) for element in value) + "]"
    return str(value)
