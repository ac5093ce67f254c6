# SPDX-License-Identifier: BSD-3-Clause
"""How many events a trace holds, by process and name, and how many are missing.

The trace is counted, not LTTng's counters believed. Every event has its writer's number and a count
of the events of its name, so what is missing between two of them, and up to what the writer says at
its end (`emitted`), was lost. Names that the trace does not declare were not asked for: a writer counts
them if some other recording takes them. What a process wrote before the first event that is there is a loss
only if the trace holds the process's start: a recording may begin later than a process. Here the
counting goes through babeltrace2's text, about 2 s a million events; counting.py has a faster way.
"""

from __future__ import annotations

import re
import select
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fabtrace.errors import FabtraceError
from fabtrace.metadata import declared_events, examine_metadata
from fabtrace.record import processes
from fabtrace.record.signals import Signals

WRITER_THREADS = 1024  # a writer is its process's instance x this + thread
CHUNK_BYTES = 1 << 20
SILENCE_SECONDS = 60.0  # babeltrace2 spins for ever on some damaged traces

_EVENT = re.compile(rb" fabt:(\w+): \{[^}]*\}, \{ writer = (\d+), seq = (\d+)")
_EMITTED = re.compile(
    rb" fabt:emitted: \{[^}]*\}, \{ writer = (\d+), seq = \d+, event = \( \"(\w+)\"[^)]*\), count = (\d+)"
)
_PROCESS = re.compile(
    rb" fabt:process: \{[^}]*\}, \{ writer = (\d+), seq = \d+, cause = \( \"(\w+)\".*?"
    rb"role = \( \"(\w+)\"[^)]*\), pid = (\d+), run_id = (\w+)"
)

Series = tuple[int, bytes]  # a writer, an event's name


@dataclass
class Tally:
    """What a trace holds."""

    counts: Counter[Series] = field(default_factory=Counter)
    firsts: dict[Series, int] = field(default_factory=dict)  # the first that is there
    ends: dict[Series, int] = field(default_factory=dict)  # events written, as far as is known
    started: set[int] = field(default_factory=set)  # instances whose start is there
    processes: dict[int, tuple[str, int, int]] = field(
        default_factory=dict
    )  # instance: role, pid, run
    declared: set[bytes] = field(default_factory=set)  # names of the events that it could hold

    def add(self, text: bytes) -> None:
        """Count whole lines of babeltrace2's text."""
        for name, writer, seq in _EVENT.findall(text):
            self.note_series((int(writer), name), 1, int(seq), int(seq))
        for writer, name, count in _EMITTED.findall(text):
            self.note_end((int(writer), name), int(count))
        for writer, cause, role, pid, run in _PROCESS.findall(text):
            self.note_process(int(writer), cause.decode(), role.decode(), int(pid), int(run, 0))

    def note_series(self, series: Series, count: int, first: int, last: int) -> None:
        """So many events of a name by a writer, the least and the largest of their numbers."""
        self.counts[series] += count
        self.firsts[series] = min(first, self.firsts.get(series, first))
        self.note_end(series, last + 1)

    def note_end(self, series: Series, end: int) -> None:
        """A writer wrote at least so many events of a name."""
        if end > self.ends.get(series, 0):
            self.ends[series] = end

    def note_process(self, writer: int, cause: str, role: str, pid: int, run: int) -> None:
        """A process told who it is."""
        instance = writer // WRITER_THREADS
        self.processes[instance] = (role, pid, run)
        if cause == "start":
            self.started.add(instance)

    @property
    def events(self) -> int:
        return sum(self.counts.values())

    @property
    def lost(self) -> int:
        return sum(self._lost(series, end) for series, end in self.ends.items())

    def _lost(self, series: Series, end: int) -> int:
        if series not in self.counts and series[1] not in self.declared:
            return 0
        if series[0] // WRITER_THREADS in self.started:
            return end - self.counts[series]
        # Of a name that is not there at all one can't know whether it was before the recording.
        return end - self.firsts[series] - self.counts[series] if series in self.firsts else 0

    def by_process(self) -> dict[int, Counter[str]]:
        """For each process instance: how many events of each name."""
        result: dict[int, Counter[str]] = {}
        for (writer, name), count in self.counts.items():
            result.setdefault(writer // WRITER_THREADS, Counter())[name.decode()] += count
        return result


class Interrupted(Exception):
    """A signal ended the counting."""


def has_events(folder: Path) -> bool:
    """Whether any program wrote anything: LTTng makes the files for the first."""
    return any(folder.rglob("metadata"))


def count(folder: Path, signals: Signals) -> Tally:
    """Count the events of a trace."""
    program = shutil.which("babeltrace2")
    if program is None:
        raise FabtraceError(
            "babeltrace2 is not in PATH: install it with `apt-get install babeltrace2`"
        )
    if not all(path.stat().st_size for path in folder.rglob("metadata")):
        # Babeltrace would abort on it.
        raise FabtraceError("a `metadata` file is empty: the trace cannot be read")
    tally = Tally()
    for path in folder.rglob("metadata"):
        tally.declared |= {name.encode() for name in declared_events(examine_metadata(path)[0])}
    # Into a file: with many lost events it says so often that a pipe would fill up.
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            [program, "--no-delta", "--clock-cycles", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            process_group=0,
        )
        try:
            assert child.stdout is not None
            for text in _lines(child.stdout, signals):
                tally.add(text)
            if child.wait() != 0:
                said.seek(0)
                reason = said.read().decode(errors="replace").strip()[-300:] or "no reason given"
                raise FabtraceError(f"babeltrace2 cannot read the trace: {reason.splitlines()[-1]}")
        finally:
            if child.poll() is None:
                processes.wait_or_kill([child.pid], 0)
                child.wait()
    return tally


def _lines(stream: IO[bytes], signals: Signals) -> Iterator[bytes]:
    """Blocks of whole lines."""
    poll = select.poll()
    poll.register(stream.fileno(), select.POLLIN)
    poll.register(signals.fd, select.POLLIN)
    rest = b""
    while True:
        ready = {fd for fd, _events in poll.poll(SILENCE_SECONDS * 1000)}
        if not ready:
            raise FabtraceError(
                f"babeltrace2 said nothing for {SILENCE_SECONDS:.0f} s: a damaged trace?"
            )
        if signals.fd in ready and signals.collect():
            raise Interrupted
        if stream.fileno() not in ready:
            continue
        data = stream.read1(CHUNK_BYTES)  # type: ignore[attr-defined]
        if not data:
            yield rest
            return
        whole, newline, tail = data.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
            rest = tail
        else:
            rest += tail
