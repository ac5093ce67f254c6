# SPDX-License-Identifier: BSD-3-Clause
"""Read a trace: check it, take its columns from the cache, or have children decode it and keep them.

    check → cache? → salvage what is damaged → children: Babeltrace + plugin → merge → cache
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fabtrace import catalogue
from fabtrace.check import Survey, survey
from fabtrace.errors import FabtraceError, NotKept, StrangeTrace, UnsoundTrace
from fabtrace.reader import cache, native
from fabtrace.reader.decode import READER_MISSING
from fabtrace.reader.decoding import decode
from fabtrace.reader.store import open_columns
from fabtrace.tables import Tables

# Decoding 32,768 events takes a fraction of a second, so a minute without any means that it hangs.
SILENCE_SECONDS = 60.0


def read(
    path: str | Path,
    silence_seconds: float = SILENCE_SECONDS,
    progress: Callable[[int], None] = lambda events: None,
) -> Tables:
    """Read the trace at or below a folder. FabtraceError if nothing of it can be read.

    What can't be read is in the tables' `problems`, and warned of (UnsoundTrace). `progress` is called
    now and then with the number of events read so far.
    """
    where = Path(path)
    found = survey(where, ctf2=babeltrace_reads_ctf2())
    key = cache.key_of(where, found.folders)
    tables = cache.find(where, key)
    if tables is None:
        tables = decode_and_keep(where, found, key, silence_seconds, progress)
    check_schema(tables, where)
    lost = [problem for problem in tables.problems if not problem.harmless]
    if lost and not tables.events:
        raise FabtraceError(str(lost[0]))
    for problem in tables.problems:
        kind = StrangeTrace if problem.harmless else UnsoundTrace
        warnings.warn(kind(str(problem)), stacklevel=2)
    if not tables.declared:
        raise FabtraceError(
            f"{where} holds no event of fabtget or fabtput: were they built with tracing "
            f"(`fabtget --version` says) and started after the recording?"
        )
    return tables


def babeltrace_reads_ctf2() -> bool:
    """Whether the Babeltrace that is installed reads CTF 2: from 2.1 on."""
    # Its version without importing it, since that loads the library into this process.
    found = importlib.util.find_spec("bt2")
    if found is None or found.origin is None:
        raise FabtraceError(READER_MISSING)
    file = Path(found.origin).with_name("version.py")
    text = file.read_text() if file.is_file() else ""
    version = re.search(r"""__version__ = ['"](\d+)\.(\d+)""", text)
    return version is not None and (int(version[1]), int(version[2])) >= (2, 1)


def decode_and_keep(
    where: Path,
    found: Survey,
    key: str,
    silence_seconds: float,
    progress: Callable[[int], None],
) -> Tables:
    """Decode the trace, keep its columns and view them.

    Where the first place has no room for them, or can't be written, the next one is tried. What is kept
    nowhere is made among temporary files, and said (NotKept).
    """
    native.library()  # says what to do if it is missing
    refused: list[str] = []
    for place in (*cache.places(where), None):
        try:
            with cache.workshop(place) as room:
                made = decode(found, key, Path(room), silence_seconds, progress)
                tables = replace(open_columns(made.path, key, fresh=True), source=str(where))
                if place is not None and made.lasting:
                    cache.keep(made.path, place, key)
        except FabtraceError as error:
            raise FabtraceError(f"{where}: {error}") from None
        except OSError as error:
            if place is None and not cache.has_no_room(error):
                raise
            refused.append(f"{place or tempfile.gettempdir()}: {error.strerror}")
            continue
        if place is None and refused:
            warn_not_kept(where, refused)
        return tables
    raise FabtraceError(
        f"{where}: no room for its columns, which take about 60 bytes an event ({'; '.join(refused)}); "
        f"make room, or name another folder by XDG_CACHE_HOME or TMPDIR"
    )


def warn_not_kept(where: Path, refused: list[str]) -> None:
    """Say that each command will have to decode the trace."""
    text = (
        f"{where}: what was decoded is not kept for the next command ({'; '.join(refused)}); make room, "
        f"or name a folder by XDG_CACHE_HOME"
    )
    warnings.warn(NotKept(text), stacklevel=4)


def check_schema(tables: Tables, where: Path) -> None:
    """Refuse a trace whose events this version cannot know."""
    known = catalogue.load().schema_version
    found = int(tables["process"]["schema_version"].max(initial=0))
    if found > known:
        raise FabtraceError(
            f"{where} has schema version {found}, this fabtrace reads up to {known}: "
            f"use the fabtrace that belongs to the recorded engine, or a newer one"
        )
