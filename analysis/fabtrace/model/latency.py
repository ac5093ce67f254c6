# SPDX-License-Identifier: BSD-3-Clause
"""How long operations took."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabtrace import catalogue
from fabtrace.model.operations import End, Operations
from fabtrace.model.percentiles import nearest_rank

PERCENTS = ("50", "90", "99", "99.9")

DEFINITION = (
    "time of op_complete - (time of op_post - call_ns), of operations that completed with status ok "
    "and whose post is in the trace; of a receive that is how long it waited for its message"
)


@dataclass(frozen=True)
class KindLatency:
    """Latencies of one kind of operation over all sessions, in ns, and how the others ended.

    `percentiles_ns` belong to PERCENTS; they and `max_ns` are empty or None if `count` is 0.
    """

    kind: str
    count: int
    percentiles_ns: tuple[int, ...]
    max_ns: int | None
    errors: int
    cancelled: int
    abandoned: int


def build_latency(operations: Operations) -> list[KindLatency]:
    """A row for each kind of operation that occurs, in the catalogue's order."""
    known = catalogue.load()
    ended = operations.end == End.COMPLETED
    rows = []
    for code in np.unique(operations.kind).tolist():
        mine = operations.kind == code
        samples = operations.latency_ns[mine & operations.succeeded]

        def with_status(label: str) -> int:
            return int(np.sum(mine & ended & (operations.status == known.code("status", label))))

        rows.append(
            KindLatency(
                kind=known.label("kind", code),
                count=len(samples),
                percentiles_ns=tuple(nearest_rank(samples, PERCENTS)) if len(samples) else (),
                max_ns=int(samples.max()) if len(samples) else None,
                errors=with_status("error"),
                cancelled=with_status("cancelled"),
                abandoned=int(np.sum(mine & (operations.end == End.ABANDONED))),
            )
        )
    return rows
