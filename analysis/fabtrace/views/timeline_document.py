# SPDX-License-Identifier: BSD-3-Clause
"""Timelines as documents of plain values; `--json` prints them and the text is made from them.

Their shape is described in doc/analysis-json.md.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.model import Run
from fabtrace.model.milestones import milestones
from fabtrace.model.series import (
    Edges,
    busy_in_slices,
    in_flight_in_slices,
    make_edges,
    payload_in_slices,
    states_in_slices,
)
from fabtrace.model.sessions import Session
from fabtrace.views.events import Window, list_events

SCHEMA = "fabtrace.timeline"
VERSION = 1
LANE_MARGIN = 26  # columns of a lane's line that are not the lane

Document = dict[str, Any]


def make_overview(run: Run, sessions: list[Session], process: str | None, width: int) -> Document:
    """A lane a session and a lane a worker over the whole run, `width` columns wide with their names."""
    slices = width - LANE_MARGIN
    edges = make_edges(run.begin_ns, run.end_ns, slices)
    labels = {session.process.label for session in sessions}
    workers = [w for w in run.workers if process is None or w.process.label in labels]
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "view": "overview",
        "trace": {"path": run.tables.source, "level": run.level},
        "begin_ns": run.begin_ns,
        "end_ns": run.end_ns,
        "slice_us": float(edges[1] - edges[0]) / 1e3,
        "sessions": [
            {
                "session": session.label,
                "outcome": session.outcome,
                "throughput_mib_s": session.mib_per_s,
                "lane_mib_s": rates(payload_in_slices(run, session, edges), edges),
            }
            for session in sessions
        ],
        "workers": [
            {
                "process": worker.process.label,
                "worker": worker.number,
                "utilisation": worker.utilisation,
                "lane_utilisation": [
                    None if math.isnan(value) else value
                    for value in busy_in_slices(run, worker, edges).tolist()
                ],
            }
            for worker in workers
        ],
    }


def rates(payload: npt.NDArray[np.int64], edges: Edges) -> list[float]:
    """Bytes in slices as MiB/s."""
    values: list[float] = (payload / 2**20 / (np.diff(edges) / 1e9)).tolist()
    return values


def make_timelines(run: Run, groups: list[list[Session]], options: argparse.Namespace) -> Document:
    """A timeline for each group of sessions (the two ends of one, or one end)."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "view": "sessions",
        "trace": {"path": run.tables.source, "level": run.level},
        "timelines": [make_timeline(run, group, options) for group in groups],
    }


def make_timeline(run: Run, group: list[Session], options: argparse.Namespace) -> Document:
    """The timeline of one group."""
    begin = min(session.begin_ns for session in group)
    end = max(session.last_ns for session in group)
    edges = make_edges(begin, end, options.slices)
    moments = sorted(moment for session in group for moment in milestones(run, session))
    document: Document = {
        "sessions": [session.label for session in group],
        "peer": group[0].peer.label if group[0].peer else None,
        "begin_ns": begin,
        "end_ns": end,
        "begin_in_trace_s": (begin - run.begin_ns) / 1e9,
        "milestones": [
            {
                "time_us": (moment.time_ns - begin) / 1e3,
                "session": moment.session,
                "what": moment.what,
                "text": moment.text,
            }
            for moment in moments
        ],
        "slices": make_slices(run, group, edges),
    }
    if options.events:
        last = end if options.end is None else begin + options.end
        window = Window(begin + (options.begin or 0), last, options.limit)
        listing = list_events(run, group, begin, window)
        document["events"] = {
            "left_out_before": listing.before,
            "left_out_after": listing.after,
            "rows": listing.rows,
        }
    return document


def make_slices(run: Run, group: list[Session], edges: Edges) -> list[Document]:
    """Slice by slice what each end did. What the level did not record is null or empty."""
    slices: list[Document] = [
        {"begin_us": float(low) / 1e3, "end_us": float(high) / 1e3, "ends": {}}
        for low, high in zip(edges[:-1] - edges[0], edges[1:] - edges[0])
    ]
    for session in group:
        payload = payload_in_slices(run, session, edges)
        speed = rates(payload, edges)
        flight = in_flight_in_slices(run, session, edges)
        waits = states_in_slices(run.states.of(session.key), edges, "state")
        for index, document in enumerate(slices):
            document["ends"][session.label] = {
                "payload_bytes": int(payload[index]),
                "throughput_mib_s": speed[index],
                "in_flight": float(flight[index]) if run.has_operations else None,
                "state_shares": waits[index],
            }
    return slices
