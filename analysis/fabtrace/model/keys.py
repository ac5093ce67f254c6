# SPDX-License-Identifier: BSD-3-Clause
"""How events name what they belong to, as integers that whole columns can be compared by."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.tables import Table

WRITER_THREADS = 1024  # a writer is a process instance x this + a thread
NO_SESSION = 0xFFFFFFFF  # the listening endpoint; -1 in signed fields

Keys = npt.NDArray[np.int64]


def instances(table: Table) -> Keys:
    """The process instance of each row."""
    return table["writer"].astype(np.int64) // WRITER_THREADS


def session_keys(table: Table) -> Keys:
    """(process instance, session) of each row as one number; -1 sessions as NO_SESSION."""
    sessions = table["session"].astype(np.int64) & NO_SESSION
    return (instances(table) << 32) | sessions


def worker_keys(table: Table) -> Keys:
    """(process instance, worker) of each row as one number."""
    return (instances(table) << 32) | table["worker"].astype(np.int64)


def session_key(instance: int, session: int) -> int:
    """The key of one session."""
    return (instance << 32) | (session & NO_SESSION)


def split(key: int) -> tuple[int, int]:
    """Process instance and session (or worker) of a key."""
    return int(key) >> 32, int(key) & NO_SESSION


def thread_name(writer: int) -> str:
    """What a writer is in its process."""
    thread = int(writer) % WRITER_THREADS
    return "main" if thread == 0 else f"worker {thread - 1}"


def last_rows(keys: npt.NDArray[Any]) -> dict[int, int]:
    """For each key the index of its last row; rows are in time order."""
    # np.unique gives the first occurrence, so look from the end.
    unique, first = np.unique(keys[::-1], return_index=True)
    return {int(key): len(keys) - 1 - int(index) for key, index in zip(unique, first)}


def first_rows(keys: npt.NDArray[Any]) -> dict[int, int]:
    """For each key the index of its first row."""
    unique, first = np.unique(keys, return_index=True)
    return {int(key): int(index) for key, index in zip(unique, first)}


def counts(keys: npt.NDArray[Any]) -> dict[int, int]:
    """How often each key occurs."""
    unique, number = np.unique(keys, return_counts=True)
    return {int(key): int(n) for key, n in zip(unique, number)}


def sums(keys: npt.NDArray[Any], values: npt.NDArray[Any]) -> dict[int, int]:
    """The sum of the values of each key, exact."""
    unique, index = np.unique(keys, return_inverse=True)
    total = np.zeros(len(unique), np.int64)
    np.add.at(total, index, values.astype(np.int64))
    return {int(key): int(n) for key, n in zip(unique, total)}
