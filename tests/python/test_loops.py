# SPDX-License-Identifier: BSD-3-Clause
"""What the library's loops give is what numpy gives without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import BUILD, Emitted
from fabtrace.model import build, loops
from fabtrace.model.keys import Groups, dense_writers, extents, session_index
from fabtrace.model.operations import join
from fabtrace.reader import read
from fabtrace.tables import Table
from fabtrace.views.report_document import make_report

pytestmark = pytest.mark.skipif(
    not (BUILD / "analysis/native").exists(), reason="the library is not built"
)


def both(monkeypatch: pytest.MonkeyPatch, made: Callable[[], Any]) -> tuple[Any, Any]:
    """What a function gives with the library, and without it."""
    assert loops.library() is not None
    fast = made()
    with monkeypatch.context() as patch:
        patch.setattr(loops, "library", lambda: None)
        return fast, made()


def same(one: Any, other: Any) -> bool:
    """Whether arrays, or sequences of them, are equal, in type too."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other))


def make_tables(seed: int, rows: int) -> list[Table]:
    """Two tables of a few processes' sessions, the listening endpoint among them; one is signed."""
    chance = np.random.default_rng(seed)
    instances = chance.integers(0, 1 << 22, 3)
    found = []
    for kind in (np.uint32, np.int32):
        writer = (instances[chance.integers(0, 3, rows)] << 10) + chance.integers(0, 4, rows)
        session = chance.integers(-1, 9, rows).astype(np.int32).view(kind)
        columns = {
            "timestamp_ns": np.arange(rows),
            "writer": writer.astype(np.uint32),
            "session": session,
        }
        found.append(Table("op_post", columns))
    return found


@pytest.mark.parametrize("rows", [0, 1, 7, 5000])
def test_keys(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Description: sessions and writers of some tables, of none of their rows too."""
    for seed in range(5):
        one, other = make_tables(seed, rows)
        assert same(*both(monkeypatch, lambda: session_index(one, other)))
        assert same(*both(monkeypatch, lambda: dense_writers(one["writer"])))


def test_more_keys_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Description: then numpy does it."""
    monkeypatch.setattr(loops, "MOST_KEYS", 10)
    one, other = make_tables(1, 100)
    assert loops.number_keys([(one["writer"], one["session"])], 10) is None
    assert same(*both(monkeypatch, lambda: session_index(one, other)))


def test_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Description: rows by group, with groups that have none; and indexes of other types."""
    chance = np.random.default_rng(4)
    for kind in (np.int32, np.uint8, np.int64):
        index = chance.integers(0, 50, 1000).astype(kind)
        fast, slow = both(monkeypatch, lambda: Groups(index, 60))
        assert same([fast.order, fast.starts], [slow.order, slow.starts])
        assert same(*both(monkeypatch, lambda: extents(index, 60)))


@pytest.mark.parametrize("seed", range(20))
def test_joins(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Description: rows lost on both sides, and in some cases numbers that stand twice."""
    chance = random.Random(seed)
    rows = [(owner, op) for owner in range(3) for op in range(1, chance.randrange(2, 300))]

    def side() -> tuple[Any, Any]:
        kept = [row for row in rows if chance.random() < 0.9]
        chance.shuffle(kept)
        if kept and seed % 4 == 0:
            kept += kept[:3]
        owners, ops = zip(*kept) if kept else ((), ())
        return np.array(owners, np.int32), np.array(ops, np.uint64)

    left, right = side(), side()
    assert same(*both(monkeypatch, lambda: join(3, *left, *right)))


def test_reports(emitted: Emitted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Description: a whole report."""
    tables = read(emitted("--full"))
    fast, slow = both(monkeypatch, lambda: make_report(build(tables)))
    assert fast == slow
