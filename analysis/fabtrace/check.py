# SPDX-License-Identifier: BSD-3-Clause
"""Is this folder a sound trace? Asked before Babeltrace sees it.

Babeltrace 2.0 aborts its process on an empty `metadata`, loops for ever on a truncated one, drops a
stream silently if it is missing or belongs to another trace, and gives up on a whole trace for one
packet that was cut. So the files are checked here, and what is wrong is named: metadata complete, each
stream file a sequence of whole packets of this trace, no stream missing that the index knows, no
foreign file. What is sound is read all the same (see `fabtrace.reader.salvage`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from fabtrace.errors import FabtraceError
from fabtrace.metadata import (
    COPY_AGAIN,
    examine_metadata,
    laid_out_as_lttng_does,
    metadata_uuid,
    read_metadata,
    stream_ids,
)
from fabtrace.packets import Index, StreamFile, read_index, walk_packets
from fabtrace.tables import Problem


__all__ = [
    "Survey",
    "TraceFolder",
    "check_folder",
    "find_metadata_folders",
    "laid_out_as_lttng_does",
    "read_metadata",
    "survey",
]


@dataclass
class TraceFolder:
    """A folder that holds one CTF trace.

    metadata  its text; empty for CTF 2
    cut       whether that is only the beginning of what was written
    streams   files of which at least a packet is sound (all files, if other tracers' layout does not
              let us look at packets)
    problems  what is wrong with the rest
    """

    path: Path
    metadata: str
    cut: bool = False
    streams: list[StreamFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether Babeltrace may read the folder as it is."""
        return not self.problems

    @property
    def files(self) -> list[Path]:
        """All files that the trace consists of, sorted."""
        return sorted(file for file in self.path.iterdir() if file.is_file())


@dataclass
class Survey:
    """What is at or below a folder: traces of which something can be read, and all problems."""

    folders: list[TraceFolder]
    problems: list[Problem]


def survey(path: Path, ctf2: bool = False) -> Survey:
    """Check all traces at or below a folder. FabtraceError if nothing there can be read.

    `ctf2`: whether the Babeltrace in use reads CTF 2.
    """
    found = Survey([], [])
    errors = []
    for folder in find_metadata_folders(path):
        try:
            checked = check_folder(folder, ctf2)
            found.folders.append(checked)
            found.problems += checked.problems
        except FabtraceError as error:
            errors.append(error)
            found.problems.append(Problem(str(folder), str(error)))
    if not found.folders:
        raise errors[0]
    return found


def find_metadata_folders(path: Path) -> list[Path]:
    """The folders at or below `path` that hold a file `metadata`, sorted."""
    if not path.exists():
        raise FabtraceError(f"{path}: no such folder; give the one that `fabtrace record -o` made")
    if not path.is_dir():
        raise FabtraceError(f"{path} is a file; give the folder that holds the trace")
    try:
        if not any(path.iterdir()):
            raise FabtraceError(
                f"{path} is empty: nothing was recorded in it; "
                f"record with `fabtrace record -o DIR -- COMMAND`"
            )
    except PermissionError as error:
        raise FabtraceError(f"{path}: {error.strerror}; run as the user who recorded it") from None
    found = sorted(Path(where) for where, _, files in os.walk(path) if "metadata" in files)
    if not found:
        raise FabtraceError(
            f"{path} is no trace: there is no file `metadata` in it or below; "
            f"give the folder that `fabtrace record -o` made"
        )
    return found


def check_folder(path: Path, ctf2: bool) -> TraceFolder:
    """Check one folder with `metadata`; FabtraceError if nothing of it can be read."""
    metadata, trouble = examine_metadata(path / "metadata", ctf2)
    folder = TraceFolder(path, metadata, cut=bool(trouble))
    if trouble:
        trouble += "; events that the lost part declares cannot be read"
        folder.problems.append(Problem(str(path / "metadata"), trouble))
    files = [file for file in folder.files if file.name != "metadata"]
    uuid = metadata_uuid(metadata)
    if uuid is None or not laid_out_as_lttng_does(metadata):
        folder.streams = [StreamFile(file, file.stat().st_size) for file in files]
        return folder
    index = {file.stem: read_index(file) for file in sorted((path / "index").glob("*.idx"))}
    for file in files:
        stream, troubles = walk_packets(file, uuid, stream_ids(metadata))
        judge_stream(folder, stream, troubles, index.pop(file.name, None))
    for name, known in index.items():
        if known.entries:
            text = f"is missing: the index says it had {len(known.entries)} packets; {COPY_AGAIN}"
            folder.problems.append(Problem(str(path / name), text))
    if folder.problems and not any(stream.packets for stream in folder.streams):
        raise FabtraceError("{0.path} {0.text}".format(folder.problems[0]))
    return folder


def judge_stream(
    folder: TraceFolder, stream: StreamFile, troubles: list[str], index: Index | None
) -> None:
    """Add a file to the folder's streams, and to its problems what is wrong with it."""
    found = len(stream.packets)
    twin = next((s for s in folder.streams if found and s.repeats(stream)), None)
    harmless = False
    if twin is not None:
        troubles, harmless = [f"repeats {twin.path.name}; move it away"], True
    elif troubles and not found and not (index and index.entries):
        harmless = not stream.of_a_trace
    elif not troubles and index and index.entries and index.knows_more(stream):
        troubles.append(
            f"has {found} of {len(index.entries)} packets: it is truncated; {COPY_AGAIN}"
        )
    elif not troubles and index and not index.fits(stream):
        text = "does not fit its stream and is left out of account"
        folder.problems.append(Problem(str(index.path), text, harmless=True))
    folder.problems += [Problem(str(stream.path), trouble, harmless) for trouble in troubles]
    if twin is None and (found or not troubles):
        folder.streams.append(stream)
