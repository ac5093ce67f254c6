# SPDX-License-Identifier: BSD-3-Clause
"""Time of sessions in each state window by window: the last transition of each session is kept.

As in model/states.py what follows a lost transition, up to the session's next one, is UNKNOWN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.model.keys import Groups, Keys
from fabtrace.model.sessions import Owners
from fabtrace.model.states import STATES, UNKNOWN, Intervals
from fabtrace.tables import Table

Times = npt.NDArray[np.int64]

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Transitions:
    """Rows: a session (its key) entered a state; `lost_ns`: the first loss of its writer since then."""

    key: Keys
    begin_ns: Times
    lost_ns: Times
    state: npt.NDArray[np.uint8]
    writer: npt.NDArray[np.uint32]

    def rows(self, selection: Any) -> Transitions:
        """The rows that a mask or index array selects."""
        return Transitions(
            self.key[selection],
            self.begin_ns[selection],
            self.lost_ns[selection],
            self.state[selection],
            self.writer[selection],
        )


def no_transitions() -> Transitions:
    """None yet."""
    none = np.zeros(0, np.int64)
    return Transitions(none, none, none, none.astype(np.uint8), none.astype(np.uint32))


@dataclass
class StateTotals:
    """Time of each session in each state, and which states it was in."""

    last: Transitions = field(default_factory=no_transitions)
    first_ns: dict[int, int] = field(default_factory=dict)  # of each session's first transition
    spent_ns: dict[int, Times] = field(default_factory=dict)
    seen: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def add(self, table: Table, owners: Owners, losses: Mapping[int, Times]) -> None:
        """Add a window's `session_state`; `losses`: by writer the last times before gaps in it."""
        last = self.last
        keys = np.union1d(last.key, owners.keys)
        place = np.concatenate(
            [
                np.searchsorted(keys, last.key),
                np.searchsorted(keys, owners.keys)[owners.index],
            ]
        )
        rows = Transitions(
            keys[place],
            np.concatenate([last.begin_ns, table.times]),
            np.concatenate([last.lost_ns, np.full(len(table), NEVER)]),
            np.concatenate([last.state, table["state"]]),
            np.concatenate([last.writer, table["writer"]]),
        )
        note_losses(rows, losses)
        groups = Groups(place, len(keys))
        rows = rows.rows(groups.order)
        is_last = np.zeros(len(rows.key), bool)
        is_last[groups.starts[1:][np.diff(groups.starts) > 0] - 1] = True
        filled = groups.starts[:-1][np.diff(groups.starts) > 0]
        for key, begin in zip(rows.key[filled].tolist(), rows.begin_ns[filled].tolist()):
            self.first_ns.setdefault(key, begin)
        passed = np.flatnonzero(~is_last)
        self.spend(rows.rows(passed), rows.begin_ns[passed + 1])
        self.last = rows.rows(np.flatnonzero(is_last))

    def spend(self, rows: Transitions, end_ns: Times) -> None:
        """Add the time from transitions to `end_ns` of each."""
        if not len(end_ns):
            return
        known = np.minimum(np.maximum(rows.lost_ns, rows.begin_ns), end_ns)
        keys, place = np.unique(rows.key, return_inverse=True)
        shape = len(keys), STATES
        cell = place * STATES + rows.state
        spent = np.bincount(cell, (known - rows.begin_ns).astype(float), len(keys) * STATES)
        seen = np.bincount(cell, minlength=len(keys) * STATES) > 0
        lost = np.bincount(place, (end_ns - known).astype(float), len(keys))
        spent, seen = spent.astype(np.int64).reshape(shape), seen.reshape(shape)
        spent[:, UNKNOWN] += lost.astype(np.int64)
        seen[:, UNKNOWN] |= lost > 0
        for row, key in enumerate(keys.tolist()):
            self.note(key, spent[row], seen[row])

    def note(self, key: int, spent: Times, seen: npt.NDArray[np.bool_]) -> None:
        """Add the time of a session in each state."""
        self.spent_ns[key] = self.spent_ns.get(key, 0) + spent
        self.seen[key] = self.seen.get(key, False) | seen

    def finish(self, begins_ns: Mapping[int, int], ends_ns: Mapping[int, int]) -> Intervals:
        """The times when each session's last state lasted until `ends_ns`, and sessions in `begins_ns` were
        there since then, in a state that is not known.

        They come as one interval a session and state, from 0 to the time spent in it: good for sums.
        """
        ends = np.array([ends_ns.get(key, 0) for key in self.last.key.tolist()], np.int64)
        unknown = np.arange(STATES) == UNKNOWN
        for key, begin in begins_ns.items():
            end = self.first_ns.get(key, ends_ns.get(key, begin))
            if end > begin:
                self.note(key, unknown * (end - begin), unknown)
        self.spend(self.last, np.maximum(ends, self.last.begin_ns))
        self.last = no_transitions()
        keys = np.array(sorted(self.spent_ns), np.int64)
        if not len(keys):
            return no_intervals()
        owner, state = np.nonzero(np.stack([self.seen[key] for key in keys.tolist()]))
        spent = np.stack([self.spent_ns[key] for key in keys.tolist()])[owner, state]
        return Intervals(
            keys, owner.astype(np.int32), state.astype(np.uint8), np.zeros_like(spent), spent
        )


def no_intervals() -> Intervals:
    """For what is not known."""
    none = np.zeros(0, np.int64)
    return Intervals(none, none.astype(np.int32), none.astype(np.uint8), none, none)


def note_losses(rows: Transitions, losses: Mapping[int, Times]) -> None:
    """Note at each row the first loss of its writer that it does not know of."""
    for writer, times in losses.items():
        mine = np.flatnonzero(rows.writer == writer)
        times = np.sort(times)
        after = np.searchsorted(times, rows.begin_ns[mine], side="left")
        inside = after < len(times)
        rows.lost_ns[mine[inside]] = np.minimum(rows.lost_ns[mine[inside]], times[after[inside]])
