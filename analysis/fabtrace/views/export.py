# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace export DIR`: the model and the events as tables for other programs."""

from __future__ import annotations

import argparse
import csv
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console

from fabtrace import catalogue
from fabtrace.errors import EXIT_USAGE, FabtraceError
from fabtrace.model import Run
from fabtrace.model.operations import UNKNOWN_NS, Operations
from fabtrace.model.states import Intervals, state_label
from fabtrace.tables import Ragged
from fabtrace.views import form
from fabtrace.views.report_document import session_row, worker_row
from fabtrace.views.view import Document, View, head

VERSION = 1
CHUNK = 100_000  # rows that become text at a time

Columns = dict[str, npt.NDArray[Any]]

DESCRIPTION = """\
Write the operations (posts joined with their completions), sessions, workers and states of a trace, and
with --events single events as they are, as tables: csv (a file a table, in a folder), npz (numpy, one file)
or hdf5 (one file). Names have their units; times are ns since the Unix epoch, aligned between hosts; an
unknown time is empty in csv and -2^63 elsewhere. doc/export.md lists the columns.
"""

EPILOG = """\
examples:
  fabtrace export run --format csv -o tables
  fabtrace export run --format npz -o run.npz --session put:0
  python3 -c "import numpy; print(numpy.load('run.npz')['operations/op'].size)"
"""


def options(parser: argparse.ArgumentParser) -> None:
    """The options of its own."""
    parser.add_argument(
        "--format", choices=tuple(WRITERS), default="csv", help="csv (default), npz or hdf5"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="PATH", help="a new folder (csv) or file"
    )
    parser.add_argument(
        "--events", action="append", default=[], metavar="NAME",
        help="also the events of this name, all fields (repeatable)",
    )  # fmt: skip


def make(run: Run, options_: argparse.Namespace) -> Document:
    """Write the tables; the document says what was written."""
    target = Path(options_.output)
    if target.exists():
        raise FabtraceError(f"-o {target}: is there already; name a new one", EXIT_USAGE)
    tables: dict[str, Columns] = {
        "operations": operation_columns(run, run.operations),
        "sessions": plain_columns([session_row(session, run) for session in run.sessions]),
        "workers": plain_columns([worker_row(worker) for worker in run.workers]),
        "states": interval_columns(run, run.states),
    }
    for event in options_.events:
        tables[f"event_{event}"] = event_columns(run, event)
    write(target, options_.format, tables)
    return {
        **head("export", VERSION, run),
        "format": options_.format,
        "output": str(target),
        "tables": {
            name: {"rows": len(next(iter(columns.values()), ())), "columns": list(columns)}
            for name, columns in tables.items()
        },
    }


