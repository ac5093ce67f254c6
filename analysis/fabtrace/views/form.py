# SPDX-License-Identifier: BSD-3-Clause
"""How the views show numbers, and where they print: one look for all tables."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

NARROWEST = 80
UNKNOWN = "-"


def make_console(width: int | None = None) -> Console:
    """Standard output as rich sees it.

    On a terminal as wide as that, and in colour; else 80 columns and plain, whatever the environment
    says, so that output in files does not depend on who made it.
    """
    terminal = sys.stdout.isatty()
    if width is None:
        width = max(NARROWEST, shutil.get_terminal_size().columns) if terminal else NARROWEST
    return Console(
        width=width,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        force_terminal=terminal,
        no_color=None if terminal else True,
    )


def print_json(document: dict[str, Any]) -> None:
    """A document for programs."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    print()


def make_table(*headers: str, left: Sequence[str] = ()) -> Table:
    """A plain table; columns named in `left` are left-aligned, the others, numbers, to the right.

    Where the table is too wide text is shortened; a number never is: it goes on in the next line.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for header in headers:
        if header in left:
            table.add_column(header, justify="left", no_wrap=True, overflow="ellipsis")
        else:
            table.add_column(header, justify="right", overflow="fold")
    return table


def bold(text: str) -> Text:
    """A text that stands out."""
    return Text(text, style="bold")


def paragraph(
    console: Console, text: str, first: str = "", rest: str = "", style: str = ""
) -> None:
    """Words, folded at the width; `first` and `rest` stand before the first line and the others."""
    for line in textwrap.wrap(text, console.width, initial_indent=first, subsequent_indent=rest):
        show(console, Text(line, style=style))


def fold(text: str, width: int) -> list[str]:
    """Lines of at most so many columns; at least one."""
    return textwrap.wrap(text, max(width, 20)) or [""]


def heading(console: Console, text: str) -> None:
    """The title of a section."""
    show(console)
    show(console, Text(text, style="bold cyan"))


def print_fitting(console: Console, *tables: Table) -> None:
    """Print the first table that fits the width; the last one whether it does or not."""
    for table in tables:
        if table is tables[-1] or table_width(console, table) <= console.width:
            show(console, table)
            return


def show(console: Console, what: Any = "", cut: bool = False) -> None:
    """Print something without the blanks that rich puts at the end of lines.

    `cut`: shorten lines that are too long instead of folding them.
    """
    with console.capture() as capture:
        console.print(what, no_wrap=cut or None, overflow="ellipsis" if cut else None)
    console.file.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))


def table_width(console: Console, table: Table) -> int:
    """The columns that a table takes when nothing is shortened."""
    unlimited = console.options.update(max_width=10_000)
    return Measurement.get(console, unlimited, table).maximum


def count(value: int | None, compact: bool = False) -> str:
    """A number of things: 1,234,567, or compact 1.23M."""
    if value is None:
        return UNKNOWN
    if compact and abs(value) >= 100_000:
        for unit, name in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
            if abs(value) >= unit:
                return three_digits(value / unit) + name
    return f"{value:,}"


def three_digits(value: float) -> str:
    """A number of up to a thousand with three significant digits."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def seconds(value: float | None) -> str:
    """Seconds with milliseconds."""
    return UNKNOWN if value is None else f"{value:,.3f}"


def rate(value: float | None) -> str:
    """A throughput."""
    return UNKNOWN if value is None else three_digits(value) if value < 1000 else f"{value:,.0f}"


def micros(value: float | None, compact: bool = False) -> str:
    """Microseconds: a digit behind the point while that says anything; compact without commas."""
    if value is None:
        return UNKNOWN
    text = f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"
    return text.replace(",", "") if compact else text


def percent(share: float | None) -> str:
    """A share of 0 to 1 in percent."""
    return UNKNOWN if share is None else f"{100 * share:.1f}"


def shares(parts: dict[str, float], most: int = 3) -> str:
    """The largest parts of a whole: `memory 61% provider 30%`. What rounds to 0 is left out."""
    ordered = sorted(parts.items(), key=lambda item: -item[1])[:most]
    return " ".join(f"{name} {100 * part:.0f}%" for name, part in ordered if part >= 0.005)


def cpu_list(cpus: list[int]) -> str:
    """Processors as ranges: 0-3,6."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    ranges = [str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts]
    return ",".join(ranges) or UNKNOWN


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """The options that all views have."""
    parser.add_argument("--json", action="store_true", help="print JSON (see doc/analysis-json.md)")
    parser.add_argument(
        "--width",
        type=width_option,
        metavar="COLUMNS",
        help="columns to use (default: the terminal's; 80 when there is none)",
    )


def width_option(text: str) -> int:
    """--width: at least 80."""
    try:
        width = int(text)
    except ValueError:
        width = 0
    if not NARROWEST <= width <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from {NARROWEST} to 1000")
    return width
