# SPDX-License-Identifier: BSD-3-Clause
"""Have children decode a trace, and put together what they made.

A packet that Babeltrace can't read is left out: what comes after it in its stream is read by another
child, from a copy that begins there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fabtrace import catalogue
from fabtrace.check import Survey, TraceFolder
from fabtrace.errors import FabtraceError
from fabtrace.packets import StreamFile
from fabtrace.reader.children import Children
from fabtrace.reader.decode import Decoded, Failure, Task
from fabtrace.reader.merge import Segments, collect_segments, merge
from fabtrace.reader.salvage import make_sound
from fabtrace.reader.store import ColumnsFile
from fabtrace.tables import Discarded, Problem, Stream, kinds_of

# Below this many bytes of streams a second child costs more than it saves.
BYTES_A_CHILD = 4 << 20
MOST_CHILDREN = 8
# What Babeltrace says of an event whose declaration is missing.
UNDECLARED = "No event class with ID"
MOST_ROUNDS = 100  # of going on after a packet that can't be read

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Made:
    """A file of columns. `lasting`: it would be the same the next time; not if a child died or hung."""

    path: Path
    lasting: bool


def number_of_children(folders: list[TraceFolder]) -> int:
    """As many as processors and streams allow and the amount of data is worth."""
    sizes = [stream.size for folder in folders for stream in folder.streams]
    worth = 1 + sum(sizes) // BYTES_A_CHILD
    return max(1, min(len(os.sched_getaffinity(0)), len(sizes), worth, MOST_CHILDREN))


def decode(found: Survey, key: str, room: Path, silence_seconds: float, progress: Progress) -> Made:
    """Decode all streams and merge them into a file of columns in `room`."""
    parts = number_of_children(found.folders)
    paths = tuple(readable(folder, room / f"sound-{n}") for n, folder in enumerate(found.folders))
    weights = weights_of(found.folders)
    tasks = [Task(paths, part, parts, spill_path(room, part), weights) for part in range(parts)]
    decoded, problems, lasting = run_rounds(found.folders, tasks, room, silence_seconds, progress)
    joined = Joined([], [], set(), {}, [])
    segments: Segments = {}
    for _, item in decoded:
        check_columns(item.description)
        joined.add(item.description)
    joined.sort()
    for task, item in decoded:
        collect_segments(task.spill, item.description, joined.numbers(item.description), segments)
    made = room / "columns"
    with ColumnsFile(made) as output:
        merge(segments, output, parts)
        output.finish(joined.document(key, [*segments], [*found.problems, *problems]))
    return Made(made, lasting)


def spill_path(room: Path, number: int) -> Path:
    """The file that a child's chunks go to."""
    return room / f"spill-{number}"


def readable(folder: TraceFolder, copy: Path) -> Path:
    """A folder that Babeltrace may read: the trace's own, or a sound copy of a damaged one."""
    if folder.sound:
        return folder.path
    make_sound(folder, copy)
    return copy


def run_rounds(
    folders: list[TraceFolder],
    tasks: list[Task],
    room: Path,
    silence_seconds: float,
    progress: Progress,
) -> tuple[list[tuple[Task, Decoded]], list[Problem], bool]:
    """Run the tasks, then others for what comes after packets that can't be read, until all is read.

    Returns what they decoded, the problems, and whether no child died or hung.
    """
    decoded: list[tuple[Task, Decoded]] = []
    problems: list[Problem] = []
    events, lasting = 0, True
    for number in range(MOST_ROUNDS):
        children = Children(tasks, silence_seconds, lambda more: progress(events + more))
        done = children.run()
        decoded += sorted(done, key=lambda pair: pair[0].part)
        lasting = lasting and not children.casualties
        events = sum(item.description["events"] for _, item in decoded)
        # Names in failures are those of a single list of folders: one round's tasks share it.
        rest, tasks = [], []
        for name, failure in sorted(children.failures.items()):
            stream, folder = stream_of(folders, name)
            after = None if stream is None else rest_of(stream, failure)
            problem = problem_of(folder, stream, failure, after)
            if not (folder.cut and UNDECLARED in failure.why):
                problems.append(problem)  # else it only follows from what is known already
            if after is not None and number < MOST_ROUNDS - 1:
                rest.append(replace(folder, streams=[after], problems=[problem]))
        if not rest:
            break
        folders = rest
        copies = [room / f"rest-{number}-{n}" for n in range(len(rest))]
        for folder, copy in zip(rest, copies):
            make_sound(folder, copy)
        tasks = [
            Task(tuple(copies), 0, 1, spill_path(room, MOST_CHILDREN + number), weights_of(rest))
        ]
    return decoded, problems, lasting