def labels(enum: str, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Codes as labels."""
    known = catalogue.load()
    names = np.array([known.label(enum, code) for code in range(256)])
    taken: npt.NDArray[Any] = names[codes]
    return taken


def operation_columns(run: Run, operations: Operations) -> Columns:
    """The operations."""
    names = np.array([run.session_label(key) for key in operations.keys.tolist()] or [""])
    both = operations.posted & operations.ended
    return {
        "session": names[operations.owner] if len(operations) else np.zeros(0, "U1"),
        "op": operations.op,
        "kind": labels("kind", operations.kind),
        "begin_ns": operations.begin_ns,
        "call_ns": operations.call_ns,
        "end_ns": operations.end_ns,
        "latency_ns": np.where(both, operations.latency_ns, UNKNOWN_NS),
        "end": np.array(["not_seen", "completed", "abandoned"])[operations.end],
        "status": np.where(operations.completed, labels("status", operations.status), ""),
        "len_bytes": operations.len_bytes,
        "payload_bytes": operations.payload_bytes,
        "position": operations.position,
        "segments": operations.segments,
        "earlier_pending": operations.earlier,
    }


def interval_columns(run: Run, states: Intervals) -> Columns:
    """What sessions waited for."""
    names = np.array([run.session_label(key) for key in states.keys.tolist()] or [""])
    known = np.array([state_label("state", code) for code in range(256)])
    return {
        "session": names[states.owner] if len(states.owner) else np.zeros(0, "U1"),
        "state": known[states.state],
        "begin_ns": states.begin_ns,
        "end_ns": states.end_ns,
    }


def plain_columns(rows: list[Document]) -> Columns:
    """Rows of a document: their numbers and texts; lists and the like are left out."""
    if not rows:
        return {}
    columns: Columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if any(isinstance(value, (dict, list)) for value in values):
            continue
        if any(isinstance(value, str) for value in values):
            columns[name] = np.array(["" if value is None else str(value) for value in values])
        elif any(value is None or isinstance(value, float) for value in values):
            columns[name] = np.array([np.nan if v is None else float(v) for v in values])
        else:
            columns[name] = np.array(values)
    return columns


def event_columns(run: Run, event: str) -> Columns:
    """All events of a name within the run's time, all fields; sequences become text."""
    known = catalogue.load()
    if event not in known.events:
        raise FabtraceError(
            f"--events {event}: there is no such event; doc/events.md lists them", EXIT_USAGE
        )
    table = run.tables[event]
    low = int(np.searchsorted(table.times, run.begin_ns, side="left"))
    high = int(np.searchsorted(table.times, run.end_ns, side="right"))
    rows = table.rows(slice(low, high))
    enums = {item.name: item.enum for item in known.events[event].fields}
    columns: Columns = {}
    for name, column in rows.columns.items():
        enum = enums.get(name)
        if isinstance(column, Ragged):
            texts = [
                value if isinstance(value, str) else " ".join(map(str, value))
                for value in column.objects()
            ]
            columns[name] = np.array(texts) if texts else np.zeros(0, "U1")
        elif enum:
            columns[name] = labels(enum, column)
        else:
            columns[name] = column
    return columns


def write(target: Path, kind: str, tables: Mapping[str, Columns]) -> None:
    """Write the tables; nothing is left of what could not be written wholly."""
    try:
        WRITERS[kind](target, tables)
    except OSError as error:
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            with suppress(OSError):
                target.unlink()
        raise FabtraceError(
            f"-o {target}: cannot be written: {error.strerror or error}; name a path in a folder that you "
            f"may write to, on a disk with room"
        ) from None


def write_csv(target: Path, tables: Mapping[str, Columns]) -> None:
    """A folder with a file a table."""
    target.mkdir(parents=True)
    for name, columns in tables.items():
        with (target / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            length = len(next(iter(columns.values()), ()))
            for begin in range(0, length, CHUNK):
                part = [as_text(column[begin : begin + CHUNK]) for column in columns.values()]
                writer.writerows(zip(*part))


def as_text(column: npt.NDArray[Any]) -> list[Any]:
    """Values for csv: unknown times and NaN are empty."""
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f":
        return ["" if value != value else value for value in values]
    if column.dtype == np.int64 and bool(np.any(column == UNKNOWN_NS)):
        return ["" if value == UNKNOWN_NS else value for value in values]
    return values


def write_npz(target: Path, tables: Mapping[str, Columns]) -> None:
    """One file with an array a column, named table/column."""
    arrays = {
        f"{name}/{column}": values
        for name, columns in tables.items()
        for column, values in columns.items()
    }
    with target.open("xb") as file:
        np.savez_compressed(file, **arrays)


def write_hdf5(target: Path, tables: Mapping[str, Columns]) -> None:
    """One file with a group a table and a data set a column."""
    try:
        import h5py
    except ImportError:
        raise FabtraceError(
            "--format hdf5 needs h5py: apt-get install python3-h5py, or take npz"
        ) from None
    text = h5py.string_dtype()
    with h5py.File(target, "x") as file:
        file.attrs["schema"], file.attrs["version"] = "fabtrace.export", VERSION
        for name, columns in tables.items():
            group = file.create_group(name)
            for column, values in columns.items():
                if values.dtype.kind == "U":
                    group.create_dataset(column, data=values.astype(object), dtype=text)
                else:
                    group.create_dataset(column, data=values)


WRITERS = {"csv": write_csv, "npz": write_npz, "hdf5": write_hdf5}


def show(console: Console, document: Document) -> None:
    """What was written."""
    form.show(console, form.bold(f"{document['output']}: {document['format']}"))
    table = form.make_table("table", "rows", "columns", left=("table",))
    for name, about in document["tables"].items():
        table.add_row(name, form.count(about["rows"]), form.count(len(about["columns"])))
    form.show(console, table)


VIEW = View(
    "export", "operations, sessions, workers, states as csv, npz or hdf5",
    DESCRIPTION, EPILOG, make, show, options,
)  # fmt: skip
add_parser = VIEW.add_parser
