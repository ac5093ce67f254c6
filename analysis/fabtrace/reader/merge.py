# SPDX-License-Identifier: BSD-3-Clause
"""From the children's spill files, each with rows of some streams, to one file of columns in time order.

Of every stream the current segment is looked at; the rows up to the earliest of their ends can be
merged, whatever comes later. So memory is bounded by streams x segment, whatever the trace's length.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace.reader import native
from fabtrace.reader.store import ColumnsFile, roles_of
from fabtrace.tables import ELEMENTS, STREAM, TIMESTAMP, Column, Ragged, dtype_of, kinds_of

ALIGNMENT = 8  # of arrays in a segment
NO_SHIFT = np.zeros(0, np.uint16)


@dataclass(frozen=True)
class Segment:
    """Rows of one event from one stream, in a mapped spill file."""

    data: mmap.mmap
    offset: int
    size: int
    rows: int
    shift: npt.NDArray[np.uint16]  # from the child's numbers of streams to ours

    def arrays(self, event: str) -> dict[str, tuple[Column, Column | None]]:
        """Views of the columns: the values, and the lengths of ragged rows."""
        found: dict[str, tuple[Column, Column | None]] = {}
        offset = self.offset
        for name, kind in kinds_of(event).items():
            lengths = None
            count = self.rows
            if kind in ELEMENTS:
                lengths = np.frombuffer(self.data, np.uint32, self.rows, offset)
                offset += aligned(lengths.nbytes)
                count = int(lengths.sum(dtype=np.int64))
            dtype = np.dtype(ELEMENTS.get(kind, dtype_of(kind)))
            values = np.frombuffer(self.data, dtype, count, offset) if count else np.zeros(0, dtype)
            offset += aligned(count * dtype.itemsize)
            if name == STREAM:
                values = self.shift[values]
            found[name] = (values, lengths)
        return found

    def release(self) -> None:
        """Give its memory back: the file keeps the rows. Pages that others share stay."""
        begin = -(-self.offset // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (self.offset + self.size) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > begin:
            self.data.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def aligned(size: int) -> int:
    """The size of an array in a segment with its padding."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass
class Input:
    """One stream's rows of one event that are still to come: the current segment and those after it."""

    event: str
    segments: Iterator[Segment]
    arrays: dict[str, tuple[Column, Column | None]]
    starts: dict[str, npt.NDArray[np.int64]]  # of ragged columns
    at: int = 0  # rows of the current segment that are merged
    current: Segment | None = None

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """The times of the rows of the current segment that are still to come."""
        return self.arrays[TIMESTAMP][0][self.at :]

    def advance(self, rows: int) -> bool:
        """Leave rows behind; at the end of a segment go to the next. False: there is none."""
        self.at += rows
        return self.at < len(self.arrays[TIMESTAMP][0]) or self.next_segment()

    def next_segment(self) -> bool:
        """Go to the next segment. False: there is none."""
        if self.current is not None:
            self.arrays.clear()
            self.current.release()
        self.current = segment = next(self.segments, None)
        if segment is None:
            return False
        self.arrays, self.at = segment.arrays(self.event), 0
        self.starts = {
            name: np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
            for name, (_, lengths) in self.arrays.items()
            if lengths is not None
        }
        return True


Segments = dict[str, list[list[Segment]]]  # event → for each stream its segments


def collect_segments(
    spill: Path, description: dict[str, Any], shift: npt.NDArray[np.uint16], segments: Segments
) -> None:
    """Add the segments of a child's spill file. Its mapping lives as long as they do."""
    if not description["segments"]:
        return
    with spill.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    sources: dict[tuple[str, int], list[Segment]] = {}
    for event, source, offset, rows, size in description["segments"]:
        sources.setdefault((event, source), []).append(Segment(data, offset, size, rows, shift))
    for (event, _), found in sources.items():
        segments.setdefault(event, []).append(found)


def merge(segments: Segments, output: ColumnsFile, threads: int) -> None:
    """Write all tables, the largest first."""
    for event, sources in segments.items():
        # Rows of the same time stand in the order of their streams.
        sources.sort(key=lambda part: int(part[0].arrays(event)[STREAM][0][0]))
        lay_out(event, sources, output)
    sizes = {
        event: sum(s.rows for part in parts for s in part) for event, parts in segments.items()
    }
    order = sorted(segments, key=lambda event: -sizes[event])
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(merge_event, e, segments[e], output) for e in order]:
            done.result()


def lay_out(event: str, sources: Sequence[Sequence[Segment]], output: ColumnsFile) -> None:
    """Reserve the places of an event's columns."""
    rows = sum(segment.rows for part in sources for segment in part)
    elements: dict[str, int] = {}
    if any(kind in ELEMENTS for kind in kinds_of(event).values()):
        for part in sources:
            for segment in part:
                for name, (values, lengths) in segment.arrays(event).items():
                    if lengths is not None:
                        elements[name] = elements.get(name, 0) + len(values)
    for name, kind in kinds_of(event).items():
        for role, dtype in roles_of(kind):
            if kind not in ELEMENTS:
                count = rows
            else:
                count = rows + 1 if role == "starts" else elements.get(name, 0)
            output.lay_out(event, name, role, dtype, count)


