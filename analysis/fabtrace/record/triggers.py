# SPDX-License-Identifier: BSD-3-Clause
"""LTTng triggers: the session daemon itself takes a snapshot when an event of a name comes.

A trigger fires once and is then set up anew by the recorder: a program that reports a thousand outliers
a second must not have a thousand snapshots taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from fabtrace.record.lttng import Client, LttngError

# Events of the engine that say that something is worth a look.
CAUSES = ("outlier", "stall", "error", "signal")


class Triggers:
    """The triggers of a flight recorder's session."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session

    def _name(self, cause: str) -> str:
        return f"{self._session}-{cause}"

    def add(self, cause: str, folder: Path) -> None:
        """At the next event of this name a snapshot goes to `folder`/CAUSE-DATE-NUMBER."""
        self._client.run(
            "add-trigger",
            f"--name={self._name(cause)}",
            "--condition=event-rule-matches",
            "--type=user:tracepoint",
            f"--name=fabt:{cause}",
            "--action=snapshot-session",
            self._session,
            f"--name={cause}",
            f"--path={folder}",
            "--rate-policy=once-after:1",
        )

    def remove(self, causes: Sequence[str] = CAUSES) -> None:
        """Remove those that exist."""
        for cause in causes:
            with contextlib.suppress(LttngError):
                self._client.run("remove-trigger", self._name(cause))
