# SPDX-License-Identifier: BSD-3-Clause
"""Who wrote which rows of each table: one pass over all events that several parts of the model share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fabtrace.model.keys import dense_writers, extents
from fabtrace.tables import Tables


@dataclass(frozen=True)
class Written:
    """The writers of one table, ascending; for each its first and last row and how many it wrote."""

    writers: npt.NDArray[np.uint32]
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]


def scan_writers(tables: Tables) -> dict[str, Written]:
    """The writers of each table that has rows."""
    found = {}
    for event, table in tables.tables.items():
        writers, index = dense_writers(table["writer"])
        found[event] = Written(writers, *extents(index, len(writers)))
    return found