def merge_event(event: str, sources: Sequence[Sequence[Segment]], output: ColumnsFile) -> None:
    """Merge one event's rows of all streams."""
    inputs = [Input(event, iter(part), {}, {}) for part in sources]
    live = [item for item in inputs if item.next_segment()]
    written = {name: 0 for name, kind in kinds_of(event).items() if kind in ELEMENTS}
    for name in written:
        output.append(event, name, "starts", np.zeros(1, np.int64))
    last, ordered = np.iinfo(np.int64).min, True
    while live:
        until = min(int(item.times[-1]) for item in live)
        counts = [rows_until(item, until, live) for item in live]
        begin, end = merge_window(event, live, counts, output, written)
        ordered = ordered and begin >= last
        last = end
        live = [item for item, count in zip(live, counts) if item.advance(count)]
    if not ordered:
        sort_event(event, output)


def order_of(times: Sequence[npt.NDArray[np.int64]]) -> native.Runs:
    """Where the rows of a window come from. Streams are in time order, unless a clock went back."""
    try:
        return native.merge_order(times)
    except ValueError:
        order = np.argsort(np.concatenate(times), kind="stable")
        begins = np.concatenate([[0], np.cumsum([len(part) for part in times])])
        runs = np.ones(len(order), native.RUN)
        runs["source"] = np.searchsorted(begins, order, side="right") - 1
        runs["first"] = order - begins[runs["source"]]
        return runs


def sort_event(event: str, output: ColumnsFile) -> None:
    """Bring a table into time order: a stream's clock went back between two windows."""
    times = output.view(event, TIMESTAMP, "values")
    begin, end = disorder(times)
    order = np.argsort(times[begin:end], kind="stable")
    del times
    for name, kind in kinds_of(event).items():
        values = output.view(event, name, "values")
        if kind in ELEMENTS:
            starts = output.view(event, name, "starts")
            rows = np.arange(len(starts) - 1)
            rows[begin:end] = begin + order
            found = Ragged(starts, values).rows(rows)
            starts[:], values[:] = found.starts, found.values
        else:
            values[begin:end] = values[begin:end][order]


def disorder(times: npt.NDArray[np.int64]) -> tuple[int, int]:
    """The rows that are out of order, from the first to the last; those outside can stay where they are.

    times   1 2 5 6 3 4 6 7     (2, 6): nothing before it is later than 3, nothing after it earlier than 6
    """
    falls = np.flatnonzero(times[1:] < times[:-1])
    if not len(falls):
        return 0, 0
    first, last = int(falls[0]) + 1, int(falls[-1]) + 1
    begin = np.searchsorted(times[:first], times[first:].min(), side="right")
    end = last + np.searchsorted(times[last:], times[:last].max(), side="left")
    return int(begin), int(end)


def rows_until(item: Input, until: int, live: Sequence[Input]) -> int:
    """How many rows may be merged now: those before `until`, and those at it where order allows.

    Rows at that very time may also begin the next segment of the stream that ends here; streams
    before it come first, those after it must wait.
    """
    first = next(n for n, other in enumerate(live) if int(other.times[-1]) == until)
    mine = next(n for n, other in enumerate(live) if other is item)
    if mine == first:
        return len(item.times)
    side: Any = "right" if mine < first else "left"
    return int(np.searchsorted(item.times, until, side=side))


def merge_window(
    event: str,
    live: Sequence[Input],
    counts: Sequence[int],
    output: ColumnsFile,
    written: dict[str, int],
) -> tuple[int, int]:
    """Append the next so many rows of each stream to the columns; returns the first and last time."""
    busy = [(item, count) for item, count in zip(live, counts) if count]
    runs = order_of([item.times[:count] for item, count in busy])
    begin = end = 0
    for name, kind in kinds_of(event).items():
        if kind in ELEMENTS:
            merge_ragged(event, name, busy, runs, output, written)
            continue
        parts = [item.arrays[name][0][item.at : item.at + count] for item, count in busy]
        values = parts[0] if len(runs) == 1 else native.gather(parts, runs)
        output.append(event, name, "values", values)
        if name == TIMESTAMP:
            begin, end = int(values[0]), int(values[-1])
    return begin, end


def merge_ragged(
    event: str,
    name: str,
    busy: Sequence[tuple[Input, int]],
    runs: native.Runs,
    output: ColumnsFile,
    written: dict[str, int],
) -> None:
    """The same for a column whose rows have lengths: runs of rows become runs of elements."""
    lengths = [
        np.diff(item.starts[name][item.at : item.at + count + 1]).astype(np.uint32)
        for item, count in busy
    ]
    values = [
        item.arrays[name][0][item.starts[name][item.at] : item.starts[name][item.at + count]]
        for item, count in busy
    ]
    bounds = [np.concatenate([[0], np.cumsum(part, dtype=np.int64)]) for part in lengths]
    elements = runs.copy()
    for number, bound in enumerate(bounds):
        mine = runs["source"] == number
        first = runs["first"][mine].astype(np.int64)
        elements["first"][mine] = bound[first]
        elements["count"][mine] = bound[first + runs["count"][mine]] - bound[first]
    merged = native.gather(lengths, runs)
    starts = written[name] + np.cumsum(merged, dtype=np.int64)
    output.append(event, name, "starts", starts)
    output.append(event, name, "values", native.gather(values, elements))
    written[name] = int(starts[-1]) if len(starts) else written[name]
