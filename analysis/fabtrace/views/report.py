# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace report DIR`: who took part, what each session and worker did, how long operations took."""

from __future__ import annotations

import argparse

from fabtrace.errors import EXIT_USAGE, FabtraceError
from fabtrace.model import Run
from fabtrace.views.load import load_summary
from fabtrace.views.report_document import make_report
from fabtrace.views.report_text import print_report
from fabtrace.views.view import Document, View, load_part

DESCRIPTION = """\
Sum up a trace: the processes; each session with its bytes, throughput and operations; what sessions
waited for; each worker with its utilisation; latency percentiles of each kind of operation; and what
is missing: lost events, and operations without their end. doc/report.md defines each column.

With --summary the memory does not grow with the trace (some 150 MB for 54 million events): all figures
are the same but percentiles, which are within 0.05 %, and the hosts' clocks, which are not compared.
"""

EPILOG = """\
examples:
  fabtrace report run
  fabtrace report run --summary          # for very long traces
  fabtrace report run --json | jq '.sessions[] | {session, throughput_mib_s}'
"""


# A summary is of all the trace.
SELECTIONS = {
    "group": "--run",
    "process": "--process",
    "session": "--session",
    "worker": "--worker",
    "begin": "--begin",
    "end": "--end",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of this command alone."""
    parser.add_argument(
        "--summary",
        action="store_true",
        help="take bounded memory, however long the trace is; percentiles are then within 0.05 %%",
    )


def load(options: argparse.Namespace) -> Run:
    """The run, or its summary."""
    if not options.summary:
        return load_part(options)
    for name, option in SELECTIONS.items():
        if getattr(options, name) is not None:
            raise FabtraceError(
                f"{option} does not go with --summary, which is of all the trace: leave one of them away",
                EXIT_USAGE,
            )
    return load_summary(options.folder)


def make(run: Run, options: argparse.Namespace) -> Document:
    """The document."""
    return make_report(run)


VIEW = View(
    name="report",
    help="sum up a trace: sessions, workers, latencies, losses",
    description=DESCRIPTION,
    epilog=EPILOG,
    make=make,
    show=print_report,
    options=add_options,
    load=load,
)
add_parser = VIEW.add_parser
