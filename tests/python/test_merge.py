# SPDX-License-Identifier: BSD-3-Clause
"""Merging of segments, as children write them, into one table in time order."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import BUILD
from fabtrace.reader import native
from fabtrace.reader.merge import Segment, Segments, disorder, merge
from fabtrace.reader.store import ColumnsFile, open_columns
from fabtrace.tables import (
    ELEMENTS,
    STREAM,
    TIMESTAMP,
    Ragged,
    Table,
    Tables,
    join_tables,
    kinds_of,
    make_table,
)

DOCUMENT: dict[str, Any] = {
    "key": "k", "source": "", "declared": [], "environments": [], "streams": [],
    "discarded": [], "missing": {}, "problems": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def plugin() -> None:
    """Merging is done by the plugin's functions."""
    if not (BUILD / "analysis" / "native" / native.FILE).exists():
        pytest.skip(f"{native.FILE} is missing: build it, or set FABT_BUILD")


def rows_of(chance: np.random.Generator, count: int, stream: int, back: bool) -> Table:
    """Random events with text; times that repeat, and go back now and then if asked."""
    times = np.cumsum(chance.integers(0, 3, count))
    if back and count:
        times[chance.integers(0, count, 1 + count // 10)] -= 40
    texts = ["x" * int(n) for n in chance.integers(0, 4, count)]
    columns = {TIMESTAMP: times, "text": texts, STREAM: [stream] * count, "op": np.arange(count)}
    made = {name: columns.get(name) for name in kinds_of("error")}
    # Not sorted, as make_table would do it.
    whole = make_table("error", {n: v for n, v in made.items() if n != TIMESTAMP and v is not None})
    return Table("error", {**whole.columns, TIMESTAMP: times.astype(np.int64)})


def pack(table: Table) -> bytes:
    """A segment as spill.h describes it."""
    packed = b""
    for name, kind in kinds_of(table.event).items():
        column = table.columns[name]
        parts: list[Any] = [column]
        if isinstance(column, Ragged):
            assert kind in ELEMENTS
            used = column.values[column.starts[0] : column.starts[-1]]
            parts = [column.lengths.astype(np.uint32), used]
        for part in parts:
            data = part.tobytes()
            packed += data + bytes(-len(data) % 8)
    return packed


def segments_of(path: Path, tables: list[Table], rows: int) -> Segments:
    """The tables, one a stream, in a spill file with segments of so many rows."""
    found: list[list[tuple[int, int, int]]] = []
    content = b""
    for table in tables:
        found.append([])
        for begin in range(0, len(table), rows):
            piece = table.rows(slice(begin, begin + rows))
            packed = pack(piece)
            found[-1].append((len(content), len(packed), len(piece)))
            content += packed
    path.write_bytes(content)
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    same = np.arange(len(tables), dtype=np.uint16)
    sources = [[Segment(data, o, size, n, same) for o, size, n in part] for part in found if part]
    return {"error": sources}


def merged(folder: Path, segments: Segments) -> Tables:
    """The merged table, by way of a file."""
    with ColumnsFile(folder / "columns") as output:
        merge(segments, output, 2)
        output.finish({**DOCUMENT, "events": list(segments)})
    return open_columns(folder / "columns", "k")


@pytest.mark.parametrize("seed", range(40))
def test_only_what_is_out_of_order_moves(seed: int) -> None:
    """
    Description: sorting the rows between the first and the last that are out of order sorts all, and
    leaves those of equal times in their order; neither end of them is in its place.
    """
    chance = np.random.default_rng(seed)
    times = np.cumsum(chance.integers(0, 3, int(chance.integers(1, 300))))
    for _ in range(seed % 4):
        at = int(chance.integers(0, len(times)))
        times[at : at + int(chance.integers(1, 9))] += int(chance.integers(-30, 31))
    begin, end = disorder(times)
    order = np.arange(len(times))
    order[begin:end] = begin + np.argsort(times[begin:end], kind="stable")
    assert order.tolist() == np.argsort(times, kind="stable").tolist()
    assert begin == end or (order[begin] != begin and order[end - 1] != end - 1)
    assert disorder(np.array([1, 2, 5, 6, 3, 4, 6, 7])) == (2, 6)


@pytest.mark.parametrize("back", [False, True], ids=["in order", "clocks go back"])
@pytest.mark.parametrize("seed", range(12))
def test_merging_is_sorting(tmp_path: Path, seed: int, back: bool) -> None:
    """
    Description: streams of random lengths in segments of random sizes, with times that repeat within and
    between them, and clocks that go back: the table is what sorting all rows by time gives, with the
    streams' order among rows of the same time.
    """
    chance = np.random.default_rng(seed)
    counts = chance.integers(0, 120, int(chance.integers(1, 6))).tolist()
    counts[0] += 1  # there is a table only if there are rows
    tables = [rows_of(chance, n, stream, back) for stream, n in enumerate(counts)]
    rows = int(chance.integers(1, 40))
    found = merged(tmp_path, segments_of(tmp_path / "spill", tables, rows))["error"]
    expected = join_tables(
        [*(table for table in tables if len(table)), tables[0].rows(slice(0, 0))]
    )
    assert found.times.tolist() == expected.times.tolist()
    for name in (STREAM, "op", "text") if not back else ():
        assert found[name].tolist() == expected[name].tolist()
    # Rows of one time from a stream whose clock went back may stand in any order.
    names = (TIMESTAMP, STREAM, "op", "text")
    together = [sorted(zip(*(t[name].tolist() for name in names))) for t in (found, expected)]
    assert together[0] == together[1]
