# SPDX-License-Identifier: BSD-3-Clause
"""Where the columns of a trace are kept, so that the second question is answered at once.

Beside the trace, in TRACE/.fabtrace-cache, or if that can't be written or has no room in
$XDG_CACHE_HOME/fabtrace (~/.cache/fabtrace). A file's name and content carry a key made of the
trace's files, their sizes and times, the catalogue and this reader's version: whatever changes, it is made
anew. FABTRACE_CACHE=off keeps nothing.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fabtrace import catalogue
from fabtrace.check import TraceFolder
from fabtrace.reader.store import Damaged, open_columns
from fabtrace.tables import Tables, kinds_of

FORMAT = 1  # raise it when the reader makes other columns of the same trace
FOLDER = ".fabtrace-cache"
SUFFIX = ".columns"


def key_of(where: Path, folders: list[TraceFolder]) -> str:
    """What the columns depend on, as 32 hex digits."""
    files = []
    for folder in folders:
        for path in (folder.path / "metadata", *sorted(folder.files)):
            status = path.stat()
            name = os.path.relpath(path, where)
            files.append((name, status.st_size, status.st_mtime_ns))
    schema = {event: kinds_of(event) for event in catalogue.load().events}
    content = json.dumps([FORMAT, catalogue.load().schema_version, schema, files], sort_keys=False)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def places(where: Path) -> Iterator[Path]:
    """Folders that may hold the columns, the best first."""
    if os.environ.get("FABTRACE_CACHE") == "off":
        return
    yield where / FOLDER
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = hashlib.blake2b(os.fsencode(where.resolve()), digest_size=8).hexdigest()
    yield Path(home) / "fabtrace" / name


def find(where: Path, key: str) -> Tables | None:
    """The tables if they are kept; what is damaged is removed."""
    for place in places(where):
        path = place / f"{key}{SUFFIX}"
        try:
            return replace(open_columns(path, key), source=str(where))
        except Damaged:
            with suppress(OSError):
                path.unlink()
        except OSError:
            continue
    return None


def workshop(place: Path | None) -> tempfile.TemporaryDirectory[str]:
    """A folder to make columns in, on the file system of the place that shall keep them; among temporary
    files if they are not to be kept. OSError where that cannot be."""
    if place is None:
        return tempfile.TemporaryDirectory(prefix="fabtrace-")
    place.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(dir=place, prefix="tmp-")


def has_no_room(error: OSError) -> bool:
    """Whether a disk or a quota is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def keep(made: Path, place: Path, key: str) -> None:
    """Put a finished file in its place, at once and whole; what it replaces goes."""
    target = place / f"{key}{SUFFIX}"
    os.replace(made, target)
    for other in place.glob(f"*{SUFFIX}"):
        if other != target:
            with suppress(OSError):
                other.unlink()
