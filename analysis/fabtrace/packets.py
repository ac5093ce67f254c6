# SPDX-License-Identifier: BSD-3-Clause
"""The packets of a CTF stream file, as LTTng lays them out: which are whole, and where others follow.

LTTng writes a stream as packets, one a sub-buffer, each with a header that says how long it is and
which one of its stream it is. A full disk, a dead daemon or a copy that was cut short leave pieces
of packets, and Babeltrace then reads nothing of the file at all.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fabtrace.errors import FabtraceError
from fabtrace.metadata import COPY_AGAIN, read_bytes

STREAM_MAGIC = struct.pack("<I", 0xC1FC1FC1)
# magic, uuid, stream id, stream instance id | begin, end, content and packet size in bits, number of
# the packet, events discarded so far, processor: what `metadata.laid_out_as_lttng_does` asks for.
HEADER = struct.Struct("<4s16sIQQQQQQQI")
END_OFFSET = 40  # of `end` in it
INDEX_MAGIC = 0xC1F1DCC1
INDEX_HEADER = struct.Struct(">IIII")  # magic, major, minor, bytes an entry
# Offset, packet and content size in bits, begin, end, events discarded, and more in newer versions.
INDEX_ENTRY = struct.Struct(">6Q")
MOST_TROUBLES = 5  # that are named of one file

Data = mmap.mmap | bytes
SEARCH_BYTES = 1 << 20  # at a time


@dataclass(frozen=True)
class Packet:
    """A whole packet: where it is, and what its header says. Times are ticks of the trace's clock."""

    offset: int
    size_bytes: int
    content_bytes: int
    uuid: bytes
    stream_id: int
    instance_id: int
    begin: int
    end: int
    number: int
    discarded: int  # LTTng's own count; not exact
    processor: int

    @property
    def mark(self) -> tuple[int, ...]:
        """What no other packet of the trace has, unless it is a copy."""
        return (self.stream_id, self.instance_id, self.begin, self.end, self.size_bytes)

    @property
    def holds_events(self) -> bool:
        return self.content_bytes > HEADER.size


@dataclass(frozen=True)
class Piece:
    """Bytes that are no whole packet, and why, without the file's name."""

    offset: int
    why: str


# ------------------------------------------------------------------------------ walking


@contextmanager
def mapped(path: Path) -> Iterator[Data]:
    """A file's content, in memory only as far as it is looked at. OSError if it can't be read."""
    with path.open("rb") as file:
        if file.seek(0, 2) == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def walk(data: Data, uuid: bytes = b"") -> Iterator[Packet | Piece]:
    """Go from packet to packet. What is no packet is a piece, up to where one may begin again.

    `uuid`: of the trace whose packets are wanted; those of any trace without.
    """
    offset = 0
    while offset < len(data):
        found = parse_packet(data, offset, uuid)
        if isinstance(found, Packet):
            # A packet that was cut and then followed by another claims the other's bytes as its own.
            inside = _begin_inside(data, found, uuid)
            if inside == 0:
                yield found
                offset += found.size_bytes
                continue
            found = _truncated(offset)
        yield Piece(offset, found)
        offset = _next_mark(data, offset + 1, len(data), uuid)