def rest_of(stream: StreamFile, failure: Failure) -> StreamFile | None:
    """The packets of a stream after the one that it failed at, None if there are none."""
    if failure.packet is None or failure.packet + 1 >= len(stream.packets):
        return None
    return replace(stream, packets=stream.packets[failure.packet + 1 :], intact=False)


def problem_of(
    folder: TraceFolder, stream: StreamFile | None, failure: Failure, after: StreamFile | None
) -> Problem:
    """A failure in words."""
    if stream is None:
        return Problem(str(folder.path), failure.why)
    if failure.packet is None or failure.packet >= len(stream.packets):
        return Problem(str(stream.path), f"{failure.why}; it is left out")
    where = f"in the packet at byte {stream.packets[failure.packet].offset}"
    rest = "the rest of the packet is left out" if after else "what follows is left out"
    return Problem(str(stream.path), f"{failure.why}, {where}; {rest}")


def port_name(number: int, folder: TraceFolder, port: str) -> str:
    """How the children call a stream, from what its packets say."""
    uuid = re.search(r'\buuid\s*=\s*"([0-9a-fA-F-]{36})"', folder.metadata)
    return f"{number} {uuid[1] if uuid else ''} | {port}"


def weights_of(folders: list[TraceFolder]) -> dict[str, int]:
    """How many bytes each stream has, by its port's name."""
    weights: dict[str, int] = {}
    for number, folder in enumerate(folders):
        for stream in folder.streams:
            name = port_name(number, folder, stream.port)
            weights[name] = weights.get(name, 0) + stream.size
    return weights


def stream_of(folders: list[TraceFolder], name: str) -> tuple[StreamFile | None, TraceFolder]:
    """The file that a port's name means, and its folder; no file if it is several, or not known."""
    number = int(name.partition(" ")[0])
    folder = folders[number]
    files = [s for s in folder.streams if s.port and name == port_name(number, folder, s.port)]
    return (files[0] if len(files) == 1 else None), folder


Facts = dict[str, str | int]


@dataclass
class Joined:
    """What the children decoded, put together.

    Environments and streams are sorted, so that their numbers don't depend on who read them.
    """

    environments: list[Facts]
    streams: list[Stream]
    declared: set[str]
    missing: dict[str, set[str]]
    discarded: list[Discarded]

    def add(self, description: dict[str, Any]) -> None:
        """Add a child's."""
        self.environments += [e for e in description["environments"] if e not in self.environments]
        self.streams += self.streams_of(description)
        self.declared.update(description["declared"])
        for event, names in description["missing"].items():
            self.missing.setdefault(event, set()).update(names)
        self.discarded += [Discarded(*item) for item in description["discarded"]]

    def sort(self) -> None:
        """When all are added: give environments and streams their numbers."""
        before = list(self.environments)
        self.environments.sort(key=lambda facts: json.dumps(facts, sort_keys=True))
        number = [self.environments.index(facts) for facts in before]
        renumbered = {replace(s, environment=number[s.environment]) for s in self.streams}
        self.streams = sorted(renumbered, key=lambda s: (s.environment, s.name, s.cpu))
        if len(self.streams) > np.iinfo(np.uint16).max:
            raise FabtraceError("more than 65535 streams; give the folder of a single recording")

    def streams_of(self, description: dict[str, Any]) -> list[Stream]:
        """A child's streams, with our numbers of environments."""
        number = [self.environments.index(facts) for facts in description["environments"]]
        return [Stream(name, number[facts], cpu) for name, facts, cpu in description["streams"]]

    def numbers(self, description: dict[str, Any]) -> npt.NDArray[np.uint16]:
        """Our number for each of a child's streams."""
        known = {stream: number for number, stream in enumerate(self.streams)}
        return np.array([known[stream] for stream in self.streams_of(description)], np.uint16)

    def document(self, key: str, events: list[str], problems: list[Problem]) -> dict[str, Any]:
        """All but the columns, for the file that keeps them."""
        known = [event for event in catalogue.load().events if event in events]
        return {
            "key": key,
            "source": "",
            "events": known,
            "declared": sorted(self.declared),
            "environments": self.environments,
            "streams": [astuple(stream) for stream in self.streams],
            "discarded": [astuple(item) for item in self.discarded],
            "missing": {event: sorted(names) for event, names in self.missing.items()},
            "problems": [astuple(problem) for problem in problems],
        }


def check_columns(description: dict[str, Any]) -> None:
    """The plugin must know the same catalogue as we do."""
    if description["error"]:
        raise FabtraceError(f"{description['error']}: recorded by an incompatible engine")
    for table in description["tables"]:
        columns = [(name, kind) for name, kind in table["columns"]]
        if table["event"] not in catalogue.load().events or columns != [
            *kinds_of(table["event"]).items()
        ]:
            raise FabtraceError(
                f"the plugin has another catalogue (event {table['event']}) than this fabtrace: "
                f"build it again"
            )
