# SPDX-License-Identifier: BSD-3-Clause
"""The packets of a stream file: which are whole, which were cut.

LTTng writes a stream as packets, one a sub-buffer, each with a header that says how long it is and
which one of its stream it is. A full disk or a dead daemon leaves a file that ends in the middle of
one, and Babeltrace then reads nothing of the file at all.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

STREAM_MAGIC = 0xC1FC1FC1
# magic, uuid, stream id, stream instance id | begin, end, content and packet size in bits, number
# of the packet, events discarded so far, processor: what fabtrace.packets.STREAM_HEADER has, and three more.
HEADER = struct.Struct("<I16sIQQQQQQQI")
END_OFFSET = 40  # of `end` in it
HOUR_NS, DAY_NS = 3600 * 10**9, 86400 * 10**9
INDEX_HEADER_BYTES = 16
# An index entry, big-endian: offset, packet and content size in bits, begin, end, events discarded,
# stream id, stream instance id, number.
INDEX_ENTRY = struct.Struct(">9Q")
SEARCH_BYTES = 1 << 20


@dataclass(frozen=True)
class Packet:
    """A whole packet. Times are ticks of the trace's clock."""

    offset: int
    size_bytes: int
    content_bytes: int
    uuid: bytes
    begin: int
    end: int
    number: int
    discarded: int  # LTTng's own count; not exact
    processor: int

    @property
    def holds_events(self) -> bool:
        return self.content_bytes > HEADER.size


@dataclass(frozen=True)
class Stream:
    """What a file holds."""

    packets: list[Packet]
    cut_bytes: int  # that belong to no whole packet

    @property
    def numbers(self) -> set[int]:
        return {packet.number for packet in self.packets}


def read(path: Path) -> Stream:
    """Find the whole packets of a file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        packets = list(_walk(file, size))
    return Stream(packets, size - sum(packet.size_bytes for packet in packets))


def _walk(file: BinaryIO, size: int) -> Iterator[Packet]:
    offset = 0
    while offset + HEADER.size <= size:
        packet = _packet(file, offset, size)
        if packet is None:
            offset = _next_magic(file, offset + 1, size)
            continue
        # A packet that was cut and then followed by another claims the other's bytes as its own.
        inside = _next_header(file, packet, size)
        if inside:
            offset = inside
            continue
        yield packet
        offset += packet.size_bytes


def _packet(file: BinaryIO, offset: int, size: int) -> Packet | None:
    """The packet at an offset, if there is a whole one."""
    file.seek(offset)
    header = file.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    magic, uuid, _, _, begin, end, content, total, number, discarded, cpu = HEADER.unpack(header)
    whole = HEADER.size * 8 <= content <= total and total % 8 == 0
    if magic != STREAM_MAGIC or not whole or offset + total // 8 > size:
        return None
    return Packet(offset, total // 8, content // 8, uuid, begin, end, number, discarded, cpu)


def _next_header(file: BinaryIO, packet: Packet, size: int) -> int:
    """Where another packet begins although this one should go on; 0 if it does not.

    Only looked for if nothing begins where this one ends.
    """
    end = packet.offset + packet.size_bytes
    if end == size or _packet(file, end, size) is not None:
        return 0
    found = _next_magic(file, packet.offset + 1, end)
    while found < end:
        other = _packet(file, found, size)
        if other is not None and other.uuid == packet.uuid and other.number > packet.number:
            return found
        found = _next_magic(file, found + 1, end)
    return 0


def _next_magic(file: BinaryIO, offset: int, size: int) -> int:
    """The next place that may be a packet's begin, or `size`."""
    magic = struct.pack("<I", STREAM_MAGIC)
    while offset < size:
        file.seek(offset)
        data = file.read(SEARCH_BYTES)
        found = data.find(magic)
        if found >= 0:
            return min(offset + found, size)
        if len(data) < SEARCH_BYTES:
            break
        offset += SEARCH_BYTES - len(magic) + 1
    return size


def close_open(path: Path) -> None:
    """Give an end to packets that were still being filled when they were taken from a ring.

    They have 0 there, and a packet that ends before it begins is damaged. The next one's begin is as
    late as they can have ended; of the last one nothing is known but that it was before now.
    """
    found = read(path).packets
    with path.open("r+b") as file:
        for packet, following in zip(found, [*found[1:], None]):
            if packet.end < packet.begin:
                end = following.begin if following else latest(packet.begin)
                file.seek(packet.offset + END_OFFSET)
                file.write(struct.pack("<Q", end))


def latest(begin: int) -> int:
    """A time that no event of a packet with this begin is later than."""
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    # After a reboot, or with a clock of its own (LTTNG_UST_CLOCK_PLUGIN), ours says nothing.
    return now if 0 <= now - begin < DAY_NS else begin + HOUR_NS


@dataclass(frozen=True)
class Written:
    """What the consumer daemon's index says of a stream: cheap to read while it is recorded."""

    content_bytes: int
    discarded: int  # LTTng's own count; not exact
    last_offset: int  # of the newest packet
    last_bytes: int
    last_content: int


def read_index(path: Path) -> Written | None:
    """Sum up an index; None if there is nothing in it yet."""
    data = path.read_bytes()
    count = (len(data) - INDEX_HEADER_BYTES) // INDEX_ENTRY.size
    if count <= 0:
        return None
    entries = list(
        INDEX_ENTRY.iter_unpack(
            data[INDEX_HEADER_BYTES : INDEX_HEADER_BYTES + count * INDEX_ENTRY.size]
        )
    )
    offset, packet_bits, content_bits, _, _, discarded, *_ = entries[-1]
    content = sum(entry[2] for entry in entries) // 8
    return Written(content, discarded, offset, packet_bits // 8, content_bits // 8)
