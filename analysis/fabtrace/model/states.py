# SPDX-License-Identifier: BSD-3-Clause
"""Where the time of sessions went: intervals between transitions.

    session_state   memory      provider   (lost)        memory
    intervals      |  memory   | provider |  unknown     | memory ...

Between a transition that is lost and the next one of the same session nobody knows the state. Which
session's transition was lost is not known either, only its writer's, so it concerns all of this writer's
sessions. Nor does anybody know it before the first transition of a session that was open already when
the recording began.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model.keys import Groups, Index, Keys, bounds
from fabtrace.model.loss import Gap
from fabtrace.tables import Table

UNKNOWN = 255  # the state, where transitions are lost
STATES = 256


@dataclass(frozen=True)
class Intervals:
    """Each row says that a session was in a state from begin to end. Rows are by session and time.

    `owner` is the session's place in `keys`.
    """

    keys: Keys
    owner: Index
    state: npt.NDArray[np.uint8]
    begin_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]

    def rows(self, selection: Any) -> Intervals:
        """The rows that a mask or a slice selects."""
        return Intervals(
            self.keys,
            self.owner[selection],
            self.state[selection],
            self.begin_ns[selection],
            self.end_ns[selection],
        )

    def of(self, session: int) -> Intervals:
        """One session's rows."""
        place = int(np.searchsorted(self.keys, session))
        if place == len(self.keys) or self.keys[place] != session:
            return self.rows(slice(0, 0))
        low, high = np.searchsorted(self.owner, [place, place + 1])
        return self.rows(slice(int(low), int(high)))

    def within(self, begin_ns: int, end_ns: int) -> Intervals:
        """What of them is between two times."""
        begin = np.maximum(self.begin_ns, begin_ns)
        end = np.minimum(self.end_ns, end_ns)
        cut = Intervals(self.keys, self.owner, self.state, begin, end)
        return cut.rows(end > begin)

    @cached_property
    def by_session_ns(self) -> npt.NDArray[np.int64]:
        """Time of each session (in the order of `keys`) in each state, one of STATES a column."""
        cell = self.owner.astype(np.int64) * STATES + self.state
        spent = (self.end_ns - self.begin_ns).astype(np.float64)  # exact below 2^53 ns: 104 days
        total = np.bincount(cell, weights=spent, minlength=len(self.keys) * STATES)
        return total.astype(np.int64).reshape(-1, STATES)

    def totals_ns(self) -> dict[int, int]:
        """Time in each state, of all rows."""
        spent = self.by_session_ns.sum(axis=0)
        return {state: int(spent[state]) for state in np.unique(self.state).tolist()}

    def shares(self, session: int, enum: str) -> dict[str, float]:
        """The share of each state in a session's time, 0 to 1, by label in the catalogue's order."""
        place = int(np.searchsorted(self.keys, session))
        if place == len(self.keys) or self.keys[place] != session:
            return {}
        spent = self.by_session_ns[place]
        whole = int(spent.sum())
        seen = np.unique(self.of(session).state).tolist() if whole else []
        return {state_label(enum, state): int(spent[state]) / whole for state in seen}


def state_label(enum: str, state: int) -> str:
    """The name of a state."""
    return "unknown" if state == UNKNOWN else catalogue.load().label(enum, state)


def build_intervals(
    table: Table,
    column: str,
    owned: tuple[Keys, Index],
    ends_ns: Mapping[int, int],
    gaps: Mapping[int, tuple[Gap, ...]],
) -> Intervals:
    """Intervals from transitions (`session_state` or `session_phase`).

    A state lasts until the session's next one, the last one until `ends_ns` of the session. `owned` are
    the table's session keys and its rows' places therein, `gaps` what its writers lost.
    """
    keys, index = owned
    groups = Groups(index, len(keys))
    order = groups.order
    begin, owner = table.times[order], index[order]
    state = table[column][order]
    end = np.empty_like(begin)
    end[:-1] = begin[1:]
    filled = np.flatnonzero(np.diff(groups.starts))
    last = groups.starts[filled + 1] - 1
    closing = [ends_ns.get(key, 0) for key in keys[filled].tolist()]
    # A transition after the session's end (it can't be, but traces can be damaged) has no length.
    end[last] = np.maximum(np.array(closing, np.int64), begin[last])
    intervals = Intervals(keys, owner, state, begin, end)
    if not gaps:
        return intervals
    return cut_at_gaps(intervals, table["writer"][order], gaps)


def with_beginnings(
    intervals: Intervals, begins_ns: Mapping[int, int], ends_ns: Mapping[int, int]
) -> Intervals:
    """Let sessions be UNKNOWN from their begin in `begins_ns` to their first interval, or if they have
    none to their end."""
    rows = bounds(intervals.owner, len(intervals.keys))[0]
    first = {
        key: int(intervals.begin_ns[row])
        for key, row in zip(intervals.keys.tolist(), rows.tolist())
        if row >= 0
    }
    added = [
        (key, begin, first.get(key, ends_ns.get(key, begin))) for key, begin in begins_ns.items()
    ]
    added = [(key, begin, end) for key, begin, end in added if end > begin]
    if not added:
        return intervals
    new_keys, new_begin, new_end = np.array(added, np.int64).T
    keys = np.union1d(intervals.keys, new_keys)
    owner = np.searchsorted(keys, np.concatenate([new_keys, intervals.keys[intervals.owner]]))
    order = np.argsort(owner, kind="stable")  # what is added comes before the session's others
    state = np.concatenate([np.full(len(added), UNKNOWN, np.uint8), intervals.state])
    return Intervals(
        keys,
        owner.astype(np.int32)[order],
        state[order],
        np.concatenate([new_begin, intervals.begin_ns])[order],
        np.concatenate([new_end, intervals.end_ns])[order],
    )


def cut_at_gaps(
    intervals: Intervals, writer: npt.NDArray[Any], gaps: Mapping[int, tuple[Gap, ...]]
) -> Intervals:
    """Let what follows a loss within an interval be UNKNOWN."""
    begin, end = intervals.begin_ns, intervals.end_ns
    cut = end.copy()  # from here on nothing is known
    for number, lost in gaps.items():
        mine = np.flatnonzero(writer == number)
        losses = np.sort(np.array([gap.begin_ns for gap in lost], np.int64))
        after = np.searchsorted(losses, begin[mine], side="left")
        inside = after < len(losses)
        cut[mine[inside]] = np.minimum(cut[mine[inside]], losses[after[inside]])
    split = np.flatnonzero(cut < end)
    place = np.concatenate([np.arange(len(begin)), split])
    order = np.argsort(place, kind="stable")
    place, is_rest = place[order], np.arange(len(place))[order] >= len(begin)
    rest_begin, whole_end = np.where(is_rest, cut[place], begin[place]), end[place]
    return Intervals(
        intervals.keys,
        intervals.owner[place],
        np.where(is_rest, np.uint8(UNKNOWN), intervals.state[place]),
        rest_begin,
        np.where(is_rest, whole_end, cut[place]),
    )
