# SPDX-License-Identifier: BSD-3-Clause
"""Babeltrace messages into columns: the loop that runs once an event.

It runs in a child process (see `fabtrace.reader.trace`) and is the only part that touches `bt2`. An
event costs what its fields cost, so the loop calls the binding's C functions itself: bt2's wrapper
objects take five times as long. What to call for a field is decided once an event class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any

import bt2
import numpy as np
from bt2 import native_bt

from fabtrace import catalogue
from fabtrace.catalogue import PROVIDER_PREFIX
from fabtrace.tables import STREAM, TIMESTAMP, UNKNOWN_CPU, Column, Discarded, Stream, dtype_of

# Rows that are kept as Python objects before they become arrays: bounds the memory.
CHUNK = 1 << 15

Getter = Callable[[Any], Any]


@dataclass
class Accumulator:
    """The columns of one event name, built chunk by chunk."""

    event: str
    names: list[str]  # of the catalogue's fields that the trace has, timestamp_ns first
    kinds: list[str]  # their catalogue types
    row: Callable[[Any, Any], tuple[Any, ...]]  # an event's values, from its message and event
    stream: int  # the number of the stream that it is from
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    chunks: dict[str, list[Column]] = field(default_factory=dict)
    problem: str = ""

    def flush(self) -> None:
        """Turn the rows so far into arrays."""
        if not self.rows:
            return
        for name, kind, values in zip(self.names, self.kinds, zip(*self.rows)):
            try:
                column = as_column(values, kind)
            except (TypeError, ValueError, OverflowError):
                self.problem = f"fabt:{self.event}: field {name} is not of type {kind}"
                column = as_column([0] * len(values), "u8")
            self.chunks.setdefault(name, []).append(column)
        self.rows.clear()

    def columns(self) -> dict[str, Column]:
        """All columns so far, each in one piece."""
        self.flush()
        found = {name: np.concatenate(parts) for name, parts in self.chunks.items()}
        if found:
            found[STREAM] = np.full(len(found[TIMESTAMP]), self.stream, np.uint16)
        return found


@dataclass
class Collected:
    """What one child read."""

    columns: list[tuple[str, dict[str, Column]]]
    declared: set[str]
    environments: list[dict[str, str | int]]
    discarded: list[Discarded]
    streams: list[Stream]
    missing: dict[str, set[str]]
    problems: list[str]


def as_column(values: Any, kind: str) -> Column:
    """An array of the catalogue's type; sequences and text stay objects."""
    dtype = dtype_of(kind)
    if dtype is not object:
        return np.array(values, dtype)
    column = np.empty(len(values), object)
    for index, value in enumerate(values):
        column[index] = value
    return column


class Collector:
    """Takes messages and gathers the columns of the catalogue's events."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self.catalogue = catalogue.load()
        self.progress = progress
        self.events = 0  # of full chunks, for the progress
        self.plans: dict[int, Accumulator | None] = {}
        self.accumulators: list[Accumulator] = []
        self.declared: set[str] = set()
        self.environments: list[dict[str, str | int]] = []
        self.discarded: list[Discarded] = []
        self.streams: list[Stream] = []
        self.missing: dict[str, set[str]] = {}

    def consume(self, messages: Iterator[Any]) -> None:
        """Take all messages of one stream."""
        self.plans = {}  # class ids are a trace's own
        event_type = bt2._EventMessageConst
        borrow_event = native_bt.message_event_borrow_event_const
        borrow_class = native_bt.event_borrow_class_const
        class_id = native_bt.event_class_get_id
        plans = self.plans
        self.progress(self.events)
        for message in messages:
            if type(message) is not event_type:
                self.other(message)
                continue
            pointer = message._ptr
            event = borrow_event(pointer)
            identity = class_id(borrow_class(event))
            if identity not in plans:
                plans[identity] = self.plan(message.event)
            plan = plans[identity]
            if plan is None:
                continue
            rows = plan.rows
            rows.append(plan.row(pointer, event))
            if len(rows) == CHUNK:
                plan.flush()
                self.events += CHUNK
                self.progress(self.events)

    def other(self, message: Any) -> None:
        """A message that is no event: a stream begins, or LTTng says that it dropped events."""
        if isinstance(message, bt2._StreamBeginningMessageConst):
            self.stream_begins(message.stream)
        elif isinstance(message, bt2._PacketBeginningMessageConst):
            self.packet_begins(message.packet.context_field)
        elif isinstance(message, bt2._DiscardedEventsMessageConst):
            begin = end = None
            if message.stream.cls.discarded_events_have_default_clock_snapshots:
                begin = message.beginning_default_clock_snapshot.ns_from_origin
                end = message.end_default_clock_snapshot.ns_from_origin
            self.discarded.append(
                Discarded(Path(message.stream.name or "").name, message.count, begin, end)
            )

    def stream_begins(self, stream: Any) -> None:
        """Learn which events the trace declares, and its environment."""
        for identity in stream.trace.cls:
            stream_class = stream.trace.cls[identity]
            for event in stream_class:
                name = stream_class[event].name or ""
                if name.startswith(PROVIDER_PREFIX):
                    self.declared.add(name.removeprefix(PROVIDER_PREFIX))
        environment: dict[str, str | int] = {}
        for key, value in stream.trace.environment.items():
            environment[str(key)] = int(value) if isinstance(value, Integral) else str(value)
        if environment not in self.environments:
            self.environments.append(environment)
        name = Path(stream.name or "").name
        self.streams.append(Stream(name, self.environments.index(environment)))

    def packet_begins(self, context: Any) -> None:
        """Learn which processor wrote the stream."""
        if self.streams[-1].cpu == UNKNOWN_CPU and context is not None and "cpu_id" in context:
            self.streams[-1] = replace(self.streams[-1], cpu=int(context["cpu_id"]))

    def plan(self, event: Any) -> Accumulator | None:
        """How to read the events of a class; None if the catalogue doesn't know it."""
        name = (event.name or "").removeprefix(PROVIDER_PREFIX)
        if not (event.name or "").startswith(PROVIDER_PREFIX):
            return None
        known = self.catalogue.events.get(name)
        if known is None:
            return None
        kinds = {item.name: item.kind for item in known.fields}
        payload = event.payload_field
        members = [(index, name) for index, name in enumerate(payload) if name in kinds]
        getters = [(index, getter_of(payload[name])) for index, name in members]
        names = [name for _, name in members]
        accumulator = Accumulator(
            name,
            [TIMESTAMP, *names],
            ["i64", *(kinds[member] for member in names)],
            make_row_function(getters),
            len(self.streams) - 1,
        )
        absent = kinds.keys() - set(names)
        if absent:
            self.missing.setdefault(event.name.removeprefix(PROVIDER_PREFIX), set()).update(absent)
        self.accumulators.append(accumulator)
        return accumulator

    def collected(self) -> Collected:
        """All that was gathered."""
        columns = [(item.event, item.columns()) for item in self.accumulators]
        problems = [item.problem for item in self.accumulators if item.problem]
        return Collected(
            columns,
            self.declared,
            self.environments,
            self.discarded,
            self.streams,
            self.missing,
            problems,
        )


