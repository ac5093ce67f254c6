# SPDX-License-Identifier: BSD-3-Clause
"""What happened in slices of time. Edges are ns, n + 1 ascending ones for n slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model.keys import session_keys
from fabtrace.model.operations import Operations
from fabtrace.model.run import Run
from fabtrace.model.sessions import Session
from fabtrace.model.states import Intervals, state_label
from fabtrace.model.workers import Worker, load_series

Edges = npt.NDArray[np.int64]

# By which operations one sees a session's payload move, and which ones it has in flight.
PAYLOAD_KINDS = {"put": ("write", "fragment"), "get": ("progress_rx",)}
FLIGHT_KINDS = {"put": ("write", "fragment"), "get": ("vector_tx",)}


def make_edges(begin_ns: int, end_ns: int, slices: int) -> Edges:
    """Edges of equal slices, to the ns; at least 1 ns each."""
    span = max(end_ns - begin_ns, slices)
    return np.array([begin_ns + span * i // slices for i in range(slices + 1)], np.int64)


def sum_in_slices(
    times: npt.NDArray[Any], values: npt.NDArray[Any], edges: Edges
) -> npt.NDArray[np.int64]:
    """The sum of the values whose times are in each slice; the last one includes its end."""
    slices = len(edges) - 1
    place = np.searchsorted(edges, times, side="right") - 1
    place[times == edges[-1]] = slices - 1
    inside = (place >= 0) & (place < slices)
    total = np.zeros(slices, np.int64)
    np.add.at(total, place[inside], values[inside].astype(np.int64))
    return total


def time_in_slices(
    begin: npt.NDArray[Any], end: npt.NDArray[Any], edges: Edges
) -> npt.NDArray[np.int64]:
    """How many ns of the intervals are in each slice, all intervals together."""
    total = np.zeros(len(edges) - 1, np.int64)
    for index, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist())):
        overlap = np.minimum(end, high) - np.maximum(begin, low)
        total[index] = overlap[overlap > 0].sum()
    return total


def states_in_slices(states: Intervals, edges: Edges, enum: str) -> list[dict[str, float]]:
    """For each slice the share of each state in it, by label; of 1 where a state is known."""
    lengths = np.diff(edges)
    shares: list[dict[str, float]] = [{} for _ in lengths]
    for code in np.unique(states.state).tolist():
        mine = states.rows(states.state == code)
        spent = time_in_slices(mine.begin_ns, mine.end_ns, edges)
        for index in np.flatnonzero(spent).tolist():
            shares[index][state_label(enum, code)] = int(spent[index]) / int(lengths[index])
    return shares


def of_kinds(run: Run, session: Session, kinds: dict[str, tuple[str, ...]]) -> Operations:
    """The operations that are of a session and of its role's kinds."""
    known = catalogue.load()
    codes = [known.code("kind", kind) for kind in kinds.get(session.role, ())]
    mine = run.operations.of(session.key)
    return mine.rows(np.isin(mine.kind, codes))


def payload_in_slices(run: Run, session: Session, edges: Edges) -> npt.NDArray[np.int64]:
    """Payload bytes in each slice: written (put), or reported to get.

    From the operations if they were recorded, else from the counters, spread evenly between two.
    """
    if run.has_operations:
        mine = of_kinds(run, session, PAYLOAD_KINDS)
        mine = mine.rows(mine.succeeded)
        return sum_in_slices(mine.end_ns, mine.payload_bytes, edges)
    table = run.tables["session_count"]
    counted = table.rows(session_keys(table) == session.key)
    start = session.begin_ns if session.start_ns is None else session.start_ns
    times = np.concatenate([[start], counted.times])
    totals = np.concatenate([[0], counted["payload_bytes"].astype(np.int64)])
    if len(counted) and not session.process.started:
        times, totals = times[1:], totals[1:]  # what the first counter says was before the trace
    reached = np.interp(edges, times, totals).round().astype(np.int64)
    return np.diff(reached)


def in_flight_in_slices(run: Run, session: Session, edges: Edges) -> npt.NDArray[np.float64]:
    """Mean number of writes (put) or vector messages (get) in flight in each slice."""
    mine = of_kinds(run, session, FLIGHT_KINDS)
    mine = mine.rows(mine.posted)
    end = np.where(mine.ended, mine.end_ns, session.last_ns)
    inside = time_in_slices(mine.begin_ns, end, edges)
    mean: npt.NDArray[np.float64] = inside / np.diff(edges)
    return mean


def busy_in_slices(run: Run, worker: Worker, edges: Edges) -> npt.NDArray[np.float64]:
    """A worker's utilisation in each slice, 0 to 1; NaN where its load is not known."""
    load = load_series(run.tables, worker)
    busy, known = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for begin, end, share in zip(load.begin_ns, load.end_ns, load.utilisation):
        if np.isnan(share):
            continue
        overlap = np.clip(np.minimum(edges[1:], end) - np.maximum(edges[:-1], begin), 0, None)
        known += overlap
        busy += overlap * share
    return np.divide(busy, known, out=np.full(len(busy), np.nan), where=known > 0)
