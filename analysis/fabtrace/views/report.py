# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace report DIR`: who took part, what each session and worker did, how long operations took."""

from __future__ import annotations

import argparse

from fabtrace.model import Run
from fabtrace.views.report_document import make_report
from fabtrace.views.report_text import print_report
from fabtrace.views.view import Document, View

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
)
add_parser = VIEW.add_parser
