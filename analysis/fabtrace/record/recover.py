# SPDX-License-Identifier: BSD-3-Clause
"""`fabtrace recover DIR`: finish a recording that did not come to its end."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from fabtrace.errors import EXIT_FAILURE, EXIT_OK, FabtraceError
from fabtrace.record import counting, flight, note, salvage, tally
from fabtrace.record.daemon import Daemon
from fabtrace.record.finish import Outcome, finish_abandoned, save_rings
from fabtrace.record.lttng import Client, LttngError
from fabtrace.record.session import TraceSession
from fabtrace.record.signals import Signals
from fabtrace.record.speech import say
from fabtrace.record.triggers import Triggers

JSON_VERSION = 1

DESCRIPTION = """\
Make a trace readable whose recording ended badly: the recorder, the session daemon or the consumer
daemon was killed, or the disk was full. What the trace buffers still hold is added, packets that
were cut are taken off, the trace session and buffers that were left over are removed. A trace
that is whole is not touched."""

EPILOG = """\
Trace buffers are in memory (/dev/shm) unless `record --shm-path` put them on a disk: they outlive
every process, but not a reboot. What got neither to the disk nor to the buffers is lost, and counted
as far as the program's later events show it: what it wrote last, when nothing was recorded any more,
nobody knows. `fabtrace record` does all this itself if it is still there at the end.

examples:
  fabtrace recover run
  fabtrace recover run --json | jq .lost

exit code: 0 the trace can be read, 1 it can't, 2 usage"""


def add_parser(subparsers: Any) -> None:
    """Add the command to `fabtrace`."""
    parser = subparsers.add_parser(
        "recover",
        help="finish a recording that was cut short",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("folder", metavar="DIR", help="what `fabtrace record -o DIR` made")
    parser.add_argument(
        "--json", action="store_true", help="what was done, for machines (doc/recording.md)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Recover; return the exit code."""
    folder = Path(options.folder).absolute()
    check_folder(folder, options.folder)
    outcome = recover(folder)
    tell = partial(say, who="recover")
    for text in (*outcome.findings.lines(), *outcome.troubles):
        tell(text)
    counted = count(folder)
    if options.json:
        print(json.dumps(document(options.folder, outcome, counted), indent=2))
    elif counted is not None:
        if not outcome.findings.changed and not outcome.troubles:
            what = "the recording is ended" if outcome.ended else "there was nothing to recover"
            tell(f"{options.folder}: {what}")
        tell(f"{counted.events:,} events, {counted.lost:,} lost")
        tell(f"next: fabtrace report {shlex.quote(options.folder)}")
    else:
        for text in flight.describe(folder):
            tell(text)
    return EXIT_OK if not outcome.pending else EXIT_FAILURE


def check_folder(folder: Path, shown: str) -> None:
    """There must be something that a recording made."""
    if not folder.is_dir():
        raise FabtraceError(f"{shown}: no such folder; give the one that `record -o` named")
    if not (folder / note.NAME).exists() and not any(folder.rglob("metadata")):
        raise FabtraceError(
            f"{shown}: no trace, and no `{note.NAME}` that says where its buffers are: nothing can be"
            " recovered"
        )


def recover(folder: Path, wait: bool = False) -> Outcome:
    """Do it. `wait`: for a recorder that is just dying."""
    with note.take_over(folder, wait) as holder:
        what = holder.read() if holder is not None else None
        if holder is None:
            return Outcome(findings=salvage.salvage(None, folder))
        if what is None:
            raise FabtraceError(
                f"{folder / note.NAME} is damaged; remove it and run `fabtrace recover` again: then what"
                " is on the disk is made readable"
            )
        outcome = end_leftovers(what, folder)
        if not outcome.pending:
            holder.remove()
    return outcome


def end_leftovers(what: note.Note, folder: Path) -> Outcome:
    """The session, if there still is one, and a daemon that recorders started and nobody needs."""
    if shutil.which("lttng") is None:
        outcome = Outcome(ended=True)
        save_rings(what, folder, outcome, crashed=True)
        return outcome
    with Signals() as signals, Client() as client:
        daemon = Daemon(client, signals)
        daemon.rejoin()
        with daemon.leaving():
            return finish_abandoned(client, what, folder)


def count(folder: Path) -> tally.Tally | None:
    """Count the events; None for the snapshots of a flight recorder, which are traces of their own."""
    if not any(folder.glob("ust/uid/*/*/metadata")) and any(folder.glob("*/ust")):
        return None
    with Signals() as signals:
        with contextlib.suppress(tally.Interrupted):
            return counting.count(folder, signals)
    return None


def document(shown: str, outcome: Outcome, counted: tally.Tally | None) -> dict[str, Any]:
    """What was done, for machines."""
    return {
        "version": JSON_VERSION,
        "trace": shown,
        "metadata_replaced": outcome.findings.metadata,
        "snapshot": outcome.findings.snapshot or None,
        "streams": [
            {
                "stream": stream.stream,
                "packets_on_disk": stream.whole,
                "packets_regained": stream.regained,
                "regained_bytes": stream.regained_bytes,
                "cut_bytes": stream.cut_bytes,
            }
            for stream in outcome.findings.streams
        ],
        "troubles": outcome.troubles,
        "complete": not outcome.pending,
        "events": None if counted is None else counted.events,
        "lost": None if counted is None else counted.lost,
    }


def finish_for_keeper(folder: Path) -> None:
    """What the keeper does when the recorder was killed."""
    if not (folder / note.NAME).exists():
        return
    outcome = recover(folder, wait=True)
    for text in (*outcome.findings.lines(), *outcome.troubles):
        say(text)
    say(f"what was recorded is in {folder}")


def name_leftovers(client: Client) -> Iterator[str]:
    """What earlier recordings left when they and their keepers were killed.

    What nobody can want any more, since the folder of its trace is gone, is removed.
    """
    for ring, folder in note.abandoned_rings():
        if (folder / note.NAME).exists():
            yield (
                f"a recording to {folder} was cut short: `fabtrace recover"
                f" {shlex.quote(str(folder))}` finishes it"
            )
            continue
        if ring.name in (client.sessions() or []):
            Triggers(client, ring.name).remove()
            with contextlib.suppress(LttngError):
                TraceSession(client, ring.name).destroy(ring)
        shutil.rmtree(ring, ignore_errors=True)
