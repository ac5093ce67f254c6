# SPDX-License-Identifier: BSD-3-Clause
"""A trace session: from `lttng create` to `lttng destroy`."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from fabtrace.record.buffers import Buffers
from fabtrace.record.lttng import Client

CHANNEL = "events"


class TraceSession:
    """One session with one channel, buffers shared by the processes of a user."""

    def __init__(self, client: Client) -> None:
        self._client = client
        # Unique, so that it meets no other session of a daemon that serves others as well.
        self.name = f"fabtrace-{os.getpid()}-{secrets.token_hex(4)}"

    def create(self, folder: Path, buffers: Buffers, log_level: str) -> None:
        """Create the session and switch tracing on."""
        run = self._client.run
        run("create", self.name, f"--output={folder}")
        try:
            run(
                "enable-channel",
                "--userspace",
                f"--session={self.name}",
                "--buffers-uid",
                "--discard",
                f"--subbuf-size={buffers.size_bytes}",
                f"--num-subbuf={buffers.count}",
                CHANNEL,
            )
            run(
                "enable-event",
                "--userspace",
                f"--session={self.name}",
                f"--channel={CHANNEL}",
                f"--loglevel={log_level}",
                "fabt:*",
            )
            run("start", self.name)
        except BaseException:
            self.destroy()
            raise

    def stop(self) -> None:
        """Switch tracing off and wait until all is on the disk."""
        self._client.run("stop", self.name)

    def destroy(self) -> None:
        """Forget the session; what is written stays."""
        self._client.run("destroy", self.name)