def make_row_function(getters: list[tuple[int, Getter]]) -> Callable[[Any, Any], tuple[Any, ...]]:
    """A function from (message, event) to (timestamp, field, field, ...).

    It is made as source text, one call after the other: a loop over `getters` takes a third longer.
    """
    scope: dict[str, Any] = {
        "payload_of": native_bt.event_borrow_payload_field_const,
        "member": native_bt.field_structure_borrow_member_field_by_index_const,
        "clock": native_bt.message_event_borrow_default_clock_snapshot_const,
        "nanoseconds": native_bt.clock_snapshot_get_ns_from_origin,
    }
    values = ["nanoseconds(clock(message))[1]"]
    for index, getter in getters:
        scope[f"get{index}"] = getter
        values.append(f"get{index}(member(payload, {index}))")
    source = (
        f"def row(message, event):\n payload = payload_of(event)\n return ({', '.join(values)},)"
    )
    exec(source, scope)
    made: Callable[[Any, Any], tuple[Any, ...]] = scope["row"]
    return made


def getter_of(sample: Any) -> Getter:
    """The function that gives the value of fields like this one."""
    if isinstance(sample, bt2._SignedIntegerFieldConst):
        return native_bt.field_integer_signed_get_value  # type: ignore[no-any-return]
    if isinstance(sample, bt2._UnsignedIntegerFieldConst):
        return native_bt.field_integer_unsigned_get_value  # type: ignore[no-any-return]
    if isinstance(sample, bt2._StringFieldConst):
        return native_bt.field_string_get_value  # type: ignore[no-any-return]
    if isinstance(sample, bt2._DynamicArrayFieldConst):
        return integer_sequence
    return lambda _: None  # a field of a type that the catalogue does not have


def integer_sequence(pointer: Any) -> Column:
    """The value of a sequence of unsigned integers."""
    element = native_bt.field_array_borrow_element_field_by_index_const
    value = native_bt.field_integer_unsigned_get_value
    length = native_bt.field_array_get_length(pointer)
    return np.array([value(element(pointer, index)) for index in range(length)], np.uint64)


class StreamSink(bt2._UserSinkComponent):  # type: ignore[misc]
    """Hands the messages of each connected stream to a collector, stream after stream.

    No muxer: it costs more the more streams there are, and rows are sorted by time afterwards.
    """

    def __init__(self, config: Any, params: Any, collector: Any) -> None:
        self.collector: Collector = collector
        self.iterators: list[Iterator[Any]] = []
        for number in range(int(params["streams"])):
            self._add_input_port(f"in{number}")

    def _user_graph_is_configured(self) -> None:
        for name in self._input_ports:
            self.iterators.append(self._create_message_iterator(self._input_ports[name]))

    def _user_consume(self) -> None:
        for iterator in self.iterators:
            self.collector.consume(iterator)
        raise bt2.Stop


def collect(
    folders: list[Path], part: int, parts: int, progress: Callable[[int], None]
) -> Collected:
    """Read every `parts`-th stream of some trace folders, beginning with number `part`."""
    collector = Collector(progress)
    graph = bt2.Graph()
    reader = bt2.find_plugin("ctf").source_component_classes["fs"]
    ports = []
    for number, folder in enumerate(folders):
        source = graph.add_component(reader, f"source{number}", {"inputs": [str(folder)]})
        ports += [source.output_ports[name] for name in source.output_ports]
    mine = ports[part::parts]
    if mine:
        sink = graph.add_component(StreamSink, "sink", {"streams": len(mine)}, collector)
        for port, name in zip(mine, sink.input_ports):
            graph.connect_ports(port, sink.input_ports[name])
        graph.run()
    return collector.collected()
