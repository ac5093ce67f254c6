# SPDX-License-Identifier: BSD-3-Clause
"""What the recorder says: on standard error, since standard output belongs to the commands."""

from __future__ import annotations

import os
import sys

WIDTH = 79  # when the terminal doesn't tell


def say(text: str, who: str = "record") -> None:
    """A remark of one of our commands."""
    wipe = "\x1b[K" if sys.stderr.isatty() else ""  # of a progress line
    print(f"fabtrace {who}: {text}{wipe}", file=sys.stderr, flush=True)


def show(text: str) -> None:
    """A line that is written over by whatever comes next. Only for a terminal."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
    except OSError:
        width = 0
    width = width if width > 0 else WIDTH
    sys.stderr.write(f"\r{text[:width]}\x1b[K\r")
    sys.stderr.flush()
