# SPDX-License-Identifier: BSD-3-Clause
"""The workers of each process, and what their time went to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model.keys import counts, last_rows, session_keys, split, worker_keys
from fabtrace.model.processes import Process
from fabtrace.tables import Table, Tables

# What `load` counts from a worker's start, and Worker has.
LOAD_COUNTERS = ("busy_ns", "idle_ns", "asleep_ns", "cpu_time_ns", "loops", "contexts")

AVERAGE_ONE = 256  # average_fp8 has 8 fraction bits


@dataclass(frozen=True)
class Worker:
    """A worker thread. Times are totals from its start to its last `load` event, in ns.

    `pinned_cpu` is None if it is not pinned or not known. Without any `load` event all times are 0
    and `load_average` is None.
    """

    process: Process
    number: int
    tid: int
    pinned_cpu: int | None
    wait_mode: str
    cpus: tuple[int, ...]  # processors on which it was seen, ascending
    sessions: int
    busy_ns: int
    idle_ns: int
    asleep_ns: int
    cpu_time_ns: int
    loops: int
    contexts: int
    load_average: float | None
    migrations: int

    @property
    def wall_ns(self) -> int:
        """All of its time."""
        return self.busy_ns + self.idle_ns + self.asleep_ns

    @property
    def utilisation(self) -> float | None:
        """Busy share of its wall time, 0 to 1; None if that is not known.

        This is what utilisation means everywhere (LoadSeries has it in time). Busy is the wall time of
        loops that did some work; what of it the thread had no processor is in its account.
        """
        return self.busy_ns / self.wall_ns if self.wall_ns else None


@dataclass(frozen=True)
class LoadSeries:
    """A worker's load in time: a window ends at each of `end_ns` and began at the one before."""

    begin_ns: npt.NDArray[np.int64]
    end_ns: npt.NDArray[np.int64]
    busy_ns: npt.NDArray[np.int64]
    wall_ns: npt.NDArray[np.int64]

    @property
    def utilisation(self) -> npt.NDArray[np.float64]:
        """As Worker's, of each window; NaN of one without length."""
        unknown = np.full(len(self.wall_ns), np.nan)
        return np.divide(self.busy_ns, self.wall_ns, out=unknown, where=self.wall_ns > 0)


def build_workers(tables: Tables, processes: Mapping[int, Process]) -> list[Worker]:
    """All workers that the trace mentions, by process and number."""
    described, load, stats = tables["worker"], tables["load"], tables["worker_stats"]
    opened, moved = tables["session_open"], tables["migrate"]
    described_rows = last_rows(worker_keys(described))
    load_rows = last_rows(worker_keys(load))
    stats_rows = last_rows(worker_keys(stats))
    sessions = sessions_a_worker(opened)
    migrations = counts(worker_keys(moved))
    order = {instance: place for place, instance in enumerate(processes)}
    keys = set(described_rows) | set(load_rows) | set(stats_rows) | set(sessions)
    workers = []
    for key in sorted(keys, key=lambda key: (order[split(key)[0]], split(key)[1])):
        instance, number = split(key)
        row = load_rows.get(key)
        totals = {name: 0 if row is None else int(load[name][row]) for name in LOAD_COUNTERS}
        about = describe(described, described_rows.get(key))
        counted = migrations.get(key, 0)
        if key in stats_rows:
            counted = max(counted, int(stats["migrations"][stats_rows[key]]))
        workers.append(
            Worker(
                process=processes[instance],
                number=number,
                tid=about[0],
                pinned_cpu=about[1],
                wait_mode=about[2],
                cpus=cpus_seen(load, moved, key),
                sessions=sessions.get(key, 0),
                load_average=None if row is None else int(load["average_fp8"][row]) / AVERAGE_ONE,
                migrations=counted,
                **totals,
            )
        )
    return workers


def describe(described: Table, row: int | None) -> tuple[int, int | None, str]:
    """Thread id, processor it is pinned to, how it waits."""
    if row is None:
        return 0, None, ""
    pinned = int(described["pinned_cpu"][row])
    mode = catalogue.load().label("wait_mode", int(described["wait_mode"][row]))
    return int(described["tid"][row]), pinned if pinned >= 0 else None, mode


def cpus_seen(load: Table, moved: Table, key: int) -> tuple[int, ...]:
    """The processors on which a worker ran, as far as it noticed."""
    mine, changes = worker_keys(load) == key, worker_keys(moved) == key
    seen = {
        *load["cpu"][mine].tolist(),
        *moved["from_cpu"][changes].tolist(),
        *moved["to_cpu"][changes].tolist(),
    }
    return tuple(sorted(cpu for cpu in seen if cpu >= 0))


def sessions_a_worker(opened: Table) -> dict[int, int]:
    """How many different sessions each worker was given."""
    pairs = np.unique(np.stack([worker_keys(opened), session_keys(opened)]), axis=1)
    return counts(pairs[0])


def born_ns(load: Table) -> npt.NDArray[np.int64]:
    """When the worker of some `load` events (at least one) began: an array of one time."""
    spent = sum(int(load[name][0]) for name in ("busy_ns", "idle_ns", "asleep_ns"))
    return np.array([int(load.times[0]) - min(spent, 1 << 60)], np.int64)  # it may be damaged


def load_series(tables: Tables, worker: Worker) -> LoadSeries:
    """A worker's load, window by window; a window before which an event was lost is longer."""
    load = tables["load"]
    key = (worker.process.instance << 32) | worker.number
    mine = load.rows(worker_keys(load) == key)
    busy = mine["busy_ns"].astype(np.int64)
    wall = busy + mine["idle_ns"].astype(np.int64) + mine["asleep_ns"].astype(np.int64)
    spent = np.diff(wall, prepend=0)
    if len(mine) and not worker.process.started:
        # The first window reaches back to before the trace; its length is not known.
        return LoadSeries(mine.times[:-1], mine.times[1:], np.diff(busy), spent[1:])
    return LoadSeries(mine.times - spent, mine.times, np.diff(busy, prepend=0), spent)
