# SPDX-License-Identifier: BSD-3-Clause
"""Counts a trace's events with the analysis's own reader if it can be used, else from babeltrace2's text.

The reader is several times as fast, and keeps the columns that it makes, so that the first
`fabtrace report` need not make them. It needs its plugin, and about 60 bytes of disk an event.
It runs in a child, which a signal ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING

from fabtrace.errors import FabtraceError
from fabtrace.record import buffers, processes, tally
from fabtrace.record.signals import Signals

if TYPE_CHECKING:
    from fabtrace.tables import Tables

# Columns and what is needed to make them, for each byte of a trace.
ROOM_A_BYTE = 4
ROOM_LEFT_BYTES = buffers.GIB


def count(folder: Path, signals: Signals) -> tally.Tally:
    """Count the events of a trace. Raises tally.Interrupted when a signal comes."""
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    if size * ROOM_A_BYTE + ROOM_LEFT_BYTES <= buffers.room_bytes(folder):
        counted = by_reader(folder, signals)
        if counted is not None:
            return counted
    return tally.count(folder, signals)


def by_reader(folder: Path, signals: Signals) -> tally.Tally | None:
    """Count with the reader; None if it can't, whatever the reason: the text tells that too."""
    ours, theirs = multiprocessing.get_context("fork").Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_read, args=(folder, theirs))
    child.start()
    theirs.close()
    assert child.pid is not None
    try:
        while signals.fd in wait([ours, signals.fd]):
            if signals.collect():
                raise tally.Interrupted
        result = ours.recv()
    except EOFError:
        return None
    finally:
        if child.is_alive():
            processes.wait_or_kill(processes.family(child.pid), 0)
        child.join()
        ours.close()
    return result if isinstance(result, tally.Tally) else None


def _read(folder: Path, connection: Connection) -> None:
    """What the child does."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)  # the parent decides
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    try:
        from fabtrace.reader import read

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tables = read(folder)
        connection.send(None if tables.problems else from_tables(tables))
    except (FabtraceError, ImportError):
        connection.send(None)


def from_tables(tables: Tables) -> tally.Tally:
    """The same counts from columns."""
    import numpy as np

    from fabtrace import catalogue

    known = catalogue.load()
    counted = tally.Tally(declared={name.encode() for name in tables.declared})
    for name, table in tables.tables.items():
        writers, seq = table["writer"], table["seq"]
        for writer in np.unique(writers).tolist():
            numbers = seq[writers == writer]
            series = (writer, name.encode())
            counted.note_series(series, len(numbers), int(numbers.min()), int(numbers.max()))
    table = tables["emitted"]
    for writer, event, number in zip(
        table["writer"].tolist(), table["event"].tolist(), table["count"].tolist()
    ):
        counted.note_end((writer, known.label("event", event).encode()), number)
    table = tables["process"]
    names = ("writer", "cause", "role", "pid", "run_id")
    for writer, cause, role, pid, run in zip(*(table[name].tolist() for name in names)):
        counted.note_process(
            writer, known.label("cause", cause), known.label("role", role), pid, run
        )
    return counted
