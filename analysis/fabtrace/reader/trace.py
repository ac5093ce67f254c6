# SPDX-License-Identifier: BSD-3-Clause
"""Read a trace: check it, have child processes read its streams, join what they deliver.

Babeltrace runs in children because it may abort or loop on files that no check foresees: then a child
dies or falls silent, and we say which trace it was. Several children because decoding costs more
than anything else, and streams can be decoded independently.
"""

from __future__ import annotations

import gc
import importlib.util
import multiprocessing
import os
import re
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any

from fabtrace import catalogue
from fabtrace.check import TraceFolder, find_traces
from fabtrace.errors import FabtraceError
from fabtrace.tables import STREAM, Discarded, Stream, Table, Tables, join_tables, make_table

# A child reports every 32,768 events and at each stream: a second's work, so a minute means it hangs.
SILENCE_SECONDS = 60.0
# Below this many bytes of streams a second child costs more than it saves.
BYTES_A_CHILD = 4 << 20
MOST_CHILDREN = 8

READER_MISSING = "Babeltrace's Python binding is missing: apt-get install python3-bt2"


@dataclass
class Child:
    """A process that reads some of the streams."""

    process: Any
    connection: Connection
    stderr: IO[bytes]


def read(
    path: str | Path,
    silence_seconds: float = SILENCE_SECONDS,
    progress: Callable[[int], None] = lambda events: None,
) -> Tables:
    """Read the trace at or below a folder. Raises FabtraceError if it is not a sound one of ours.

    `progress` is called now and then with the number of events read so far.
    """
    where = Path(path)
    folders = find_traces(where, ctf2=babeltrace_reads_ctf2())
    parts = number_of_children(folders)
    children = [start_child(folders, part, parts) for part in range(parts)]
    try:
        collected = results(children, where, silence_seconds, progress)
    finally:
        for child in children:
            if child.process.is_alive():
                child.process.kill()
            child.process.join()
            child.stderr.close()
    tables = join(collected, where)
    check_schema(tables, where)
    problems = [problem for item in collected for problem in item.problems]
    if problems:
        raise FabtraceError(f"{where}: {problems[0]}: recorded by an incompatible engine")
    if not tables.declared:
        raise FabtraceError(
            f"{where} holds no event of fabtget or fabtput: were they built with tracing "
            f"(`fabtget --version` says) and started after the recording?"
        )
    return tables


def babeltrace_reads_ctf2() -> bool:
    """Whether the Babeltrace that is installed reads CTF 2: from 2.1 on."""
    # Its version without importing it, since that loads the library into this process.
    found = importlib.util.find_spec("bt2")
    if found is None or found.origin is None:
        raise FabtraceError(READER_MISSING)
    file = Path(found.origin).with_name("version.py")
    text = file.read_text() if file.is_file() else ""
    version = re.search(r"""__version__ = ['"](\d+)\.(\d+)""", text)
    return version is not None and (int(version[1]), int(version[2])) >= (2, 1)


def number_of_children(folders: list[TraceFolder]) -> int:
    """As many as processors and streams allow and the amount of data is worth."""
    sizes = [size for folder in folders for size in folder.streams.values()]
    worth = 1 + sum(sizes) // BYTES_A_CHILD
    return max(1, min(len(os.sched_getaffinity(0)), len(sizes), worth, MOST_CHILDREN))


def start_child(folders: list[TraceFolder], part: int, parts: int) -> Child:
    """Fork a reader of every `parts`-th stream."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    stderr = tempfile.TemporaryFile()
    paths = [folder.path for folder in folders]
    process = context.Process(target=child_main, args=(theirs, stderr.fileno(), paths, part, parts))
    process.start()
    theirs.close()
    return Child(process, ours, stderr)


def child_main(
    connection: Connection, stderr: int, paths: list[Path], part: int, parts: int
) -> None:
    """What a child does: sends how many events it has read now and then, at last its result."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.disable()  # a fifth of the time; there are no cycles, and the process soon ends
    os.dup2(stderr, 2)  # Babeltrace's own messages: the parent words its error from them
    try:
        from fabtrace.reader.columns import collect
    except ImportError as error:
        connection.send(f"{READER_MISSING} ({error})")
        return
    try:
        connection.send(collect(paths, part, parts, connection.send))
    except Exception as error:  # whatever the binding raises, the parent turns it into one line
        connection.send(f"Babeltrace cannot read it: {first_cause(error)}")


