# SPDX-License-Identifier: BSD-3-Clause
"""What all commands that look at a trace have in common: from the command line to a document, and from
the document to text or JSON."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from fabtrace.model import Run
from fabtrace.views import form
from fabtrace.views.load import add_load_options, add_trace_command, load_run
from fabtrace.views.select import add_selection_options, select

Document = dict[str, Any]


@dataclass(frozen=True)
class View:
    """A command `fabtrace NAME DIR`: `load` gives the run, `make` the document, which `show` prints for
    people."""

    name: str
    help: str
    description: str
    epilog: str
    make: Callable[[Run, argparse.Namespace], Document]
    show: Callable[[Console, Document], None]
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    load: Callable[[argparse.Namespace], Run] = lambda options: load_part(options)

    def add_parser(self, subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        """Add the command to the command line."""
        about = {"help": self.help, "description": self.description, "epilog": self.epilog}
        parser = add_trace_command(subparsers, self.name, **about)
        self.options(parser)
        add_selection_options(parser)
        add_load_options(parser)
        form.add_output_options(parser)
        parser.set_defaults(run=self.run)

    def run(self, options: argparse.Namespace) -> int:
        """Print the view."""
        document = self.make(self.load(options), options)
        if options.json:
            form.print_json(document)
        else:
            self.show(form.make_console(options.width), document)
        return 0


def load_part(options: argparse.Namespace) -> Run:
    """The part of a run that the command line selects."""
    return select(load_run(options.folder, options), options)


def head(name: str, version: int, run: Run) -> Document:
    """How every document begins."""
    return {
        "schema": f"fabtrace.{name}",
        "version": version,
        "trace": {
            "path": run.tables.source,
            "level": run.level,
            "begin_ns": run.begin_ns,
            "end_ns": run.end_ns,
        },
    }


def print_title(console: Console, document: Document, what: str) -> None:
    """The first line: which trace, which part of it."""
    trace = document["trace"]
    seconds = form.seconds((trace["end_ns"] - trace["begin_ns"]) / 1e9)
    form.show(console, form.bold(f"{trace['path']}: {what}, {seconds} s, level {trace['level']}"))


def needs_operations(console: Console, document: Document) -> bool:
    """Say so if the trace has no operations. True if it has none."""
    if document["trace"]["level"] != "light":
        return False
    form.show(
        console,
        "Operations are not recorded at level light: record with --level ops (the default) or full.",
    )
    return True