def parse_packet(data: Data, offset: int, uuid: bytes = b"") -> Packet | str:
    """The packet at an offset, or what is wrong with it."""
    if len(data) - offset < HEADER.size:
        return _truncated(offset)
    header = HEADER.unpack(data[offset : offset + HEADER.size])
    magic, found, stream, instance, begin, end, content, total, number, discarded, cpu = header
    if magic != STREAM_MAGIC:
        return f"is damaged at byte {offset}: no packet; {COPY_AGAIN}"
    if uuid and found != uuid:
        return f"belongs to another trace than its `metadata` (byte {offset}); move it away"
    if not HEADER.size * 8 <= content <= total or total % 8:
        return f"is damaged at byte {offset}: packet size; {COPY_AGAIN}"
    if total // 8 > len(data) - offset:
        return _truncated(offset)
    return Packet(
        *(offset, total // 8, content // 8),
        *(found, stream, instance, begin, end, number, discarded, cpu),
    )


def _begin_inside(data: Data, packet: Packet, uuid: bytes) -> int:
    """Where another packet begins although this one should go on; 0 if it does not.

    Only looked for if nothing begins where this one ends.
    """
    end = packet.offset + packet.size_bytes
    if end == len(data) or isinstance(parse_packet(data, end, uuid), Packet):
        return 0
    found = _next_mark(data, packet.offset + 1, end, uuid)
    while found < end:
        other = parse_packet(data, found, uuid)
        if isinstance(other, Packet) and other.uuid == packet.uuid and other.number > packet.number:
            return found
        found = _next_mark(data, found + 1, end, uuid)
    return 0


def _next_mark(data: Data, offset: int, end: int, uuid: bytes) -> int:
    """The next place where a packet may begin, or `end`."""
    mark = STREAM_MAGIC + uuid
    for begin in range(offset, end, SEARCH_BYTES):
        # Not mmap.find: that of CPython 3.11 looks at a byte after the end, where nothing may be mapped.
        found = data[begin : min(begin + SEARCH_BYTES + len(mark) - 1, end)].find(mark)
        if found >= 0:
            return begin + found
    return end


def _truncated(offset: int) -> str:
    return f"is truncated in the packet at byte {offset}; {COPY_AGAIN}"


# ------------------------------------------------------------------------------ what to keep of a file


@dataclass(frozen=True)
class Stream:
    """What a file holds, of whatever trace it is."""

    packets: list[Packet]
    cut_bytes: int  # that belong to no whole packet

    @property
    def numbers(self) -> set[int]:
        return {packet.number for packet in self.packets}


def read(path: Path) -> Stream:
    """Find the whole packets of a file, also those that were still being filled. OSError as it comes."""
    with mapped(path) as data:
        found = [packet for packet in walk(data) if isinstance(packet, Packet)]
        return Stream(found, len(data) - sum(packet.size_bytes for packet in found))


# ------------------------------------------------------------------------------ what to read of a trace


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

    @property
    def places(self) -> list[tuple[int, int]]:
        """Offset and size of each packet."""
        return [(packet.offset, packet.size_bytes) for packet in self.packets]


def walk_packets(path: Path, uuid: bytes, ids: frozenset[int]) -> tuple[StreamFile, list[str]]:
    """The packets of a trace's file that can be read, and what is wrong with the rest of it.

    `uuid` is the trace's, `ids` are the numbers of its stream classes.
    """
    try:
        with mapped(path) as data:
            size = len(data)
            if size and data[:4] != STREAM_MAGIC and _next_mark(data, 0, size, uuid) == size:
                stranger = StreamFile(path, size, intact=False, of_a_trace=False)
                return stranger, ["does not belong to the trace; move it away"]
            packets, troubles = _judge(walk(data, uuid), ids)
    except OSError as error:
        raise FabtraceError(f"{path}: {error.strerror}") from None
    foreign = not packets and bool(troubles) and "belongs to another trace" in troubles[0]
    if foreign:
        troubles = troubles[:1]
    if len(troubles) > MOST_TROUBLES:
        more = len(troubles) - MOST_TROUBLES
        troubles = [*troubles[:MOST_TROUBLES], f"has {more} more damaged places; {COPY_AGAIN}"]
    return StreamFile(path, size, tuple(packets), not troubles), troubles


def _judge(found: Iterator[Packet | Piece], ids: frozenset[int]) -> tuple[list[Packet], list[str]]:
    """Those packets that make a stream together, and what is wrong with the others."""
    packets: list[Packet] = []
    troubles: list[str] = []
    seen: set[tuple[int, ...]] = set()
    for packet in found:
        if isinstance(packet, Piece):
            troubles.append(packet.why)
            continue
        wrong = _unfit(packet, packets[-1] if packets else None, ids)
        if not wrong and packet.mark in seen:
            wrong = f"repeats a packet at byte {packet.offset}; {COPY_AGAIN}"
        elif not wrong and packets and packet.begin < packets[-1].begin:
            wrong = leave_out_of_order(packets, packet)
        elif not wrong:
            packets.append(packet)
        seen.add(packet.mark)
        if wrong:
            troubles.append(wrong)
    return packets, troubles


def _unfit(packet: Packet, before: Packet | None, ids: frozenset[int]) -> str:
    """Why a packet can't be read by itself or after the one before; empty if it can."""
    why = ""
    if packet.end < packet.begin:
        why = "the packet ends before it begins"
    elif before and (packet.stream_id, packet.instance_id) != (
        before.stream_id,
        before.instance_id,
    ):
        why = "a packet of another stream"
    elif packet.stream_id not in ids:
        why = "an undeclared stream class"
    return f"is damaged at byte {packet.offset}: {why}; {COPY_AGAIN}" if why else ""


def leave_out_of_order(packets: list[Packet], found: Packet) -> str:
    """A packet begins earlier than the one before it: leave the one that doesn't fit the others."""
    last = packets[-1]
    if len(packets) > 1 and found.begin < packets[-2].begin:
        wrong = found
    else:
        wrong, packets[-1] = last, found
    return f"is damaged at byte {wrong.offset}: the packet's time is out of order; {COPY_AGAIN}"


# ------------------------------------------------------------------------------ the index


@dataclass(frozen=True)
class Entry:
    """What the consumer daemon's index says of a packet."""

    offset: int
    size_bytes: int
    content_bytes: int
    discarded: int  # LTTng's own count; not exact


@dataclass(frozen=True)
class Index:
    """What LTTng's index says of a stream: its packets, None if it can't be read."""

    path: Path
    entries: tuple[Entry, ...] | None

    @property
    def places(self) -> list[tuple[int, int]]:
        """Offset and size of each packet."""
        return [(entry.offset, entry.size_bytes) for entry in self.entries or ()]

    def fits(self, stream: StreamFile) -> bool:
        """Whether it lists the stream's packets: Babeltrace believes it."""
        return self.entries is not None and self.places == stream.places

    def knows_more(self, stream: StreamFile) -> bool:
        """Whether it lists the stream's packets and others after them."""
        here = stream.places
        return self.places[: len(here)] == here != self.places


def read_index(path: Path, growing: bool = False) -> Index:
    """An index file. `growing`: it is being written, so its last entry may be a part."""
    content = read_bytes(path)
    if len(content) < INDEX_HEADER.size:
        return Index(path, None)
    magic, _, _, size = INDEX_HEADER.unpack_from(content)
    rest = (len(content) - INDEX_HEADER.size) % max(size, 1)
    if magic != INDEX_MAGIC or size < INDEX_ENTRY.size or (rest and not growing):
        return Index(path, None)
    places = range(INDEX_HEADER.size, len(content) - rest, size)
    found = (INDEX_ENTRY.unpack_from(content, place) for place in places)
    return Index(
        path,
        tuple(
            Entry(offset, total // 8, used // 8, discarded)
            for offset, total, used, _, _, discarded in found
        ),
    )
