# SPDX-License-Identifier: BSD-3-Clause
"""A recording: session daemon, rings, trace session, and all of it undone at the end."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from fabtrace.errors import FabtraceError
from fabtrace.record import finish, note
from fabtrace.record.daemon import Daemon, interrupted
from fabtrace.record.flight import Flight
from fabtrace.record.lttng import Client
from fabtrace.record.options import Plan
from fabtrace.record.progress import Progress
from fabtrace.record.session import Settings, TraceSession, new_name
from fabtrace.record.signals import Signals
from fabtrace.record.speech import say
from fabtrace.record.watch import Guard

SETTLE_SECONDS = 20.0


class Recording:
    """What goes on while it is recorded."""

    def __init__(
        self, plan: Plan, session: TraceSession, signals: Signals, flight: Flight | None
    ) -> None:
        rings_bytes = plan.buffers.ring_bytes * plan.processors
        self.guard = Guard(session, plan.folder, rings_bytes, flight is not None)
        self.flight = flight
        self.ended_well = False  # the commands; set by whoever runs them
        self.outcome = finish.Outcome()
        self._signals = signals
        self._progress = Progress(plan.folder) if flight is None else None

    def tick(self) -> None:
        """To be called about once a second."""
        self.guard.tick()
        if self.flight is not None and not self.guard.died:
            self.flight.tick(self._signals)
        if self._progress is not None:
            self._progress.tick()

    def close(self) -> None:
        """Before the session is stopped."""
        if self._progress is not None:
            self._progress.close()
        self.guard.tick()
        if self.flight is not None and not self.guard.died:
            self.flight.close(wanted=not self.ended_well)

    @property
    def sound(self) -> bool:
        """Whether all went well, with the recording as such."""
        return not (self.guard.died or self.guard.full or self.outcome.troubles)


@contextlib.contextmanager
def recording(
    plan: Plan, client: Client, signals: Signals, holder: note.Holder
) -> Iterator[Recording]:
    """A trace session is on in the body; none, and no daemon of ours, is left afterwards."""
    session = TraceSession(client, new_name())
    daemon = Daemon(client, signals)
    ring = plan.rings / session.name
    what = note.Note(session.name, str(ring), os.getpid(), plan.flight is not None)
    holder.write(what)
    try:
        make_ring(ring, plan.folder)
        with daemon.arriving():
            if signals.stopped:
                raise interrupted(signals)
            live = start(plan, client, signals, session, ring)
    except BaseException:
        shutil.rmtree(ring, ignore_errors=True)
        holder.remove()
        raise
    try:
        yield live
    finally:
        with daemon.leaving():
            end(plan, live, session, what)
        if not live.outcome.pending:
            holder.remove()


def make_ring(ring: Path, folder: Path) -> None:
    """The folder of the ring files, with a link by which a later recorder finds the trace's."""
    try:
        ring.mkdir(mode=0o700)
        (ring / note.TRACE_LINK).symlink_to(folder)
    except OSError as error:
        raise FabtraceError(
            f"{ring.parent}: cannot make the trace buffers there: {error.strerror}; choose another"
            " folder with --shm-path DIR"
        ) from None


def start(
    plan: Plan, client: Client, signals: Signals, session: TraceSession, ring: Path
) -> Recording:
    """Make the session and what belongs to it."""
    flying = plan.flight is not None
    settings = Settings(plan.folder, ring, plan.buffers, plan.log_level, flying, plan.pids)
    session.create(settings)
    try:
        flight = None
        if plan.flight is not None:
            flight = Flight(client, session, plan.folder, plan.flight)
            flight.arm()
        return Recording(plan, session, signals, flight)
    except BaseException:
        session.destroy(ring)
        raise


def end(plan: Plan, live: Recording, session: TraceSession, what: note.Note) -> None:
    """Stop and destroy the session; save what the rings still hold; say what was wrong."""
    live.close()
    troubles = finish.end_session(session, Path(what.ring))
    live.guard.settle(SETTLE_SECONDS)
    if not live.guard.died:  # else the reason was said, and these are only its consequences
        live.outcome.troubles += troubles
    finish.save_rings(what, plan.folder, live.outcome, crashed=bool(live.guard.died))
    live.guard.close()
    for text in (*live.outcome.troubles, *live.outcome.findings.lines()):
        say(text)
