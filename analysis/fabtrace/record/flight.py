# SPDX-License-Identifier: BSD-3-Clause
"""The flight recorder: events go round in rings, and are written when something happens.

`lttng` takes the snapshots (triggers.py). This sets the triggers up again, takes snapshots
on demand and at the end, and says what each of them covers.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from fabtrace import metadata, packets
from fabtrace.errors import FabtraceError
from fabtrace.record import buffers
from fabtrace.record.lttng import Client, LttngError
from fabtrace.record.options import FlightPlan
from fabtrace.record.session import TraceSession
from fabtrace.record.signals import Signals
from fabtrace.record.speech import say
from fabtrace.record.triggers import Triggers
from fabtrace.snapshot import Coverage, write

END, MANUAL = "end", "manual"  # causes that are not events
_FOLDER = re.compile(r"([a-z]+)-\d{8}-\d{6}-\d+")


def coverage(folder: Path) -> Coverage | None:
    """What a snapshot covers, from its packets' headers; None if there is nothing in it."""
    begins, overwritten, ends, size = [], [], [], 0
    for file in folder.rglob("metadata"):
        text = metadata.read_metadata(file)
        found = re.search(r"clock\s*{[^}]*?\boffset\s*=\s*(\d+)", text)
        if found is None or not metadata.laid_out_as_lttng_does(text):
            continue
        offset = int(found[1])
        for path in file.parent.iterdir():
            if not path.is_file() or path == file:
                continue
            kept = [packet for packet in packets.read(path).packets if packet.holds_events]
            if not kept:
                continue
            size += sum(packet.size_bytes for packet in kept)
            begins.append(kept[0].begin + offset)
            ends.append(max(kept[-1].end, kept[-1].begin) + offset)
            if kept[0].number > 0:
                overwritten.append(kept[0].begin + offset)
    if not begins:
        return None
    cause = folder.name.partition("-")[0]
    first = min(begins)
    return Coverage(cause, first, max(overwritten, default=first), max(ends), size)


class Flight:
    """What goes on beside the commands."""

    def __init__(
        self,
        client: Client,
        session: TraceSession,
        folder: Path,
        plan: FlightPlan,
    ) -> None:
        self._session = session
        self._folder = folder
        self._causes = plan.causes
        self._most = plan.most
        self._rearm_seconds = plan.rearm_seconds
        self._triggers = Triggers(client, session.name)
        self._seen: set[str] = set()
        self._rearm: dict[str, float] = {}  # cause -> when
        self._enough = False

    def arm(self) -> None:
        """Set the triggers up."""
        try:
            for cause in self._causes:
                self._triggers.add(cause, self._folder)
        except BaseException:
            self._triggers.remove(self._causes)
            raise

    def tick(self, signals: Signals) -> None:
        """Notice snapshots that were taken; take one that was asked for."""
        if signals.take_snapshot():
            self.take(MANUAL)
        for name in self.new():
            cause = name.partition("-")[0]
            say(f"snapshot {name}")
            if cause in self._causes:
                self._rearm[cause] = time.monotonic() + self._rearm_seconds
        if len(self._seen) >= self._most:
            if not self._enough:
                say(f"{len(self._seen)} snapshots (--snapshots): no more are taken of events")
                self._triggers.remove(self._causes)
            self._enough = True
            return
        for cause, when in list(self._rearm.items()):
            if time.monotonic() >= when and self._has_room():
                del self._rearm[cause]
                self._again(cause)

    def _again(self, cause: str) -> None:
        try:
            self._triggers.remove([cause])
            self._triggers.add(cause, self._folder)
        except LttngError as error:
            say(f"no more snapshots of `{cause}` events: {error}")

    def _has_room(self) -> bool:
        return buffers.room_bytes(self._folder) >= buffers.DISK_MIN_BYTES

    def new(self) -> list[str]:
        """Snapshots that were not there when last asked for."""
        names = {path.name for path in self._folder.iterdir() if _FOLDER.fullmatch(path.name)}
        found = sorted(names - self._seen)
        self._seen |= names
        return found

    def take(self, name: str) -> None:
        """Take one now."""
        try:
            self._session.snapshot(name)
        except LttngError as error:
            say(f"no snapshot: {error}")

    def close(self, wanted: bool) -> None:
        """Remove the triggers; a last snapshot if it is wanted or there was none."""
        self._triggers.remove(self._causes)
        self.new()
        if wanted or not self._seen:
            self.take(END)
            self.new()


def describe(folder: Path) -> list[str]:
    """A line a snapshot; what each covers is also noted in it."""
    told = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name.partition("-")[2]):
        if not _FOLDER.fullmatch(path.name):
            continue
        try:
            covered = coverage(path)
        except FabtraceError as error:
            told.append(f"{path.name}: {error}")
            continue
        if covered is None:
            told.append(f"{path.name}: no events")
            continue
        write(path, covered)
        told.append(f"{path.name}: {covered}; {buffers.format_size(covered.size_bytes)}")
    return told
