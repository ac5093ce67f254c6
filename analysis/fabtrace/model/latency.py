# SPDX-License-Identifier: BSD-3-Clause
"""How long operations took, over all of them and by what they have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.model.keys import Groups, Index
from fabtrace.model.operations import Operations
from fabtrace.model.percentiles import nearest_rank

PERCENTS = ("50", "90", "99", "99.9", "99.99")

DEFINITION = (
    "time of op_complete - (time of op_post - call_ns), of operations that completed with status ok "
    "and whose post is in the trace; of a receive that is how long it waited for its message"
)


@dataclass(frozen=True)
class Summary:
    """What samples in ns have in common: `percentiles_ns` belong to PERCENTS; all None without samples."""

    count: int
    percentiles_ns: tuple[int | None, ...]
    max_ns: int | None
    mean_ns: float | None


@dataclass(frozen=True)
class KindLatency:
    """Latencies of one kind of operation over all sessions, in ns, and how the others ended."""

    kind: str
    summary: Summary
    errors: int
    cancelled: int
    abandoned: int

    @property
    def count(self) -> int:
        """How many samples there are."""
        return self.summary.count


def summarise(samples: npt.NDArray[np.int64]) -> Summary:
    """Percentiles and the rest of some latencies in ns."""
    if not len(samples):
        return Summary(0, (None,) * len(PERCENTS), None, None)
    return Summary(
        len(samples),
        tuple(nearest_rank(samples, PERCENTS)),
        int(samples.max()),
        float(samples.mean()),
    )


@dataclass(frozen=True)
class KindSamples:
    """Operations of one kind, a code: latencies in ns of those that went well, how the others ended."""

    kind: int
    samples: npt.NDArray[np.int64]
    errors: int
    cancelled: int
    abandoned: int


def by_kind(operations: Operations) -> Iterator[KindSamples]:
    """Each kind of operation that occurs, in the catalogue's order."""
    known = catalogue.load()
    groups = Groups(operations.kind, 256)
    for code in np.flatnonzero(np.diff(groups.starts)).tolist():
        mine = operations.rows(groups.of(code))
        good = mine.succeeded
        bad = mine.rows(np.flatnonzero(mine.ended & ~good))
        ended_as = np.bincount(bad.status[bad.completed], minlength=3)
        yield KindSamples(
            kind=code,
            samples=mine.latency_ns if good.all() else mine.latency_ns[good],
            errors=int(ended_as[known.code("status", "error")]),
            cancelled=int(ended_as[known.code("status", "cancelled")]),
            abandoned=int(np.count_nonzero(~bad.completed)),
        )


def build_latency(operations: Operations) -> list[KindLatency]:
    """A row for each kind of operation that occurs, in the catalogue's order."""
    label = catalogue.load().label
    return [
        KindLatency(
            label("kind", part.kind),
            summarise(part.samples),
            part.errors,
            part.cancelled,
            part.abandoned,
        )
        for part in by_kind(operations)
    ]


def by_group(samples: npt.NDArray[np.int64], index: Index, groups: int) -> list[Summary]:
    """A summary a group; `index` is each sample's group."""
    made = Groups(index, groups)
    return [summarise(samples[made.of(group)]) for group in range(groups)]


def size_classes(len_bytes: npt.NDArray[np.int64]) -> tuple[Index, list[str]]:
    """Each length's class, and the classes: 0, 1, 2-3, 4-7, ... bytes, those in between included."""
    if not len(len_bytes):
        return np.zeros(0, np.int32), []
    # frexp's exponent of an integer is its number of bits, exact up to 2^53.
    bits = np.frexp(np.maximum(len_bytes, 0).astype(np.float64))[1].astype(np.int32)
    low, high = int(bits.min()), int(bits.max())
    return bits - np.int32(low), [class_name(bit) for bit in range(low, high + 1)]


def class_name(bits: int) -> str:
    """The lengths of so many bits, in bytes."""
    first, last = (1 << bits) >> 1, (1 << bits) - 1
    return str(last) if first >= last else f"{first}-{last}"


def slowest(operations: Operations, number: int) -> Operations:
    """The operations that took longest, the slowest first. Only those that succeeded count."""
    good = np.flatnonzero(operations.succeeded)
    latency = operations.latency_ns[good]
    number = min(number, len(good))
    if not number:
        return operations.rows(good[:0])
    top = np.argpartition(latency, len(latency) - number)[len(latency) - number :]
    # Equal ones in the order of their posts, so that the same trace gives the same list.
    top = top[np.lexsort((top, -latency[top]))]
    return operations.rows(good[top])


def is_receive(kinds: Sequence[str]) -> npt.NDArray[np.bool_]:
    """For each label of a kind whether it is a receive, whose time is no cost."""
    return np.array([kind.endswith("_rx") for kind in kinds])
