# SPDX-License-Identifier: BSD-3-Clause
"""Which processes ran together: a folder can hold several runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fabtrace.model.processes import Process
from fabtrace.model.sessions import Session


@dataclass(frozen=True)
class Group:
    """Processes that share a run id, or of whose sessions some are the two ends of one.

    number   from 1 on, by the time of the first event
    run_id   that of most of its sessions, or of its processes; 0: not known
    """

    number: int
    run_id: int
    processes: list[Process]

    @property
    def begin_ns(self) -> int:
        """Its first event."""
        return min(process.begin_ns for process in self.processes)

    @property
    def end_ns(self) -> int:
        """Its last event."""
        return max(process.last_ns for process in self.processes)


def build_groups(processes: Sequence[Process], sessions: Sequence[Session]) -> list[Group]:
    """The runs in a trace. Processes without a run id, whose peers are not there, are a run together."""
    leaders = {process.instance: process.instance for process in processes}

    def leader(instance: int) -> int:
        while leaders[instance] != instance:
            instance = leaders[instance]
        return instance

    for session in sessions:
        if session.peer is not None:
            leaders[leader(session.process.instance)] = leader(session.peer.process.instance)
    members = Counter(leader(process.instance) for process in processes)
    first: dict[int, int] = {}
    for process in processes:
        if process.run_id or members[leader(process.instance)] == 1:
            mine = leader(process.instance)
            leaders[mine] = leader(first.setdefault(process.run_id, mine))
    found: dict[int, list[Process]] = {}
    for process in processes:
        found.setdefault(leader(process.instance), []).append(process)
    ordered = sorted(found.values(), key=lambda mine: min(process.begin_ns for process in mine))
    return [
        Group(number, common_run_id(mine, sessions), mine)
        for number, mine in enumerate(ordered, start=1)
    ]


def common_run_id(processes: Sequence[Process], sessions: Sequence[Session]) -> int:
    """What most of the sessions of some processes have for a run id, else of the processes; 0: none."""
    instances = {process.instance for process in processes}
    said = Counter(
        session.run_id
        for session in sessions
        if session.run_id and session.process.instance in instances
    )
    said = said or Counter(process.run_id for process in processes if process.run_id)
    return said.most_common(1)[0][0] if said else 0
