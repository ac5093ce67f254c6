# SPDX-License-Identifier: BSD-3-Clause
"""The reference reader: Babeltrace's Python binding as its manual shows it, an event at a time.

It is slow, small and plainly right, and shares nothing with the real reader but the shape of the result
(`Tables`) and the catalogue. For sound traces only.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import bt2
import numpy as np
from fabtrace import catalogue
from fabtrace.tables import Column, Discarded, Stream, Tables, dtype_of, kinds_of, make_table

PREFIX = "fabt:"


def read_reference(path: Path) -> Tables:
    """The tables of a trace folder, or of all below it."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    declared: set[str] = set()
    environments: list[dict[str, str | int]] = []
    streams: list[Stream] = []
    discarded: list[Discarded] = []
    missing: dict[str, set[str]] = defaultdict(set)
    number_of: dict[Any, int] = {}  # a stream's name and environment → its number
    for message in bt2.TraceCollectionMessageIterator(str(path)):
        if type(message) is bt2._StreamBeginningMessageConst:
            environments += [e for e in [environment_of(message.stream)] if e not in environments]
            declared |= declared_by(message)
        elif type(message) is bt2._PacketBeginningMessageConst:
            stream = stream_of(message.packet, environments)
            if stream not in streams:
                streams.append(stream)
            number_of[identity(message.packet.stream)] = streams.index(stream)
        elif type(message) is bt2._DiscardedEventsMessageConst:
            discarded.append(discarded_by(message))
        elif type(message) is bt2._EventMessageConst and message.event.name.startswith(PREFIX):
            event = message.event
            name = event.name.removeprefix(PREFIX)
            if name in catalogue.load().events:
                row = row_of(name, event)
                missing[name] |= kinds_of(name).keys() - row.keys() - {"timestamp_ns", "stream"}
                row["timestamp_ns"] = message.default_clock_snapshot.ns_from_origin
                row["stream"] = number_of[identity(event.stream)]
                rows[name].append(row)
    # The reader sorts environments; streams keep the order in which they were found here.
    ordered = sorted(environments, key=lambda facts: json.dumps(facts, sort_keys=True))
    numbered = [replace(s, environment=ordered.index(environments[s.environment])) for s in streams]
    return Tables(
        {name: table_of(name, found) for name, found in rows.items()},
        frozenset(declared),
        tuple(ordered),
        tuple(discarded),
        str(path),
        tuple(numbered),
        {name: tuple(sorted(fields)) for name, fields in missing.items() if fields},
    )


def table_of(name: str, rows: list[dict[str, Any]]) -> Any:
    """A table from rows, in the order of the muxer; sorted by time where that isn't."""
    columns = {c: [row.get(c, empty(kind)) for row in rows] for c, kind in kinds_of(name).items()}
    return make_table(name, columns)


def empty(kind: str) -> Any:
    """What stands for a field that the trace lacks."""
    return {"text": "", "bytes": [], "list64": []}.get(kind, 0)


def row_of(name: str, event: Any) -> dict[str, Any]:
    """An event's fields as plain Python values."""
    return {
        field: value_of(event[field], kind)
        for field, kind in kinds_of(name).items()
        if field in event.payload_field
    }


def value_of(field: Any, kind: str) -> Any:
    """A field as a plain Python value."""
    if kind == "text":
        return str(field)
    return [int(item) for item in field] if kind in ("bytes", "list64") else int(field)


def identity(stream: Any) -> Any:
    """What tells streams apart: the file's path (or the name of the stream), and the trace."""
    return stream.name, stream.id, stream.cls.id, str(stream.trace.uuid)


def environment_of(stream: Any) -> dict[str, str | int]:
    """What the tracer says of itself."""
    found = stream.trace.environment.items()
    return {str(k): str(v) if isinstance(v, bt2._StringValueConst) else int(v) for k, v in found}


def declared_by(message: Any) -> set[str]:
    """The events of ours that a trace declares."""
    trace_class = message.stream.trace.cls
    names = [trace_class[s][e].name or "" for s in trace_class for e in trace_class[s]]
    return {name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)}


def stream_of(packet: Any, environments: list[dict[str, str | int]]) -> Stream:
    """Name, environment and processor."""
    facts = environment_of(packet.stream)
    cpu = int(packet.context_field["cpu_id"])
    return Stream(Path(packet.stream.name).name, environments.index(facts), cpu)


def discarded_by(message: Any) -> Discarded:
    """What LTTng says that it dropped."""
    return Discarded(
        Path(message.stream.name).name,
        message.count,
        message.beginning_default_clock_snapshot.ns_from_origin,
        message.end_default_clock_snapshot.ns_from_origin,
    )


def plain(column: Column) -> list[Any]:
    """A column as Python values."""
    return [v.tolist() if isinstance(v, np.ndarray) else v for v in column.tolist()]


def assert_same(found: Tables, expected: Tables) -> None:
    """Every column of every event. Streams may be numbered otherwise."""
    assert found.tables.keys() == expected.tables.keys()
    assert found.declared == expected.declared and found.missing == expected.missing
    assert sorted(map(str, found.streams)) == sorted(map(str, expected.streams))
    assert Counter(map(str, found.discarded)) == Counter(map(str, expected.discarded))
    assert [*found.environments] == [*expected.environments]
    number = np.array([found.streams.index(stream) for stream in expected.streams], np.uint16)
    for event, table in found.tables.items():
        other = expected[event]
        assert len(table) == len(other) and bool(np.all(np.diff(table.times) >= 0))
        # Of one time the muxer may take the streams in another order.
        other_streams = number[other["stream"]]
        mine = np.lexsort((np.arange(len(table)), table["stream"], table.times))
        order = np.lexsort((np.arange(len(other)), other_streams, other.times))
        assert plain(table["stream"][mine]) == plain(other_streams[order])
        for name, kind in kinds_of(event).items():
            if name != "stream":
                assert table[name].dtype == dtype_of(kind)
                assert plain(table[name][mine]) == plain(other[name][order]), f"{event}.{name}"
