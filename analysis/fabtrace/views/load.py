# SPDX-License-Identifier: BSD-3-Clause
"""From the folder on the command line to the model, with a sign of life while that takes long."""

from __future__ import annotations

import sys

from fabtrace.model import Run, build
from fabtrace.reader import read


def load_run(folder: str) -> Run:
    """Read a trace and build its model."""
    if not sys.stderr.isatty():
        return build(read(folder))

    def show(events: int) -> None:
        print(f"\rfabtrace: reading {folder}: {events:,} events", end="", file=sys.stderr)

    try:
        return build(read(folder, progress=show))
    finally:
        print("\r\033[K", end="", file=sys.stderr)
