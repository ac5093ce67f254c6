# SPDX-License-Identifier: BSD-3-Clause
"""Tables built in memory, event by event, as a reader would deliver them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from fabtrace import catalogue
from fabtrace.tables import TIMESTAMP, Tables, make_table

GET, PUT = 100, 200  # process instances


class Trace:
    """Collects events; each writer numbers the events of a name, as the engine does."""

    def __init__(self) -> None:
        self.rows: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.seqs: defaultdict[tuple[int, str], int] = defaultdict(int)

    def add(self, event: str, time: int, instance: int, thread: int = 1, /, **fields: Any) -> None:
        """An event at `time` ns; enumerations may be given as labels."""
        known = catalogue.load()
        writer = instance * 1024 + thread
        row: dict[str, Any] = {TIMESTAMP: time, "writer": writer, "seq": self.seqs[(writer, event)]}
        self.seqs[(writer, event)] += 1
        for item in known.events[event].fields:
            if item.name in row:
                continue
            value = fields.pop(item.name, "" if item.kind == "text" else 0)
            if item.enum and isinstance(value, str):
                value = known.code(item.enum, value)
            row[item.name] = value
        assert not fields, f"{event} has no field {', '.join(fields)}"
        self.rows[event].append(row)

    def process(
        self, instance: int, role: str, time: int = 0, cause: str = "start", hostname: str = ""
    ) -> None:
        """A process introduces itself."""
        self.add(
            "process", time, instance, 0, cause=cause, instance=instance, role=role,
            schema_version=1, pid=instance, hostname=hostname,
        )  # fmt: skip

    def drop(self, event: str, index: int) -> dict[str, Any]:
        """Lose an event that was added."""
        return self.rows[event].pop(index)

    def tables(self, declared: frozenset[str] | None = None) -> Tables:
        """All of it; `declared` are the events that the recording had switched on."""
        made = {
            event: make_table(event, {name: [row[name] for row in rows] for name in rows[0]})
            for event, rows in self.rows.items()
            if rows
        }
        return Tables(made, frozenset(made) if declared is None else declared)
