# SPDX-License-Identifier: BSD-3-Clause
"""A trace session: from `lttng create` to `lttng destroy`."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fabtrace.record.buffers import Buffers
from fabtrace.record.lttng import Client, NoAnswer
from fabtrace.record.note import PREFIX

CHANNEL = "events"
# `metadata` is otherwise written when the session stops, and a trace without is worth nothing.
METADATA_TIMER_US = 500_000
# What is in a sub-buffer that isn't full goes to the disk as often: one can see what comes in, and
# little is lost with the machine.
EVENTS_TIMER_US = 1_000_000
DESTROY_SECONDS = 2.0
# In the folder that a recording has for its rings: LTTng's files, and links to them that LTTng's
# removal doesn't take.
RINGS = "rings"
KEPT = "kept"


def new_name() -> str:
    """Unique, so that it meets no other session of a daemon that serves others as well."""
    return f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Settings:
    """What is recorded and how."""

    folder: Path
    ring: Path  # folder of the ring files
    buffers: Buffers
    log_level: str
    flight: bool = False  # overwrite the oldest, write nothing until a snapshot is taken
    pids: Sequence[int] = ()  # of whom; empty: of all


class TraceSession:
    """One session with one channel, buffers shared by the processes of a user."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self._stopped = False
        self.name = name

    def create(self, settings: Settings) -> None:
        """Create the session and switch tracing on."""
        run = self._client.run
        run(
            "create",
            self.name,
            f"--output={settings.folder}",
            f"--shm-path={settings.ring / RINGS}",
            *(["--snapshot"] if settings.flight else []),
        )
        try:
            self._set_up(settings)
            run("start", self.name)
        except BaseException:
            self.destroy(settings.ring)
            raise

    def _set_up(self, settings: Settings) -> None:
        run = self._client.run
        where = ("--userspace", f"--session={self.name}")
        run("enable-channel", *where, f"--switch-timer={METADATA_TIMER_US}", "metadata")
        run(
            "enable-channel",
            *where,
            "--buffers-uid",
            f"--subbuf-size={settings.buffers.size_bytes}",
            f"--num-subbuf={settings.buffers.count}",
            # In a flight recorder a timer would fill the ring with sub-buffers that are hardly used.
            *(
                ["--overwrite"]
                if settings.flight
                else ["--discard", f"--switch-timer={EVENTS_TIMER_US}"]
            ),
            CHANNEL,
        )
        run(
            "enable-event",
            *where,
            f"--channel={CHANNEL}",
            f"--loglevel={settings.log_level}",
            "fabt:*",
        )
        if settings.pids:
            run("track", *where, f"--vpid={','.join(map(str, settings.pids))}")

    def stop(self) -> None:
        """Switch tracing off and wait until all is on the disk."""
        if not self._stopped:
            self._client.run("stop", self.name)
            self._stopped = True

    def snapshot(self, name: str) -> None:
        """Write what is in the rings of a flight recorder to a folder NAME-DATE-NUMBER."""
        self._client.run("snapshot", "record", f"--session={self.name}", f"--name={name}")

    def destroy(self, ring: Path) -> None:
        """Forget the session; what is written stays.

        The session daemon waits until the ring files are gone, and answers nobody meanwhile. They
        may never go: when a program is killed while it registers, LTTng keeps what it had for it.
        """
        try:
            self._client.run("destroy", self.name, seconds=DESTROY_SECONDS)
        except NoAnswer:
            shutil.rmtree(ring / RINGS, ignore_errors=True)
            if self.name in (self._client.sessions() or []):
                raise
