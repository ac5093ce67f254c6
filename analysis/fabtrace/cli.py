# SPDX-License-Identifier: BSD-3-Clause
"""The command line `fabtrace COMMAND ...`.

A command is a module with `add_parser(subparsers)`, which adds its parser and sets the default
`run` to a function from the parsed arguments to an exit code.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from fabtrace import VERSION
from fabtrace.errors import (
    EXIT_FAILURE,
    EXIT_USAGE,
    FabtraceError,
    NotKept,
    StrangeTrace,
    UnsoundTrace,
)
from fabtrace.record import command, recover
from fabtrace.views import (
    check,
    export,
    fragments,
    latency,
    loss,
    report,
    sessions,
    slowest,
    timeline,
    why,
    workers,
)

# In the order in which --help shows them.
COMMANDS = (
    command,
    recover,
    report,
    why,
    sessions,
    workers,
    timeline,
    latency,
    slowest,
    fragments,
    loss,
    check,
    export,
)

HELP_COLUMNS = 80

DESCRIPTION = "Record the events of fabtget and fabtput, and say where their time went."

EPILOG = """\
example:
  fabtrace record -o run -- fabtget -n 2 --and fabtput -n 2 '{address}'
  fabtrace report run
  fabtrace why run
  fabtrace timeline run --session 0
"""


class Help(argparse.HelpFormatter):
    """Help for 80 columns, however wide the terminal is. What is indented stays as it is written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=HELP_COLUMNS)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            part if "\n  " in part or part.startswith("  ") else textwrap.fill(part, width)
            for part in text.rstrip().split("\n\n")
        )


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like all others; --help has the usage."""

    def __init__(self, **named: Any) -> None:
        named.setdefault("formatter_class", Help)
        super().__init__(**named)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the command line and exit."""
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(EXIT_USAGE)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="fabtrace",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("-V", "--version", action="version", version=f"fabtrace {VERSION}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add_parser(subparsers)
    return parser


@contextmanager
def shown_problems() -> Iterator[list[str]]:
    """Show what the reader warns of, a line each; yields a list of parts that could not be read."""
    unsound: list[str] = []
    others = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, UnsoundTrace | StrangeTrace | NotKept):
            others(message, category, *rest)
            return
        print(f"fabtrace: warning: {message}", file=sys.stderr)
        if issubclass(category, UnsoundTrace):
            unsound.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnsoundTrace)
        warnings.simplefilter("always", StrangeTrace)
        warnings.simplefilter("always", NotKept)
        warnings.showwarning = show  # type: ignore[assignment]  # takes keywords too
        yield unsound


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its errors become one line on stderr and an exit code."""
    options = make_parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        with shown_problems() as unsound:
            code = run(options)
        sys.stdout.flush()
        return code or (EXIT_FAILURE if unsound else 0)
    except FabtraceError as error:
        print(f"fabtrace: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("fabtrace: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is wrong. Python would complain
        # once more when it flushes at exit, so give it somewhere to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        # A full disk behind standard output, a file that went away: the system's word is enough.
        what = f"{error.filename}: " if error.filename else ""
        print(f"fabtrace: {what}{error.strerror or error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
