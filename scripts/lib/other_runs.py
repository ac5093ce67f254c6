# SPDX-License-Identifier: BSD-3-Clause
"""Copies of a trace that look like other, later runs: so a long trace can be made of a short one.

Each copy's processes have numbers of their own, since the analysis tells processes, and what they lost, by
these; and its clock is set later. Nothing is decoded: the numbers are looked for as bytes. Should other
bytes look like one, the value of some field changes, which is no matter here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from fabtrace.model.keys import WRITER_THREADS
from fabtrace.tables import Tables

NANOSECONDS = 1_000_000_000
OFFSET = re.compile(rb"(?<=\toffset = )[0-9]{19}(?=;)")  # of the clock, in ns, as LTTng writes it


def identities(tables: Tables) -> tuple[set[int], set[int]]:
    """The writers and the run ids of a trace."""
    writers = {
        number for table in tables.tables.values() for number in set(table["writer"].tolist())
    }
    return writers, set(tables["process"]["run_id"].tolist()) - {0}


def length_s(tables: Tables) -> int:
    """How long a trace is, rounded up."""
    begins = [int(table.times[0]) for table in tables.tables.values() if len(table)]
    ends = [int(table.times[-1]) for table in tables.tables.values() if len(table)]
    return -(-(max(ends) - min(begins)) // NANOSECONDS)


def copy_as_other_run(
    trace: Path, target: Path, number: int, known: tuple[Collection[int], Collection[int]], s: int
) -> None:
    """Copy a trace as its `number`-th successor, `s` seconds later. `known`: its identities."""
    ignore = shutil.ignore_patterns(".fabtrace-cache", "index")
    shutil.copytree(trace, target, ignore=ignore)
    writers, run_ids = known
    taken = {writer // WRITER_THREADS for writer in writers}
    news = [(i + 7919 * number) % (1 << 22) for i in sorted(taken)]
    instances = dict(zip(sorted(taken), news))
    pairs = [
        (writer, instances[writer // WRITER_THREADS] * WRITER_THREADS + writer % WRITER_THREADS, 4)
        for writer in writers
    ]
    pairs += [(run_id, run_id ^ number, 8) for run_id in run_ids]
    for path in sorted(target.rglob("*")):
        if path.name == "metadata":
            path.write_bytes(OFFSET.sub(lambda found: later(found, s), path.read_bytes()))
        elif path.is_file():
            content = path.read_bytes()
            for old, new, size in pairs:
                content = content.replace(
                    old.to_bytes(size, "little"), new.to_bytes(size, "little")
                )
            path.write_bytes(content)


def later(found: re.Match[bytes], seconds: int) -> bytes:
    """A clock's offset, so much later."""
    return b"%019d" % (int(found[0]) + seconds * NANOSECONDS)
