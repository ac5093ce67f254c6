# SPDX-License-Identifier: BSD-3-Clause
"""Copies of a trace that look like other, later runs: so a long trace can be made of a short one.

Each copy's processes have numbers of their own, since the analysis tells processes, and what they lost, by
these; and its clock is set later. Nothing is decoded: the numbers are looked for as bytes, those of a
writer where a sequence number of 64 bits below 2^32 follows, which is how each event begins.

    other_runs.py TRACE FOLDER NUMBER     # a process of its own, since it takes memory
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path

from fabtrace.model.keys import WRITER_THREADS
from fabtrace.reader import read
from fabtrace.tables import Tables

NANOSECONDS = 1_000_000_000
SEQUENCE_NUMBER = rb"(?=.{4}\0{4})"
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
    changes = [
        (
            re.compile(re.escape(w.to_bytes(4, "little")) + SEQUENCE_NUMBER, re.DOTALL),
            renumbered(w, number),
        )
        for w in writers
    ]
    for path in sorted(target.rglob("*")):
        if path.name == "metadata":
            path.write_bytes(OFFSET.sub(lambda found: later(found, s), path.read_bytes()))
        elif path.is_file():
            content = path.read_bytes()
            for pattern, new in changes:
                content = pattern.sub(partial(same, new), content)
            for run_id in run_ids:
                old, other = (value.to_bytes(8, "little") for value in (run_id, run_id ^ number))
                content = content.replace(old, other)
            path.write_bytes(content)


def renumbered(writer: int, number: int) -> bytes:
    """The bytes of a writer whose process has another number, the same for all its writers."""
    instance = (writer // WRITER_THREADS + 7919 * number) % (1 << 22)
    return (instance * WRITER_THREADS + writer % WRITER_THREADS).to_bytes(4, "little")


def later(found: re.Match[bytes], seconds: int) -> bytes:
    """A clock's offset, so much later."""
    return b"%019d" % (int(found[0]) + seconds * NANOSECONDS)


def same(value: bytes, _: re.Match[bytes]) -> bytes:
    """What to put for a match: always this, as it is."""
    return value


def main() -> None:
    """Make a folder with so many runs, one after the other."""
    trace, folder, number = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    tables = read(trace)
    known, seconds = identities(tables), length_s(tables) + 1
    for run in range(number):
        copy_as_other_run(trace, folder / f"run{run}", run, known, run * seconds)


if __name__ == "__main__":
    main()
