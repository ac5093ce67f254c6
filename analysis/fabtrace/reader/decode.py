# SPDX-License-Identifier: BSD-3-Clause
"""What a child process does: Babeltrace reads some of the streams, our plugin makes columns of them.

Babeltrace stays in children because it may abort or loop on files that no check foresees, and because
running a graph holds Python's lock, so that only processes decode at the same time.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
import signal
import struct
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fabtrace.reader import native

READER_MISSING = "Babeltrace's Python binding is missing: apt-get install python3-bt2"
# Rows of a table that stay in memory before they go to the spill file. Small enough for the processor's
# cache to keep them, large enough for the number of segments.
CHUNK_ROWS = 1 << 15
# What a child shares with its parent: events so far, ports that are done, packets of the current one.
SLOT = struct.Struct("=QQQ")


@dataclass(frozen=True)
class Task:
    """A child's work: the `part`-th of `parts` shares of the streams of some trace folders.

    weights  bytes of a stream, by the name of its port, to make shares equal
    exclude  names of ports and folders that are to be left out
    """

    folders: tuple[Path, ...]
    part: int
    parts: int
    spill: Path
    weights: dict[str, int]
    exclude: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Opening:
    """A child says that it opens a folder: should it never come back, that was the one."""

    name: str


@dataclass(frozen=True)
class Failure:
    """Why a port or a folder could not be read to its end. `packet`: of the port, the one that it was
    at, counted from 0; None if that is not known."""

    why: str
    packet: int | None = None


@dataclass
class Decoded:
    """What a child made: a description of its collector, and names of ports or folders that failed."""

    description: dict[str, Any]
    failures: dict[str, Failure] = field(default_factory=dict)


def child_main(
    connection: Connection, stderr: int, task: Task, progress: mmap.mmap, slot: int
) -> None:
    """Send the names of the ports, then a `Decoded`; or a text or OSError: why nothing can be read."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()
    os.dup2(stderr, 2)  # Babeltrace's own messages: the parent words its error from them
    try:
        import bt2  # noqa: F401  (whether it is there)
    except ImportError as error:
        connection.send(f"{READER_MISSING} ({error})")
        return
    try:
        connection.send(decode(connection, task, address_of(progress, slot)))
    except OSError as error:
        connection.send(error)
    except Exception as error:  # whatever the binding raises, the parent turns it into one line
        connection.send(f"Babeltrace cannot read it: {first_cause(error)}")


def address_of(progress: mmap.mmap, slot: int) -> int:
    """Where a child tells how far it is."""
    return ctypes.addressof(ctypes.c_char.from_buffer(progress, SLOT.size * slot))


def decode(connection: Connection, task: Task, progress: int) -> Decoded:
    """Read the task's ports, one after the other; one that fails is left, the others go on."""
    failures: dict[str, Failure] = {}
    with native.Collector(task.spill, CHUNK_ROWS, progress) as collector:
        ports = share_of(connection, task, failures)
        connection.send(ports)
        opened = tuple(sorted({folder_of(port) for port in ports}))
        while ports:
            _, before, _ = numbers_at(progress)
            try:
                run_graph(task.folders, opened, ports, collector)
                break
            except Exception as error:
                _, after, packets = numbers_at(progress)
                done = after - before
                state = collector.describe()
                if state["write_error"]:
                    raise OSError(
                        state["write_error"], os.strerror(state["write_error"]), str(task.spill)
                    ) from None
                if state["error"]:
                    break  # not a trace of ours: the parent says so
                if done >= len(ports):
                    raise
                why = f"Babeltrace cannot read it: {first_cause(error)}"
                failures[ports[done]] = Failure(why, packets - 1 if packets else None)
                collector.next_source()  # what was read of it stays
                ports = ports[done + 1 :]
        collector.flush()
        return Decoded(collector.describe(), failures)


def numbers_at(progress: int) -> tuple[int, int, int]:
    """How far a child is."""
    events, done, packets = SLOT.unpack(ctypes.string_at(progress, SLOT.size))
    return events, done, packets


def folder_of(port: str) -> int:
    """The number of the folder in a port's name."""
    return int(port.partition(" ")[0])


def source(graph: Any, folder: Path, number: int) -> dict[str, Any]:
    """A folder's streams: the ports of a component that reads it, by names unique in all folders."""
    import bt2

    reader = bt2.find_plugin("ctf").source_component_classes["fs"]
    made = graph.add_component(reader, f"source{number}", {"inputs": [str(folder)]})
    return {f"{number} {name}": made.output_ports[name] for name in made.output_ports}


def share_of(connection: Connection, task: Task, failures: dict[str, Failure]) -> list[str]:
    """The ports of one part: the heaviest first, each to the part that has least so far."""
    import bt2

    names = []
    errors = []
    for number, folder in enumerate(task.folders):
        if str(number) in task.exclude:
            continue
        connection.send(Opening(str(number)))
        try:
            names += list(source(bt2.Graph(), folder, number))
        except Exception as error:
            failures[str(number)] = Failure(f"Babeltrace cannot read it: {first_cause(error)}")
            errors.append(error)
    if errors and not names:
        raise errors[0]
    loads = [0] * task.parts
    mine = []
    for name in sorted(names, key=lambda name: -task.weights.get(name, 0)):
        part = loads.index(min(loads))
        loads[part] += task.weights.get(name, 0) + 1
        if part == task.part and name not in task.exclude:
            mine.append(name)
    return mine


def run_graph(
    folders: tuple[Path, ...], opened: tuple[int, ...], names: list[str], to: native.Collector
) -> None:
    """Read some ports into a collector. No muxer: sorting afterwards costs less."""
    import bt2

    graph = bt2.Graph()
    ports: dict[str, Any] = {}
    for number in opened:
        ports |= source(graph, folders[number], number)
    plugins = bt2.find_plugins_in_path(str(native.folder()))
    columns = next(p for p in plugins if p.name == "fabt").sink_component_classes["columns"]
    sink = graph.add_component(columns, "sink", {"collector": to.id, "ports": len(names)})
    for name, port in zip(names, sink.input_ports):
        graph.connect_ports(ports[name], sink.input_ports[port])
    graph.run()


def first_cause(error: Exception) -> str:
    """The innermost reason of a bt2 error, on one line without addresses; the others say who called whom."""
    causes = list(error) if hasattr(error, "__iter__") else []
    text = str(getattr(causes[0], "message", causes[0])) if causes else str(error)
    text = re.sub(r"[\w-]*addr=0x[0-9a-f]+(, )?", "", text).rstrip(" ,:")
    return " ".join(text.split()) or type(error).__name__
