# SPDX-License-Identifier: BSD-3-Clause
"""How a recording is going, shown once a second on a terminal.

Bytes and LTTng's count of discarded events come from the index files, which the consumer daemon
writes with each packet. The number of events is estimated from the bytes an event takes, for
which now and then a packet is copied and Babeltrace counts it. The count at the end is exact.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from fabtrace.errors import FabtraceError
from fabtrace.packets import read_index
from fabtrace.record.speech import show

SAMPLE_EVERY_SECONDS = 5.0
SAMPLE_SECONDS = 10  # Babeltrace may loop on something that is just being written
SAMPLE_MAX_BYTES = 8 << 20
# LTTng adds 2^63 to its counters at times, and they step backward.
BELIEVABLE = 1 << 48


@dataclass(frozen=True)
class State:
    """What is on the disk."""

    content_bytes: int = 0
    discarded: int = 0
    newest: Path | None = None  # the stream file with the largest last packet
    newest_offset: int = 0
    newest_bytes: int = 0
    newest_content: int = 0


def look(folder: Path) -> State:
    """Sum up the index files of a trace that is being written."""
    content, discarded, best = 0, 0, State()
    for index in folder.glob("ust/uid/*/*/index/*.idx"):
        with contextlib.suppress(FabtraceError):
            entries = read_index(index, growing=True).entries
            if not entries:
                continue
            last = entries[-1]
            content += sum(entry.content_bytes for entry in entries)
            discarded += last.discarded if last.discarded < BELIEVABLE else 0
            if best.newest_bytes < last.size_bytes <= SAMPLE_MAX_BYTES:
                stream = index.parent.parent / index.stem
                best = State(0, 0, stream, last.offset, last.size_bytes, last.content_bytes)
    return replace(best, content_bytes=content, discarded=discarded)


class Sampler:
    """Finds out how many bytes an event takes, in the background."""

    def __init__(self) -> None:
        self._program = shutil.which("babeltrace2")
        self._child: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._out: IO[bytes] | None = None
        self._bytes = 0
        self._next = 0.0
        self.event_bytes = 0.0

    def tick(self, state: State) -> None:
        """Start counting a packet, or take the result."""
        if self._child is not None:
            if self._child.poll() is not None:
                self._collect()
        elif self._program and state.newest is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + SAMPLE_EVERY_SECONDS
            with contextlib.suppress(OSError):
                self._start(state.newest, state)

    def _start(self, stream: Path, state: State) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fabtrace-")
        target = Path(self._folder.name)
        shutil.copyfile(stream.parent / "metadata", target / "metadata")
        with stream.open("rb") as file:
            file.seek(state.newest_offset)
            (target / stream.name).write_bytes(file.read(state.newest_bytes))
        self._bytes = state.newest_content
        self._out = tempfile.TemporaryFile()
        self._child = subprocess.Popen(
            ["timeout", str(SAMPLE_SECONDS), str(self._program), str(target)]
            + ["--component=sink.utils.counter", "--params=step=+0"],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )

    def _collect(self) -> None:
        assert self._out is not None and self._folder is not None
        self._out.seek(0)
        counts = re.findall(rb"(\d+) Event messages?\n", self._out.read())
        if counts and int(counts[-1]):
            self.event_bytes = self._bytes / int(counts[-1])
        self._out.close()
        self._folder.cleanup()
        self._child = None

    def close(self) -> None:
        """Leave nothing behind."""
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)  # `timeout` and what it runs
            self._child.wait()
            self._collect()


class Progress:
    """The line on the terminal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._begin = time.monotonic()
        self._sampler = Sampler()
        self._wanted = sys.stderr.isatty()

    def tick(self) -> None:
        """Show how it is going."""
        if not self._wanted:
            return
        state = look(self._folder)
        self._sampler.tick(state)
        show(line(time.monotonic() - self._begin, state, self._sampler.event_bytes))

    def close(self) -> None:
        """Wipe the line."""
        self._sampler.close()
        if self._wanted:
            show("")


def line(seconds: float, state: State, event_bytes: float) -> str:
    """`recording 12 s: about 1,200,000 events, 48.0 MB, 0 lost so far`."""
    if event_bytes:
        events = f"about {round(state.content_bytes / event_bytes, -3):,.0f} events, "
    else:
        events = ""
    lost = f"about {state.discarded:,} lost" if state.discarded else "0 lost"
    return f"recording {seconds:.0f} s: {events}{state.content_bytes / 1e6:,.1f} MB, {lost} so far"
