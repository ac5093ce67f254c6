# SPDX-License-Identifier: BSD-3-Clause
"""The moments of a session that tell its story: handshake, first and last write, EOFs, errors, close."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model.keys import session_keys
from fabtrace.model.operations import Operations
from fabtrace.model.run import Run
from fabtrace.model.sessions import Session
from fabtrace.tables import Table

# First messages worth telling: kind -> what it means. A message that is sent counts from when its post
# began, one that is received from its completion: so no cause comes after its effect.
FIRST_MESSAGES = {
    "initial_tx": "initial message sent",
    "initial_rx": "initial message received",
    "ack_tx": "acknowledgement sent",
    "ack_rx": "acknowledgement received",
    "vector_tx": "first memory offered",
    "vector_rx": "first offer of memory received",
    "progress_tx": "first progress reported",
    "progress_rx": "first progress received",
}


@dataclass(frozen=True, order=True)
class Milestone:
    """A moment: when, of which end, a word for programs and a sentence for people."""

    time_ns: int
    session: str
    what: str
    text: str


def milestones(run: Run, session: Session) -> list[Milestone]:
    """A session's milestones in time order."""
    found = [
        Milestone(time_ns, session.label, what, text)
        for source in (lifecycle, first_operations, disorder, troubles)
        for time_ns, what, text in source(run, session)
    ]
    return sorted(found)


Moments = Iterator[tuple[int, str, str]]


def rows_of(run: Run, event: str, session: Session) -> Table:
    """The events of one name that are a session's."""
    table = run.tables[event]
    return table.rows(session_keys(table) == session.key)


def lifecycle(run: Run, session: Session) -> Moments:
    """Open, phases, start, ends of stream, close."""
    known = catalogue.load()
    opened = rows_of(run, "session_open", session)
    if len(opened):
        size = "unlimited" if session.total_bytes is None else f"{session.total_bytes:,} bytes"
        text = f"given to worker {session.worker}: {session.workload}, {size}"
        yield int(opened.times[0]), "open", text
    phases = rows_of(run, "session_phase", session)
    for time, phase in zip(phases.times.tolist(), phases["phase"].tolist()):
        label = known.label("phase", phase)
        yield time, f"phase_{label}", f"phase {label}"
    if session.start_ns is not None:
        took = (session.handshake_ns or 0) / 1e3
        yield session.start_ns, "start", f"payload can flow; the handshake took {took:,.1f} µs"
    eofs = rows_of(run, "eof", session)
    for time, kind in zip(eofs.times.tolist(), eofs["kind"].tolist()):
        label = known.label("kind", kind)
        what = "received" if label.endswith("_rx") else "sent"
        yield time, "eof", f"end of stream {what} ({label})"
    if session.close_ns is not None:
        reason = f": {session.reason}" if session.reason else ""
        text = f"closed, {session.outcome}, {session.payload_bytes:,} bytes{reason}"
        yield session.close_ns, "close", text


def first_operations(run: Run, session: Session) -> Moments:
    """The first message of each kind, the first and the last write."""
    known = catalogue.load()
    mine = run.operations.of(session.key)
    for kind, text in FIRST_MESSAGES.items():
        messages = mine.rows((mine.kind == known.code("kind", kind)) & mine.succeeded)
        if len(messages):
            moments = messages.begin_ns if kind.endswith("_tx") else messages.end_ns
            yield int(moments.min()), f"first_{kind}", text
    codes = [known.code("kind", kind) for kind in ("write", "fragment")]
    writes = mine.rows(np.isin(mine.kind, codes) & mine.posted)
    if len(writes):
        yield int(writes.begin_ns.min()), "first_write_posted", "first write posted"
    completed = writes.rows(writes.succeeded)
    if len(completed):
        first, last = completed.end_ns.min(), completed.end_ns.max()
        yield int(first), "first_write_completed", "first write completed"
        yield int(last), "last_write_completed", f"last of {len(completed):,} writes completed"


def disorder(run: Run, session: Session) -> Moments:
    """Where the provider deferred posts, completed out of order, or was left with operations."""
    deferred = rows_of(run, "op_defer", session)
    if len(deferred):
        text = f"provider deferred a post, the first of {len(deferred):,}"
        yield int(deferred.times[0]), "first_deferral", text
    mine = run.operations.of(session.key)
    done = mine.completed
    cancelled = catalogue.load().code("status", "cancelled")
    for mask, what, text in (
        (done & (mine.earlier > 0), "first_out_of_order", "completion out of order, the first of"),
        (done & (mine.status == cancelled), "first_cancelled", "operations cancelled:"),
        (mine.ended & ~done, "first_abandoned", "operations abandoned at the close:"),
    ):
        yield from first_of(mine, mask, what, text)


def first_of(mine: Operations, mask: npt.NDArray[Any], what: str, text: str) -> Moments:
    """The first end of some operations, with their number."""
    if mask.any():
        yield int(mine.end_ns[mask].min()), what, f"{text} {int(mask.sum()):,}"


def troubles(run: Run, session: Session) -> Moments:
    """Errors and the like, each."""
    errors = rows_of(run, "error", session)
    for time, text in zip(errors.times.tolist(), errors["text"]):
        yield time, "error", f"error: {text}"
    wrong = rows_of(run, "payload_mismatch", session)
    if len(wrong):
        text = (
            f"payload byte {int(wrong['offset_bytes'][0]):,} is {int(wrong['found'][0])}, "
            f"not {int(wrong['expected'][0])} (first of {len(wrong):,})"
        )
        yield int(wrong.times[0]), "payload_mismatch", text
    leaks = rows_of(run, "leak", session)
    for time, what in zip(leaks.times.tolist(), leaks["what"]):
        yield time, "leak", f"could not be closed: {what}"
    strays = rows_of(run, "stray_completion", session)
    if len(strays):
        text = f"completion of something not posted, the first of {len(strays):,}"
        yield int(strays.times[0]), "stray_completion", text
