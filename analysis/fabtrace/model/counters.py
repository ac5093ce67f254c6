# SPDX-License-Identifier: BSD-3-Clause
"""Totals that are written now and then: by how much they grew between two times.

    counter    0 ......... 40 ............. 100        rows of session_count, session_time, load
    time       0          100               200 ms
    at 150 ms: 70, since between two rows a counter is taken to grow evenly

A row whose predecessor is older than the engine's window grew only in its last window: rows that would
say nothing new are not always written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.tables import Table

WINDOW_NS = 100_000_000  # the engine's

Matrix = npt.NDArray[np.float64]


def growth(
    table: Table,
    index: npt.NDArray[Any],
    groups: int,
    columns: Sequence[str],
    span_ns: tuple[int, int],
    born_ns: npt.NDArray[np.int64],
) -> Matrix:
    """Groups x columns: by how much the counters of each group grew in a span of time.

    `index`: each row's group; `born_ns`: since when each group counts, from 0.
    """
    if not len(table):
        return np.zeros((groups, len(columns)))
    order = np.lexsort((table.times, index))
    times, group = table.times[order], index[order]
    counters = np.stack([table[name][order].astype(np.float64) for name in columns], axis=1)
    low = value_at(times, group, counters, born_ns, span_ns[0])
    return value_at(times, group, counters, born_ns, span_ns[1]) - low


def value_at(
    times: npt.NDArray[np.int64],
    group: npt.NDArray[Any],
    counters: Matrix,
    born_ns: npt.NDArray[np.int64],
    moment_ns: int,
) -> Matrix:
    """What each group's counters were at a moment. Rows are by group and time."""
    starts = np.searchsorted(group, np.arange(len(born_ns)))
    ends = np.append(starts[1:], len(group))
    passed = np.concatenate([[0], np.cumsum(times < moment_ns)])
    after = starts + passed[ends] - passed[starts]  # the first row not before the moment
    has_before, has_after = after > starts, after < ends
    before, after = np.maximum(after - 1, 0), np.minimum(after, len(group) - 1)
    value = np.where(has_before[:, None], counters[before], 0.0)
    window = times[after] - WINDOW_NS
    grew = np.maximum(np.where(has_before, times[before], born_ns), window)
    span = np.maximum(times[after] - grew, 1)
    share = np.clip((moment_ns - grew) / span, 0.0, 1.0)[:, None]
    rising = value + (counters[after] - value) * share
    return np.where(has_after[:, None], rising, value)