def first_cause(error: Exception) -> str:
    """The innermost reason of a bt2 error, on one line; the others say who called whom."""
    causes = list(error) if hasattr(error, "__iter__") else []
    text = str(getattr(causes[0], "message", causes[0])) if causes else str(error)
    return " ".join(text.split()) or type(error).__name__


def results(
    children: list[Child], where: Path, silence_seconds: float, progress: Callable[[int], None]
) -> list[Any]:
    """What the children read; FabtraceError if one fails, dies or falls silent."""
    found: dict[int, Any] = {}
    events = [0] * len(children)
    waiting: dict[Any, int] = {child.connection: n for n, child in enumerate(children)}
    while waiting:
        ready = wait(list(waiting), silence_seconds)
        if not ready:
            raise FabtraceError(
                f"{where}: Babeltrace made no progress for {silence_seconds:g} s: "
                f"the trace is damaged; copy or record it again"
            )
        for connection in ready:
            number = waiting[connection]
            message = receive(children[number], where)
            if isinstance(message, int):
                events[number] = message
                progress(sum(events))
            else:
                found[number] = message
                del waiting[connection]
    return [found[number] for number in range(len(children))]


def receive(child: Child, where: Path) -> Any:
    """The next message of a child: a number of events or its result."""
    try:
        message = child.connection.recv()
    except EOFError:
        raise FabtraceError(f"{where}: {death(child)}; copy or record it again") from None
    if isinstance(message, str):
        raise FabtraceError(f"{where}: {message}")
    return message


def death(child: Child) -> str:
    """How a child died, with the last thing that it said."""
    child.process.join()
    code = child.process.exitcode
    how = f"signal {signal.Signals(-code).name}" if code and code < 0 else f"exit code {code}"
    child.stderr.seek(0)
    said = child.stderr.read().decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(said) if line.strip()), "")
    return f"Babeltrace died of {how}" + (f" ({last[:120]})" if last else "")


def join(collected: list[Any], where: Path) -> Tables:
    """One set of tables from what the children read."""
    parts: dict[str, list[Table]] = {}
    declared: set[str] = set()
    environments: list[dict[str, str | int]] = []
    discarded: list[Discarded] = []
    streams: list[Stream] = []
    missing: dict[str, set[str]] = {}
    for item in collected:
        for event, columns in item.columns:
            if columns:
                columns[STREAM] += len(streams)  # each child numbers its own
                parts.setdefault(event, []).append(make_table(event, columns))
        declared |= item.declared
        environments += [e for e in item.environments if e not in environments]
        streams += [
            replace(stream, environment=environments.index(item.environments[stream.environment]))
            for stream in item.streams
        ]
        discarded += item.discarded
        for event, names in item.missing.items():
            missing.setdefault(event, set()).update(names)
    return Tables(
        {event: join_tables(pieces) for event, pieces in parts.items()},
        frozenset(declared),
        tuple(environments),
        tuple(discarded),
        str(where),
        tuple(streams),
        {event: tuple(sorted(names)) for event, names in missing.items()},
    )


def check_schema(tables: Tables, where: Path) -> None:
    """Refuse a trace whose events this version cannot know."""
    known = catalogue.load().schema_version
    found = int(tables["process"]["schema_version"].max(initial=0))
    if found > known:
        raise FabtraceError(
            f"{where} has schema version {found}, this fabtrace reads up to {known}: "
            f"use the fabtrace that belongs to the recorded engine, or a newer one"
        )
