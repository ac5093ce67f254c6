# SPDX-License-Identifier: BSD-3-Clause
"""One-way delays: from the post of a message at one end to its completion at the other."""

from __future__ import annotations

from dataclasses import dataclass

from fabtrace.model.latency import Summary, summarise
from fabtrace.model.messages import DIRECTIONS, join_messages
from fabtrace.model.run import Run
from fabtrace.model.sessions import Session


@dataclass(frozen=True)
class Delays:
    """Delays of one kind of message of a session. They are as good as the clocks are aligned."""

    sender: Session
    receiver: Session
    kind: str
    summary: Summary
    min_ns: int | None


def build_delays(run: Run) -> list[Delays]:
    """For each session of which both ends are there: vectors from get to put, progress back."""
    found = []
    for session in run.sessions:
        peer = session.peer
        if session.role != "put" or peer is None:
            continue
        for kind in DIRECTIONS:
            sender, receiver = (peer, session) if kind == "vector" else (session, peer)
            pairs = join_messages(
                run.operations.of(sender.key), run.operations.of(receiver.key), kind
            )
            delays = pairs.delays_ns
            if len(delays):
                found.append(Delays(sender, receiver, kind, summarise(delays), int(delays.min())))
    return found
