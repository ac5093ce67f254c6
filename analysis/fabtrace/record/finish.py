# SPDX-License-Identifier: BSD-3-Clause
"""The end of a recording: the recorder's own, or of one whose recorder did not get so far."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from fabtrace.errors import FabtraceError
from fabtrace.record import note, salvage
from fabtrace.record.lttng import Client, LttngError
from fabtrace.record.session import TraceSession
from fabtrace.record.triggers import Triggers

CRASH = "crash"  # name of what is saved of a flight recorder that died


@dataclass
class Outcome:
    """How it ended."""

    troubles: list[str] = field(default_factory=list)
    findings: salvage.Findings = field(default_factory=salvage.Findings)
    pending: bool = False  # the rings are still needed: note and rings stay
    ended: bool = False  # a trace session or rings had been left over


def end_session(session: TraceSession, ring: Path) -> list[str]:
    """Stop and destroy a session, and keep its rings; returns what went wrong."""
    troubles: list[str] = []
    for step, consequence in (
        (session.stop, "the end of the trace may be missing"),
        (lambda: salvage.hold(ring), ""),
        (lambda: session.destroy(ring), "the trace session may be left over, see `lttng list`"),
    ):
        try:
            step()
        except LttngError as error:
            troubles.append(f"{error}; {consequence}")
    return troubles


def save_rings(what: note.Note, folder: Path, outcome: Outcome, crashed: bool) -> None:
    """Get from the rings what the trace lacks, then remove them, unless they are still needed."""
    ring = Path(what.ring)
    try:
        if not what.flight:
            outcome.findings = salvage.salvage(ring, folder)
        elif crashed and any(ring.rglob("metadata")):
            outcome.findings.snapshot = save_snapshot(ring, folder)
    except (FabtraceError, OSError) as error:
        outcome.pending = True
        remedy = "make room, then" if isinstance(error, salvage.NoRoom) else "to try again:"
        outcome.troubles.append(
            f"{error}: part of the trace is still in {ring}; {remedy} `fabtrace recover {folder}`"
        )
    if not outcome.pending:
        shutil.rmtree(ring, ignore_errors=True)


def save_snapshot(ring: Path, folder: Path) -> str:
    """The rings of a flight recorder as one more snapshot; its name."""
    target = folder / f"{CRASH}-{time.strftime('%Y%m%d-%H%M%S')}-0"
    copied = target.with_name(f".{target.name}")
    try:
        salvage.extract(salvage.source(ring), copied)
        for metadata in list(copied.rglob("metadata")):
            place = salvage.below_domain(metadata.parent)
            if place is not None:
                (target / place).parent.mkdir(parents=True, exist_ok=True)
                metadata.parent.rename(target / place)
    finally:
        shutil.rmtree(copied, ignore_errors=True)
    return target.name


def finish_abandoned(client: Client, what: note.Note, folder: Path) -> Outcome:
    """End what a recorder left when it was killed: its session, if there still is one; its rings."""
    outcome = Outcome(ended=True)
    session = TraceSession(client, what.session)
    alive = session.name in (client.sessions() or [])
    if alive:
        if what.flight:
            with contextlib.suppress(LttngError):
                session.snapshot("end")
        Triggers(client, what.session).remove()
        outcome.troubles += end_session(session, Path(what.ring))
    save_rings(what, folder, outcome, crashed=not alive)
    return outcome
