# SPDX-License-Identifier: BSD-3-Clause
"""Progress and tables of a campaign, for people."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

WIDTH = 110  # where there is no terminal to ask
TABLE_WIDTH = 1000


def console(error: bool = False) -> Console:
    """Standard output or standard error; colours only on a terminal."""
    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=False, emoji=False)


class Reporter:
    """A bar on a terminal, else a line a finished run, on standard error; failures always."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self.console = console(error=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[failed]} failed"),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=total, failed=0)

    def __enter__(self) -> Reporter:
        if self.console.is_terminal:  # elsewhere it would leave empty lines
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.console.is_terminal:
            self.bar.stop()

    def begin(self, name: str) -> None:
        """A run starts."""
        self.bar.update(self.task, description=name)

    def end(self, name: str, result: str, problems: list[str]) -> None:
        """A run has ended; problems are shown at once, so that one need not wait for the table."""
        self.done += 1
        self.failed += bool(problems)
        self.bar.update(self.task, completed=self.done, failed=self.failed)
        if not self.console.is_terminal:
            self.line(f"[{self.done}/{self.total}] {name}: {result}")
        elif problems:
            self.line(f"{name}: {result}")
        for problem in problems:
            self.line(f"    {problem}")

    def line(self, text: str) -> None:
        self.console.print(text, markup=False, style=None, overflow="ignore", crop=False)


def grid(corner: str, columns: list[str], rows: list[tuple[str, list[str]]]) -> None:
    """A table on standard output; cells that begin with FAIL stand out on a terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(corner, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for name, cells in rows:
        marked = [f"[bold red]{cell}[/]" if "FAIL" in cell else cell for cell in cells]
        table.add_row(name, *marked)
    out = console()
    out.width = TABLE_WIDTH  # lines that the terminal wraps say more than cells that are cut off
    out.print(table)
