# SPDX-License-Identifier: BSD-3-Clause
"""Loops over rows that numpy has no function for, in C (analysis/native/group.h).

Each returns None where it does not apply, or if the library is not there: then numpy must do, with the
same result and several times the time.
"""

from __future__ import annotations

import ctypes
import errno
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.errors import FabtraceError
from fabtrace.reader import native

Column = npt.NDArray[Any]
Index = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]

MOST_KEYS = 1 << 16


@cache
def library() -> Any:
    """The library, None if it is not there."""
    try:
        return native.library()
    except FabtraceError:
        return None


def number_keys(
    parts: Sequence[tuple[Column, Column | None]], shift: int
) -> tuple[npt.NDArray[np.uint64], list[Index]] | None:
    """The keys that occur in some columns, ascending, and for each part its rows' places among them.

    A part is (high, low), columns of 32 bits, and the key (high >> shift) * 2^32 + low.
    """
    loaded = library()
    if loaded is None:
        return None
    keys, known = np.empty(MOST_KEYS, np.uint64), 0
    numbers = []
    for high, low in parts:
        high = np.ascontiguousarray(high)
        low = None if low is None else np.ascontiguousarray(low)
        assert high.itemsize == 4 and (low is None or low.itemsize == 4 and len(low) == len(high))
        number = np.empty(len(high), np.int32)
        known = loaded.fabt_group_number(
            high.ctypes.data,
            shift,
            None if low is None else low.ctypes.data,
            len(high),
            number.ctypes.data,
            keys.ctypes.data,
            known,
            MOST_KEYS,
        )
        if known < 0:
            return None
        numbers.append(number)
    ascending = np.argsort(keys[:known], kind="stable")
    if bool(np.any(np.diff(ascending) < 0)):
        place = np.empty(known, np.int32)
        place[ascending] = np.arange(known, dtype=np.int32)
        numbers = [place[number] for number in numbers]
    return keys[:known][ascending], numbers


def bounds(index: Index, groups: int) -> tuple[Counts, Counts, Counts] | None:
    """The first and the last row of each group, -1 for a group without rows, and how many it has."""
    loaded = library()
    if loaded is None or index.dtype != np.int32:
        return None
    index = np.ascontiguousarray(index)
    first, last, counts = (np.empty(groups, np.int64) for _ in range(3))
    arrays = (first.ctypes.data, last.ctypes.data, counts.ctypes.data)
    if loaded.fabt_group_bounds(index.ctypes.data, len(index), groups, *arrays) != 0:
        raise IndexError("a row is of no group")
    return first, last, counts


def order(index: Column, groups: int) -> tuple[Index, Counts] | None:
    """The rows by group, within a group ascending, and where each group begins (one more than groups)."""
    loaded = library()
    if loaded is None or len(index) > np.iinfo(np.int32).max:
        return None
    index = np.ascontiguousarray(index, np.int32)
    rows, starts = np.empty(len(index), np.int32), np.empty(groups + 1, np.int64)
    arrays = rows.ctypes.data, starts.ctypes.data
    if loaded.fabt_group_order(index.ctypes.data, len(index), groups, *arrays) != 0:
        raise IndexError("a row is of no group")
    return rows, starts


def join(
    starts: Counts, posts: tuple[Index, Column], ends: tuple[Index, Column]
) -> tuple[Index, Index] | None | bool:
    """For each post the row of its end, or -1, and the ends without post. A side is owners and numbers,
    and the place of a row starts[owner] + number. False: a place is taken twice on a side."""
    loaded = library()
    sides = [(np.ascontiguousarray(o), np.ascontiguousarray(n)) for o, n in (posts, ends)]
    if loaded is None or any(o.dtype != np.int32 or n.dtype != np.uint64 for o, n in sides):
        return None
    made = [native.Side(o.ctypes.data, n.ctypes.data, len(o)) for o, n in sides]
    starts = np.ascontiguousarray(starts, np.int64)
    table = np.empty(int(starts[-1]), np.int32)
    partners, alone = (np.empty(side.rows, np.int32) for side in made)
    left = loaded.fabt_group_join(
        starts.ctypes.data,
        len(starts) - 1,
        *(ctypes.byref(side) for side in made),
        table.ctypes.data,
        partners.ctypes.data,
        alone.ctypes.data,
    )
    if left == -errno.EEXIST:
        return False
    if left < 0:
        raise IndexError("an operation has no place")
    return partners, alone[:left]
