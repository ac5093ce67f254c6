# SPDX-License-Identifier: BSD-3-Clause
"""A sound copy of what is sound in a damaged trace, for Babeltrace to read.

Intact stream files are linked, of damaged ones the whole packets are copied; the index, which would
disagree, is left out, and Babeltrace makes its own.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from fabtrace.check import TraceFolder
from fabtrace.packets import StreamFile


def make_sound(folder: TraceFolder, copy: Path, skip: Collection[tuple[Path, int]] = ()) -> None:
    """Make `copy` a trace of the folder's sound parts. `skip`: packets (file, offset) to leave out."""
    copy.mkdir()
    if folder.cut:
        (copy / "metadata").write_text(folder.metadata + "\n")
    else:
        (copy / "metadata").symlink_to((folder.path / "metadata").resolve())
    for stream in folder.streams:
        offsets = {offset for path, offset in skip if path == stream.path}
        target = copy / stream.path.name
        if stream.intact and not offsets:
            target.symlink_to(stream.path.resolve())
        else:
            copy_packets(stream, target, offsets)


def copy_packets(stream: StreamFile, target: Path, skip: Collection[int]) -> None:
    """Copy the whole packets of a stream file, but those at some offsets."""
    with stream.path.open("rb") as source, target.open("wb") as output:
        for packet in stream.packets:
            if packet.offset in skip:
                continue
            offset, left = packet.offset, packet.size_bytes
            while left:
                done = os.copy_file_range(source.fileno(), output.fileno(), left, offset)
                if done == 0:  # the file shrank meanwhile
                    return
                offset, left = offset + done, left - done
