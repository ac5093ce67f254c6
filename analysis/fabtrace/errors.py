# SPDX-License-Identifier: BSD-3-Clause
"""The one exception that a user gets to see.

Whoever decides that something is an error raises it, with a text that names the file or option and
the remedy; `fabtrace.cli` prints it as one line. Anything else that escapes is a defect.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2


class FabtraceError(Exception):
    """An error with a text for people and an exit code for scripts."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILURE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class UnsoundTrace(UserWarning):
    """A trace of which a part could not be read: the rest is shown, and the exit code is 1."""


class StrangeTrace(UserWarning):
    """A trace with something in it that does not belong there; all of its events are read."""


class NotKept(UserWarning):
    """What was decoded could not be kept: all is well but that the next command takes as long."""
