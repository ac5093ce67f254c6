# SPDX-License-Identifier: BSD-3-Clause
"""Where the time of sessions went: intervals between transitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.model.keys import session_keys
from fabtrace.tables import Table


@dataclass(frozen=True)
class Intervals:
    """Each row says that a session was in a state from begin to end. Rows are by session and time."""

    session: npt.NDArray[np.int64]
    state: npt.NDArray[np.uint8]
    begin_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]

    def rows(self, selection: Any) -> Intervals:
        """The rows that a mask selects."""
        return Intervals(
            self.session[selection],
            self.state[selection],
            self.begin_ns[selection],
            self.end_ns[selection],
        )

    def of(self, session: int) -> Intervals:
        """One session's rows."""
        return self.rows(self.session == session)

    def totals_ns(self) -> dict[int, int]:
        """Time in each state, of all rows."""
        states = np.unique(self.state)
        spent = self.end_ns - self.begin_ns
        return {int(state): int(spent[self.state == state].sum()) for state in states}


def build_intervals(table: Table, column: str, ends_ns: dict[int, int]) -> Intervals:
    """Intervals from transitions (`session_state` or `session_phase`).

    A state lasts until the session's next one, the last one until `ends_ns` of the session.
    """
    keys = session_keys(table)
    order = np.argsort(keys, kind="stable")
    session, begin, state = keys[order], table.times[order], table[column][order]
    end = np.empty_like(begin)
    end[:-1] = begin[1:]
    last = np.ones(len(session), bool)
    last[:-1] = session[1:] != session[:-1]
    closing = [
        ends_ns.get(key, at) for key, at in zip(session[last].tolist(), begin[last].tolist())
    ]
    # A transition after the session's end (it can't be, but traces can be damaged) has no length.
    end[last] = np.maximum(np.array(closing, np.int64), begin[last])
    return Intervals(session, state, begin, end)
