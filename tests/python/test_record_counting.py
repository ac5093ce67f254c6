# SPDX-License-Identifier: BSD-3-Clause
"""The recorder's count of a trace: with the reader and from babeltrace2's text it is the same."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from conftest import Emitted

from fabtrace.record import buffers, counting, tally
from fabtrace.record.signals import Signals


@pytest.mark.parametrize("options", [[], ["--full"], ["--kill"], ["--one-sided"]])
def test_both_ways_count_alike(emitted: Emitted, options: list[str]) -> None:
    folder = emitted(*options)
    with Signals() as signals:
        text = tally.count(folder, signals)
        columns = counting.by_reader(folder, signals)
    assert columns == text
    assert columns is not None and columns.events > 500 and columns.lost == 0


def test_lost_events_count_alike(emitted: Emitted) -> None:
    """What there was is changed instead of the trace: more of one name, an earlier begin of another."""
    folder = emitted()
    with Signals() as signals:
        text, columns = tally.count(folder, signals), counting.by_reader(folder, signals)
    assert columns is not None
    for counted in (text, columns):
        series = max(counted.counts, key=lambda series: counted.counts[series])
        counted.note_end(series, counted.ends[series] + 7)
        counted.counts[series] -= 5
    assert text == columns and text.lost == columns.lost == 12


def test_what_nobody_asked_for_is_not_lost(emitted: Emitted) -> None:
    """A writer also counts the events that only another recording takes."""
    folder = emitted()
    with Signals() as signals:
        text, columns = tally.count(folder, signals), counting.by_reader(folder, signals)
    assert columns is not None and columns.declared == text.declared
    for counted in (text, columns):
        writer = min(counted.ends)[0]
        counted.note_end((writer, b"of_another_level"), 1000)
        assert counted.lost == 0
        counted.declared.add(b"of_another_level")
        assert counted.lost == 1000


def test_what_the_reader_refuses_is_counted_from_the_text(
    monkeypatch: pytest.MonkeyPatch, emitted: Emitted
) -> None:
    folder = emitted()
    monkeypatch.setattr("fabtrace.reader.native.places", lambda: [])
    monkeypatch.setenv("FABTRACE_CACHE", "off")
    with Signals() as signals:
        assert counting.by_reader(folder, signals) is None
        assert counting.count(folder, signals) == tally.count(folder, signals)


def test_without_room_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, emitted: Emitted) -> None:
    folder = emitted()
    monkeypatch.setattr(buffers, "room_bytes", lambda folder: buffers.GIB)
    monkeypatch.setattr(counting, "by_reader", lambda folder, signals: pytest.fail("was used"))
    with Signals() as signals:
        assert counting.count(folder, signals).events > 500


def test_a_signal_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Although the reader hangs; its process is gone."""

    def hang(folder: Path) -> None:
        threading.Event().wait()

    monkeypatch.setattr("fabtrace.reader.read", hang)
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(tally.Interrupted):
            counting.by_reader(tmp_path, signals)


def test_a_reader_that_dies_is_no_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fabtrace.reader.read", lambda folder: os._exit(9))
    with Signals() as signals:
        assert counting.by_reader(tmp_path, signals) is None
