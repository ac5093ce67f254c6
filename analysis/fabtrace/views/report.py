# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace report DIR`: who took part, what each session and worker did, how long operations took."""

from __future__ import annotations

import argparse

from fabtrace.views.form import add_output_options, make_console, print_json
from fabtrace.views.load import load_run
from fabtrace.views.report_document import make_report
from fabtrace.views.report_text import print_report

DESCRIPTION = """\
Sum up a trace: the processes; each session with its bytes, throughput and operations; what sessions
waited for; each worker with its utilisation; latency percentiles of each kind of operation; and what
is missing: lost events, and operations without their end. doc/report.md defines each column.
"""

EPILOG = """\
examples:
  fabtrace report run
  fabtrace report run --json | jq '.sessions[] | {session, throughput_mib_s}'
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `report` to the command line."""
    parser = subparsers.add_parser(
        "report",
        help="sum up a trace: sessions, workers, latencies, losses",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR", help="what `fabtrace record -o DIR` made")
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the report."""
    report = make_report(load_run(options.folder))
    if options.json:
        print_json(report)
    else:
        print_report(make_console(options.width), report)
    return 0
