# SPDX-License-Identifier: BSD-3-Clause
"""The note that a recording leaves in its folder while it goes on.

It says which trace session and which ring files belong to the folder. The recorder holds a lock on it,
which the kernel takes away when the recorder dies, however that happens. So a note that nobody
holds means that a recording did not come to its end; `fabtrace recover` finishes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from fabtrace.errors import FabtraceError
from fabtrace.record.buffers import SHM

NAME = "recording.json"
VERSION = 1
PREFIX = "fabtrace-"  # of trace sessions, and of the folders of their rings
TRACE_LINK = "trace"  # in the ring's folder: leads to the folder of the trace
MAX_BYTES = 65536


@dataclass(frozen=True)
class Note:
    """What must be known to finish a recording."""

    session: str
    ring: str  # folder of the ring files
    recorder: int  # process id, for people
    flight: bool  # a flight recorder: the rings are a snapshot that was not taken


class Holder:
    """A note in a folder, held."""

    def __init__(self, folder: Path, file: IO[str]) -> None:
        self._path = folder / NAME
        self._file = file

    def write(self, note: Note) -> None:
        self._file.seek(0)
        self._file.truncate()
        json.dump({"version": VERSION, **asdict(note)}, self._file)
        self._file.write("\n")
        self._file.flush()

    def read(self) -> Note | None:
        """What the note says; None if it is not one of ours."""
        self._file.seek(0)
        try:
            fields = json.loads(self._file.read(MAX_BYTES))
            if fields.pop("version") != VERSION:
                return None
            note = Note(**fields)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        texts = isinstance(note.session, str) and isinstance(note.ring, str)
        # What is removed and destroyed by the note must look like what we make.
        ours = texts and note.session.startswith(PREFIX) and Path(note.ring).name == note.session
        return note if ours and isinstance(note.recorder, int) else None

    def remove(self) -> None:
        """The recording is finished."""
        self._path.unlink(missing_ok=True)


@contextlib.contextmanager
def create(folder: Path) -> Iterator[Holder]:
    """A new note, held in the body. It stays if nobody removes it."""
    with open(folder / NAME, "w+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield Holder(folder, file)


@contextlib.contextmanager
def take_over(folder: Path, wait: bool = False) -> Iterator[Holder | None]:
    """Hold the note of a recording that did not come to its end; None if there is no note.

    FabtraceError if the recording still goes on; with `wait` it is waited for.
    """
    try:
        file = open(folder / NAME, "r+", encoding="utf-8")
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise FabtraceError(
                f"{folder} is being recorded: end that first (Ctrl-C, or `kill` its recorder)"
            ) from None
        yield Holder(folder, file) if os.fstat(file.fileno()).st_nlink else None


def abandoned(folder: Path) -> bool:
    """Whether a recording to this folder did not come to its end."""
    with contextlib.suppress(FabtraceError, OSError), take_over(folder) as holder:
        return holder is not None
    return False


def abandoned_rings() -> list[tuple[Path, Path]]:
    """Rings of ours in /dev/shm whose recording is over, with the folders of their traces."""
    found = []
    for ring in sorted(SHM.glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            if ring.lstat().st_uid != os.geteuid() or not (ring / TRACE_LINK).is_symlink():
                continue
            folder = Path(os.readlink(ring / TRACE_LINK))
            if not (folder / NAME).exists() or abandoned(folder):
                found.append((ring, folder))
    return found
