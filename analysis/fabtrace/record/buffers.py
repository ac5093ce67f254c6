# SPDX-License-Identifier: BSD-3-Clause
"""How large the ring buffers are, and whether they and the trace find room.

LTTng keeps a ring of `count` sub-buffers of `size_bytes` for each processor in /dev/shm, and fills it
with zeros when it makes it. The ring must bridge the time until the consumer daemon gets to run: at
2 million events a second of 40 bytes, 32 MiB hold 0.4 s. Much larger rings cost the recorded
program page faults, and smaller ones lose events.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from fabtrace.errors import EXIT_USAGE, FabtraceError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

SHM = Path("/dev/shm")
DISK_MIN_BYTES = 64 * MIB  # less is refused
TOTAL_MAX_BYTES = 2 * GIB  # of all rings: they are filled with zeros first, and stay in memory
DISK_LOW_BYTES = 1 * GIB  # less is mentioned: an `ops` trace of a default session has about 30 MB


@dataclass(frozen=True)
class Buffers:
    """A processor's ring."""

    size_bytes: int  # of a sub-buffer, a power of two
    count: int  # sub-buffers, a power of two

    @property
    def ring_bytes(self) -> int:
        return self.size_bytes * self.count

    def __str__(self) -> str:
        return f"{format_size(self.size_bytes)} x {self.count}"


# What to try, largest first. `light` writes some hundred events a second.
_LARGE = (
    Buffers(4 * MIB, 8),
    Buffers(2 * MIB, 8),
    Buffers(1 * MIB, 8),
    Buffers(1 * MIB, 4),
    Buffers(512 * KIB, 4),
)
_SMALL = (Buffers(256 * KIB, 4), Buffers(128 * KIB, 4), Buffers(64 * KIB, 4))


def format_size(size_bytes: int) -> str:
    """A size as people write it: 4 MiB."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.4g} {name}"
    return f"{size_bytes} bytes"


def parse(text: str) -> Buffers:
    """`4Mx8`: sub-buffers of 4 MiB, eight of them."""
    match = re.fullmatch(r"(\d{1,6})([kKM])x(\d{1,4})", text)
    if match:
        size = int(match[1]) * (MIB if match[2] == "M" else KIB)
        count = int(match[3])
        if size >= 4 * KIB and count >= 2 and not size & (size - 1) and not count & (count - 1):
            return Buffers(size, count)
    raise FabtraceError(
        f"--buffers {text}: expected SIZExCOUNT, each a power of two, SIZE from 4K, COUNT from 2,"
        " as in 4Mx8",
        EXIT_USAGE,
    )


def count_processors(possible: str) -> int:
    """Processors in a list such as `0-3,8-11`, as LTTng counts them: holes included."""
    return 1 + max(int(part.rpartition("-")[2]) for part in possible.strip().split(","))


def possible_processors() -> int:
    """For how many processors LTTng makes a ring: all that could be plugged in."""
    try:
        return count_processors(Path("/sys/devices/system/cpu/possible").read_text())
    except (OSError, ValueError):
        return os.cpu_count() or 1


def room_bytes(folder: Path) -> int:
    """Free space for this user in the file system of a folder."""
    status = os.statvfs(folder)
    if status.f_blocks == 0:
        return 1 << 63  # not a file system that knows its size: let it speak for itself
    return status.f_bavail * status.f_frsize


def choose(
    level: str, wanted: Buffers | None, processors: int, room: int, where: Path = SHM
) -> tuple[Buffers, str]:
    """The buffers for a level, and a remark when they had to be smaller than usual.

    Half of the room stays free: the shm provider keeps its queues in /dev/shm too. With many
    processors, of which a run keeps but a few busy, rings are smaller from the start.
    """
    ladder: tuple[Buffers, ...] = _SMALL if level == "light" else _LARGE
    ladder = tuple(b for b in ladder if b.ring_bytes * processors <= TOTAL_MAX_BYTES) or ladder[-1:]
    if wanted:
        ladder = (wanted,)
    share = room if wanted else room // 2
    for buffers in ladder:
        if buffers.ring_bytes * processors <= share:
            break
    else:
        least = ladder[-1]
        raise FabtraceError(
            f"{where} has {format_size(room)} free, too little for trace buffers of {least} on each of"
            f" {processors} processors; {_remedy(ladder[0], processors, where)}"
        )
    if buffers == ladder[0]:
        return buffers, ""
    return buffers, (
        f"{where} has {format_size(room)} free: the trace buffers are {buffers} a processor instead of"
        f" {ladder[0]} and may lose events; {_remedy(ladder[0], processors, where)}"
    )


def place(
    level: str, wanted: Buffers | None, processors: int, rings: Path | None, disk: Path
) -> tuple[Path, Buffers, str]:
    """In which folder the ring files go, their size, and a remark.

    In memory if it can be. A container's /dev/shm may be too small even for the smallest; rather
    than refuse, the trace's own disk is used then.
    """
    where = rings or SHM
    try:
        return where, *choose(level, wanted, processors, room_bytes(where), where)
    except FabtraceError as error:
        if rings is not None:
            raise
        try:
            chosen, _ = choose(level, wanted, processors, room_bytes(disk), disk)
        except FabtraceError:
            raise error from None
    return (
        disk,
        chosen,
        (
            f"{SHM} has {format_size(room_bytes(SHM))} free: the trace buffers are on the disk of the"
            f" trace, which is slower; {_remedy(chosen, processors, SHM)}"
        ),
    )


def _remedy(buffers: Buffers, processors: int, where: Path) -> str:
    need = -(-2 * buffers.ring_bytes * processors // MIB)
    if where != SHM:
        return f"make room for {need} MiB, or choose another --shm-path"
    return f"`mount -o remount,size={need}M {SHM}` (a container: --shm-size={need}m) makes room"


def check_disk(folder: Path, room: int, rings_bytes: int = 0) -> str:
    """Refuse a full disk; a remark when there is little room.

    A recording stops when only what is in the rings would still fit (watch.py).
    """
    if room < DISK_MIN_BYTES + rings_bytes:
        raise FabtraceError(
            f"{folder}: only {format_size(room)} free on its disk, too little for trace buffers of"
            f" {format_size(rings_bytes)} and a trace; make room, choose another with -o DIR, or smaller"
            " --buffers"
        )
    if room < DISK_LOW_BYTES:
        return f"{folder}: only {format_size(room)} free on its disk; a long recording will not fit"
    return ""
