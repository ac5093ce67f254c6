# SPDX-License-Identifier: BSD-3-Clause
"""The packets of a CTF stream file, as LTTng lays them out: which are whole, and where others follow."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from fabtrace.errors import FabtraceError
from fabtrace.metadata import COPY_AGAIN, read_bytes

STREAM_MAGIC = struct.pack("<I", 0xC1FC1FC1)
# magic, uuid, stream id, stream instance id | begin, end, content and packet size in bits
STREAM_HEADER = struct.Struct("<4s16sIQQQQQ")
INDEX_MAGIC = 0xC1F1DCC1
INDEX_HEADER = struct.Struct(">IIII")  # magic, major, minor, bytes an entry
INDEX_ENTRY = struct.Struct(">QQ")  # offset, packet size in bits, and more
MOST_TROUBLES = 5  # that are named of one file


@dataclass(frozen=True)
class Packet:
    """A whole packet: where it is, and what its header says."""

    offset: int
    size: int
    stream_id: int
    instance_id: int
    begin: int
    end: int

    @property
    def mark(self) -> tuple[int, ...]:
        """What no other packet of the trace has, unless it is a copy."""
        return (self.stream_id, self.instance_id, self.begin, self.end, self.size)


@dataclass(frozen=True)
class StreamFile:
    """A stream file and its whole packets.

    intact      there is nothing else in it
    of_a_trace  it begins as a stream file does, be it of another trace
    """

    path: Path
    size: int
    packets: tuple[Packet, ...] = ()
    intact: bool = True
    of_a_trace: bool = True

    def repeats(self, other: StreamFile) -> bool:
        """Whether the other one begins with a copy of our first packet."""
        return (
            bool(self.packets and other.packets) and self.packets[0].mark == other.packets[0].mark
        )

    @property
    def port(self) -> str:
        """How Babeltrace names the stream's port, after the trace's UUID; empty if not known."""
        if not self.packets:
            return ""
        return f"{self.packets[0].stream_id} | {self.packets[0].instance_id}"


def walk_packets(path: Path, uuid: bytes, ids: frozenset[int]) -> tuple[StreamFile, list[str]]:
    """Go from packet to packet; the whole ones, and what is wrong with the rest of the file.

    `uuid` is the trace's, `ids` are the numbers of its stream classes. After damage the next packet of
    this trace is looked for: it begins with magic and UUID.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size == 0:
                return StreamFile(path, 0), []
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise FabtraceError(f"{path}: {error.strerror}") from None
    with data:
        if data[:4] != STREAM_MAGIC and data.find(STREAM_MAGIC + uuid) < 0:
            stranger = StreamFile(path, size, intact=False, of_a_trace=False)
            return stranger, ["does not belong to the trace; move it away"]
        packets, troubles = _walk(data, uuid, ids)
    foreign = not packets and bool(troubles) and "belongs to another trace" in troubles[0]
    if foreign:
        troubles = troubles[:1]
    if len(troubles) > MOST_TROUBLES:
        more = len(troubles) - MOST_TROUBLES
        troubles = [*troubles[:MOST_TROUBLES], f"has {more} more damaged places; {COPY_AGAIN}"]
    return StreamFile(path, size, tuple(packets), not troubles), troubles


def _walk(data: mmap.mmap, uuid: bytes, ids: frozenset[int]) -> tuple[list[Packet], list[str]]:
    packets: list[Packet] = []
    troubles: list[str] = []
    seen: set[tuple[int, ...]] = set()
    offset, size = 0, len(data)
    while offset < size:
        found = parse_packet(data, offset, uuid, packets[-1] if packets else None)
        if isinstance(found, Packet) and found.stream_id not in ids:
            troubles.append(
                f"is damaged at byte {offset}: an undeclared stream class; {COPY_AGAIN}"
            )
            offset += found.size
            continue
        if isinstance(found, Packet):
            if found.mark in seen:
                troubles.append(f"repeats a packet at byte {offset}; {COPY_AGAIN}")
            elif packets and found.begin < packets[-1].begin:
                troubles.append(leave_out_of_order(packets, found))
            else:
                packets.append(found)
            seen.add(found.mark)
            offset += found.size
            continue
        troubles.append(found)
        following = data.find(STREAM_MAGIC + uuid, offset + 1)
        offset = following if following >= 0 else size
    return packets, troubles


def leave_out_of_order(packets: list[Packet], found: Packet) -> str:
    """A packet begins earlier than the one before it: leave the one that doesn't fit the others."""
    last = packets[-1]
    if len(packets) > 1 and found.begin < packets[-2].begin:
        wrong = found
    else:
        wrong, packets[-1] = last, found
    return f"is damaged at byte {wrong.offset}: the packet's time is out of order; {COPY_AGAIN}"


def parse_packet(data: mmap.mmap, offset: int, uuid: bytes, before: Packet | None) -> Packet | str:
    """The packet at an offset, or what is wrong with it."""
    if len(data) - offset < STREAM_HEADER.size:
        return f"is truncated in the packet at byte {offset}; {COPY_AGAIN}"
    (
        magic,
        packet_uuid,
        stream,
        instance,
        begin,
        end,
        content_bits,
        packet_bits,
    ) = STREAM_HEADER.unpack_from(data, offset)
    if magic != STREAM_MAGIC:
        return f"is damaged at byte {offset}: no packet; {COPY_AGAIN}"
    if packet_uuid != uuid:
        return f"belongs to another trace than its `metadata` (byte {offset}); move it away"
    size = packet_bits // 8
    if not STREAM_HEADER.size * 8 <= content_bits <= packet_bits or packet_bits % 8:
        return f"is damaged at byte {offset}: packet size; {COPY_AGAIN}"
    if size > len(data) - offset:
        return f"is truncated in the packet at byte {offset}; {COPY_AGAIN}"
    if end < begin:
        return f"is damaged at byte {offset}: the packet ends before it begins; {COPY_AGAIN}"
    if before and (stream, instance) != (before.stream_id, before.instance_id):
        return f"is damaged at byte {offset}: a packet of another stream; {COPY_AGAIN}"
    return Packet(offset, size, stream, instance, begin, end)


@dataclass(frozen=True)
class Index:
    """What LTTng's index says of a stream: offset and size of each packet, None if it can't be read."""

    path: Path
    entries: tuple[tuple[int, int], ...] | None

    def fits(self, stream: StreamFile) -> bool:
        """Whether it lists the stream's packets: Babeltrace believes it."""
        return self.entries == tuple((packet.offset, packet.size) for packet in stream.packets)

    def knows_more(self, stream: StreamFile) -> bool:
        """Whether it lists the stream's packets and others after them."""
        packets = [(packet.offset, packet.size) for packet in stream.packets]
        return self.entries is not None and [*self.entries[: len(packets)]] == packets != [
            *self.entries
        ]


def read_index(path: Path) -> Index:
    """An index file."""
    content = read_bytes(path)
    if len(content) < INDEX_HEADER.size:
        return Index(path, None)
    magic, _, _, size = INDEX_HEADER.unpack_from(content)
    rest = len(content) - INDEX_HEADER.size
    if magic != INDEX_MAGIC or size < INDEX_ENTRY.size or rest % size:
        return Index(path, None)
    places = range(INDEX_HEADER.size, len(content), size)
    found = (INDEX_ENTRY.unpack_from(content, place) for place in places)
    return Index(path, tuple((offset, bits // 8) for offset, bits in found))
