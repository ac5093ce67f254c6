# SPDX-License-Identifier: BSD-3-Clause
"""The tables between reading and the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fabtrace.tables import Ragged, Stream, Table, Tables, join_tables, make_ragged, make_table

ROWS = [[1, 2, 3], [], [4], [5, 6], []]


def sends(times: list[int]) -> Table:
    """An event with its number as operation number."""
    return make_table("op_post", {"timestamp_ns": times, "op": list(range(len(times)))})


def whole(times: list[int]) -> Tables:
    posts, phases = sends(times), make_table("session_phase", {"timestamp_ns": times[::3]})
    return Tables({"op_post": posts, "session_phase": phases}, frozenset())


@pytest.mark.parametrize(
    "selection",
    [slice(1, 4), slice(0, 0), slice(3, 1), slice(None, None, 2), [4, 0, 0], np.arange(5) % 2 == 0],
    ids=str,
)
def test_ragged_rows_are_those_of_a_list(selection: Any) -> None:
    """
    Description: rows chosen by slice, index or mask are the rows that numpy chooses of objects.
    """
    column = make_ragged(ROWS, "list64")
    chosen = column.rows(selection)
    expected = column.objects()[selection]
    assert [row.tolist() for row in chosen.objects()] == [row.tolist() for row in expected]
    assert chosen.lengths.tolist() == [len(row) for row in expected]


def test_text_and_bytes() -> None:
    assert make_ragged(["", "µs", "x"], "text").objects().tolist() == ["", "µs", "x"]
    spoiled = Ragged(np.array([0, 2]), np.array([0xFF, 0x41], np.uint8), text=True)
    assert spoiled.objects().tolist() == ["\ufffdA"]
    assert make_ragged([[97, 98]], "bytes").values.dtype == np.uint8


def test_a_table_has_every_column_in_time_order() -> None:
    table = make_table("error", {"timestamp_ns": [5, 3, 4], "text": ["five", "three", "four"]})
    assert table["text"].tolist() == ["three", "four", "five"]
    assert table["code"].tolist() == [0, 0, 0] and table["stream"].dtype == np.uint16


def test_joined_tables_keep_the_order_of_streams() -> None:
    first = make_table("error", {"timestamp_ns": [1, 3], "text": ["a", "b"], "code": [1, 2]})
    second = make_table("error", {"timestamp_ns": [1, 2], "text": ["c", ""], "code": [3, 4]})
    joined = join_tables([first.rows(slice(0, 2)), second])
    assert joined["code"].tolist() == [1, 3, 4, 2]
    assert joined["text"].tolist() == ["a", "c", "", "b"]


@pytest.mark.parametrize("events", [1, 7, 64, 1000, 10**9])
def test_windows_are_the_whole_in_order(events: int) -> None:
    """
    Description: windows put together are the tables, each cut at the same times, none far too large,
    and events of one time are never in two of them.
    """
    times = sorted(int(t) for t in np.random.default_rng(1).integers(0, 5000, 4000))
    tables = whole(times)
    parts = list(tables.windows(events))
    for event, table in tables.tables.items():
        assert sum((p[event].times.tolist() for p in parts), []) == table.times.tolist()
    filled = [part for part in parts if part.events]
    spans = [
        (min(t.times[0] for t in p.tables.values() if len(t)),
         max(t.times[-1] for t in p.tables.values() if len(t)))
        for p in filled
    ]  # fmt: skip
    assert all(before[1] < after[0] for before, after in zip(spans, spans[1:]))
    assert max(part.events for part in parts) <= 2 * events + 64 or events == 1


def test_windows_release_what_was_seen() -> None:
    released: list[int] = []
    tables = Tables({"op_post": sends([1, 2, 3])}, frozenset(), release=lambda: released.append(1))
    before = []
    for _ in tables.windows(1):
        before.append(len(released))
    assert len(before) >= 2 and all(a < b for a, b in zip(before, [*before[1:], len(released)]))


def test_processors_come_from_the_streams() -> None:
    table = make_table("op_post", {"timestamp_ns": [1, 2], "stream": [1, 0]})
    streams = (Stream("c_0", 0, 0), Stream("c_1", 1, 3))
    tables = Tables({"op_post": table}, frozenset(), streams=streams)
    assert tables.cpus(table).tolist() == [3, 0] and tables.hosts(table).tolist() == [1, 0]
    assert Tables({"op_post": table}, frozenset()).cpus(table).tolist() == [-1, -1]
