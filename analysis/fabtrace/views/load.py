# SPDX-License-Identifier: BSD-3-Clause
"""From the folder on the command line to the model, with a sign of life while that takes long."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from fabtrace.errors import FabtraceError
from fabtrace.model import Run, build
from fabtrace.model.bounded import build_bounded
from fabtrace.reader import read
from fabtrace.tables import Tables


def add_trace_command(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], name: str, **about: Any
) -> argparse.ArgumentParser:
    """A command that takes a trace's folder. `about`: its help, description and epilog."""
    parser: argparse.ArgumentParser = subparsers.add_parser(name, **about)
    parser.add_argument("folder", metavar="DIR", help="what `fabtrace record -o DIR` made")
    return parser


def add_load_options(parser: argparse.ArgumentParser) -> None:
    """The options that say how a trace is taken."""
    parser.add_argument(
        "--no-clock-sync",
        action="store_true",
        help="take the hosts' clocks as they are; by default the offset and drift between hosts that "
        "the messages show is taken out",
    )


def load_run(folder: str, options: argparse.Namespace | None = None) -> Run:
    """Read a trace, align its hosts' clocks, and build its model."""
    tables = load_tables(folder)
    return build(tables, align_clocks=not (options is not None and options.no_clock_sync))


def load_summary(folder: str) -> Run:
    """Read a trace and build what of its model takes bounded memory, by the hosts' clocks as they are."""
    return build_bounded(load_tables(folder))


def load_tables(folder: str) -> Tables:
    """Read a trace; FabtraceError if it has no event."""
    tables = read_visibly(folder)
    if not tables.events:
        raise FabtraceError(
            f"{folder} holds no event: the recorded programs ended before they began a run, or wrote "
            f"nothing while they were recorded; see what they print, and record again with "
            f"`fabtrace record -o DIR -- COMMAND`"
        )
    return tables


def read_visibly(folder: str) -> Tables:
    """Read a trace; on a terminal it shows how far it is."""
    if not sys.stderr.isatty():
        return read(folder)

    def show(events: int) -> None:
        print(f"\rfabtrace: reading {folder}: {events:,} events", end="", file=sys.stderr)

    try:
        return read(folder, progress=show)
    finally:
        print("\r\033[K", end="", file=sys.stderr)
