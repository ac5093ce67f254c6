#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Damaged traces, each made from a good one in one way.

    corpus.py GOOD OUT     OUT/NAME for each damage, from the trace GOOD

`DAMAGES` says for each what a reader must make of it: all events, a part, or none, and what it must say.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STREAM_MAGIC = 0xC1FC1FC1
# Offsets in a packet as LTTng lays it out.
UUID, STREAM_ID, INSTANCE = 4, 20, 24
BEGIN, END, CONTENT_BITS, PACKET_BITS, SEQUENCE, DISCARDED, CPU = 32, 40, 48, 56, 64, 72, 80
HEADER = 84
METADATA_HEADER = 37

ALL, PART, NONE = "all", "part", "none"


@dataclass(frozen=True)
class Damage:
    """One way to damage a trace: `apply` gets the folder that holds `metadata`.

    events  how many can be read: ALL, PART or NONE
    says    what the message has: a regular expression, empty if there must be none
    code    exit code of a command that reads it
    """

    name: str
    apply: Callable[[Path], object]
    events: str
    says: str
    code: int


DAMAGES: list[Damage] = []


def damage(
    events: str, says: str, code: int | None = None
) -> Callable[..., Callable[[Path], object]]:
    """Registers a function as a damage of its name; the code is 0 only if nothing was said."""

    def register(function: Callable[[Path], object]) -> Callable[[Path], object]:
        exit_code = (1 if says else 0) if code is None else code
        DAMAGES.append(Damage(function.__name__, function, events, says, exit_code))
        return function

    return register


# ----------------------------------------------------------------------------------- tools


def find_folder(trace: Path) -> Path:
    """The folder with `metadata` of a trace that has one."""
    (found,) = [path.parent for path in trace.rglob("metadata")]
    return found


def streams(folder: Path) -> list[Path]:
    """Stream files that hold something, the largest first."""
    files = [f for f in folder.iterdir() if f.is_file() and f.name != "metadata"]
    return sorted((f for f in files if f.stat().st_size), key=lambda f: (-f.stat().st_size, f.name))


def packets(file: Path) -> list[tuple[int, int]]:
    """Offset and size of each packet of a stream file."""
    content, offset, found = file.read_bytes(), 0, []
    while offset < len(content):
        size = struct.unpack_from("<Q", content, offset + PACKET_BITS)[0] // 8
        found.append((offset, size))
        offset += size
    return found


def middle(file: Path) -> int:
    """Where a packet in the middle of a file begins."""
    found = packets(file)
    assert len(found) >= 3, f"{file} has too few packets for this damage"
    return found[len(found) // 2][0]


def cut(file: Path, size: int) -> None:
    """Leave the first `size` bytes, or all but the last ones if it is negative."""
    os.truncate(file, size if size >= 0 else file.stat().st_size + size)


def overwrite(file: Path, offset: int, content: bytes) -> None:
    """Write over what is there."""
    with file.open("r+b") as opened:
        opened.seek(offset)
        opened.write(content)


def append(file: Path, content: bytes) -> None:
    """Write behind what is there."""
    with file.open("ab") as opened:
        opened.write(content)


def number(file: Path, offset: int) -> int:
    """A number of 64 bits."""
    found: int = struct.unpack_from("<Q", file.read_bytes(), offset)[0]
    return found


def u64(value: int) -> bytes:
    """A number of 64 bits, to be written."""
    return struct.pack("<Q", value)


def text_of(folder: Path) -> str:
    """The metadata's text."""
    content, text, offset = (folder / "metadata").read_bytes(), b"", 0
    while offset < len(content):
        bits, size = struct.unpack_from("<II", content, offset + 24)
        text += content[offset + METADATA_HEADER : offset + bits // 8]
        offset += size // 8
    return text.decode()


def write_text(folder: Path, text: str) -> None:
    """Metadata as plain text, as converters write it."""
    (folder / "metadata").write_text(text)


def edit(folder: Path, pattern: str, replacement: str, count: int = 1) -> None:
    """Replace something in the metadata's text."""
    text, done = re.subn(pattern, replacement, text_of(folder), count=count, flags=re.DOTALL)
    assert done, f"{pattern} is not in the metadata"
    write_text(folder, text)


# -------------------------------------------------------------------------------- metadata


@damage(NONE, r"metadata is empty")
def metadata_empty(folder: Path) -> None:
    cut(folder / "metadata", 0)


@damage(NONE, r"is no trace: there is no file `metadata`")
def metadata_missing(folder: Path) -> None:
    (folder / "metadata").unlink()


@damage(NONE, r"is no trace: there is no file `metadata`")
def metadata_is_a_folder(folder: Path) -> None:
    (folder / "metadata").unlink()
    (folder / "metadata").mkdir()


@damage(NONE, r"metadata is truncated in the packet at byte 0")
def metadata_cut_in_header(folder: Path) -> None:
    cut(folder / "metadata", 20)


@damage(NONE, r"metadata is truncated in the packet at byte 0")
def metadata_cut_early(folder: Path) -> None:
    cut(folder / "metadata", METADATA_HEADER + 700)


@damage(PART, r"metadata: is truncated in the packet at byte \d+")
def metadata_cut_in_packet(folder: Path) -> None:
    cut(folder / "metadata", (folder / "metadata").stat().st_size * 2 // 3)


@damage(PART, r"metadata: is truncated")
def metadata_cut_at_packet(folder: Path) -> None:
    cut(folder / "metadata", (folder / "metadata").stat().st_size // 8192 * 4096)


@damage(NONE, r"metadata is damaged at byte 0: packet size")
def metadata_packet_of_no_size(folder: Path) -> None:
    overwrite(folder / "metadata", 28, bytes(4))


@damage(NONE, r"metadata is damaged at byte 0: packet size")
def metadata_packet_overfull(folder: Path) -> None:
    overwrite(folder / "metadata", 24, struct.pack("<I", 0xFFFFFFF8))


@damage(NONE, r"metadata is truncated in the packet at byte 0")
def metadata_packet_too_large(folder: Path) -> None:
    overwrite(folder / "metadata", 28, struct.pack("<I", 0xFFFFFFF8))
    cut(folder / "metadata", 900)


@damage(PART, r"metadata: is damaged at byte \d+: no packet")
def metadata_packet_without_magic(folder: Path) -> None:
    count = (folder / "metadata").stat().st_size // 4096
    overwrite(folder / "metadata", count * 2 // 3 * 4096, bytes(4))


@damage(NONE, r"metadata is no CTF metadata")
def metadata_of_something_else(folder: Path) -> None:
    (folder / "metadata").write_bytes(b"\x7fELF and so on")


@damage(NONE, r"metadata is CTF 2")
def metadata_of_ctf2(folder: Path) -> None:
    (folder / "metadata").write_bytes(b'\x1e{"type":"preamble","version":2}\n')


@damage(ALL, "")
def metadata_as_text(folder: Path) -> None:
    write_text(folder, text_of(folder))


@damage(PART, r"metadata: is truncated: its text stops")
def metadata_text_cut(folder: Path) -> None:
    write_text(folder, text_of(folder)[: len(text_of(folder)) * 2 // 3])


@damage(NONE, r"metadata declares no stream")
def metadata_text_cut_after_trace(folder: Path) -> None:
    text = text_of(folder)
    write_text(folder, text[: text.index("};", text.index("env {")) + 2])


@damage(NONE, r"metadata")
def metadata_string_without_end(folder: Path) -> None:
    edit(folder, r'domain = "ust"', 'domain = "ust')


@damage(ALL, r"metadata: is truncated: its text stops")
def metadata_comment_without_end(folder: Path) -> None:
    write_text(folder, text_of(folder) + "\n/* and")


@damage(NONE, r"metadata is truncated")
def metadata_brace_missing(folder: Path) -> None:
    edit(folder, r"trace {", "trace ")


@damage(NONE, r"Babeltrace cannot read it")
def metadata_word_misspelt(folder: Path) -> None:
    edit(folder, r"event {", "evnt {")


@damage(NONE, r"Babeltrace cannot read it")
def metadata_type_unknown(folder: Path) -> None:
    edit(folder, r"uint32_t cpu_id", "uint33_t cpu_id")


@damage(NONE, r"Babeltrace cannot read it")
def metadata_integer_too_wide(folder: Path) -> None:
    edit(folder, r"integer { size = 32;", "integer { size = 4096;")


@damage(NONE, r"Babeltrace cannot read it")
def metadata_event_twice(folder: Path) -> None:
    edit(folder, r"id = 1;", "id = 0;")


@damage(NONE, r"field writer is not of type u32: recorded by an incompatible engine")
def metadata_field_of_other_type(folder: Path) -> None:
    edit(folder, r"size = 32; (align = 8; signed = 0[^;]*; encoding = none; base = 10; } _writer)",
         r"size = 64; \1", count=0)  # fmt: skip


@damage(NONE, r"holds no event of fabtget or fabtput")
def metadata_of_other_programs(folder: Path) -> None:
    edit(folder, r'name = "fabt:', 'name = "else:', count=0)


@damage(NONE, r"belongs to another trace")
def metadata_of_another_trace(folder: Path) -> None:
    edit(folder, r'uuid = "[0-9a-f]{8}', 'uuid = "00000000')


# --------------------------------------------------------------------------------- streams


@damage(PART, r"has 0 of \d+ packets: it is truncated")
def stream_empty(folder: Path) -> None:
    cut(streams(folder)[0], 0)


@damage(PART, r"is missing: the index says it had \d+ packets")
def stream_missing(folder: Path) -> None:
    streams(folder)[0].unlink()


@damage(PART, r"is truncated in the packet at byte 0")
def stream_cut_in_header(folder: Path) -> None:
    cut(streams(folder)[0], 30)


@damage(PART, r"is truncated in the packet at byte \d+")
def stream_cut_in_packet(folder: Path) -> None:
    cut(streams(folder)[0], -100)


@damage(PART, r"has \d+ of \d+ packets: it is truncated")
def stream_cut_at_packet(folder: Path) -> None:
    cut(streams(folder)[0], packets(streams(folder)[0])[-1][0])


@damage(PART, r"is truncated in the packet at byte \d+")
def stream_cut_and_continued(folder: Path) -> None:
    """A packet was written in part, and others after it: its header claims bytes that are the next one's."""
    file = streams(folder)[0]
    content, found = file.read_bytes(), packets(file)
    offset, size = found[len(found) // 2]
    file.write_bytes(content[: offset + size // 2] + content[offset + size :])


@damage(ALL, r"is damaged at byte \d+: no packet")
def stream_with_zeros_behind(folder: Path) -> None:
    append(streams(folder)[0], bytes(4096))


@damage(ALL, r"is (damaged|truncated)")
def stream_with_noise_behind(folder: Path) -> None:
    append(streams(folder)[0], random.Random(1).randbytes(1000))


@damage(PART, r"is damaged at byte 0: no packet")
def stream_without_magic(folder: Path) -> None:
    overwrite(streams(folder)[0], 0, bytes(4))


@damage(PART, r"is damaged at byte \d+: no packet")
def packet_header_zeroed(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file), bytes(HEADER))


@damage(PART, r"is damaged at byte \d+: no packet")
def packet_zeroed(folder: Path) -> None:
    file = streams(folder)[0]
    offset, size = packets(file)[1]
    overwrite(file, offset, bytes(size))


@damage(PART, r"belongs to another trace")
def packet_of_another_trace(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + UUID, bytes(16))


@damage(PART, r"belongs to another trace")
def stream_of_another_trace(folder: Path) -> None:
    file = streams(folder)[0]
    for offset, _ in packets(file):
        overwrite(file, offset + UUID, bytes(range(16)))


@damage(PART, r"packet size")
def packet_of_no_size(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + PACKET_BITS, u64(0))


@damage(PART, r"is truncated in the packet at byte")
def packet_of_gigantic_size(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + PACKET_BITS, u64(1 << 62))


@damage(PART, r"packet size")
def packet_of_odd_size(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + PACKET_BITS, u64(8 * 16384 + 3))


@damage(PART, r"packet size")
def packet_overfull(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + CONTENT_BITS, u64(1 << 40))


@damage(PART, r"packet size")
def packet_without_content(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + CONTENT_BITS, u64(8))


@damage(ALL, r"Babeltrace")
def packet_cut_in_an_event(folder: Path) -> None:
    """Its content ends in the middle of its last event, as its header says. The event is still there."""
    file = streams(folder)[0]
    at = middle(file)
    overwrite(file, at + CONTENT_BITS, u64(number(file, at + CONTENT_BITS) - 8 * 7))


@damage(PART, r"Babeltrace")
def packet_with_unknown_event(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + HEADER, struct.pack("<H", 9999))


@damage(PART, r"Babeltrace")
def packet_full_of_ones(folder: Path) -> None:
    """Event numbers and the lengths of sequences are as large as can be."""
    file = streams(folder)[0]
    offset, size = packets(file)[len(packets(file)) // 2]
    overwrite(file, offset + HEADER, b"\xff" * (size - HEADER))


@damage(PART, r"Babeltrace")
def packet_full_of_noise(folder: Path) -> None:
    file = streams(folder)[0]
    offset, size = packets(file)[len(packets(file)) // 2]
    overwrite(file, offset + HEADER, random.Random(2).randbytes(size - HEADER))


@damage(PART, r"ends before it begins")
def packet_ends_before_it_begins(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + END, u64(1))


@damage(PART, r"time is out of order")
def packets_swapped(folder: Path) -> None:
    file = streams(folder)[0]
    content, found = bytearray(file.read_bytes()), packets(file)
    (a, size), (b, other) = found[1], found[2]
    assert size == other
    content[a : a + size], content[b : b + size] = content[b : b + size], content[a : a + size]
    file.write_bytes(content)


@damage(PART, r"time is out of order")
def packet_from_the_future(folder: Path) -> None:
    file = streams(folder)[0]
    at = middle(file)
    overwrite(file, at + BEGIN, u64(number(file, at + BEGIN) + (1 << 50)))
    overwrite(file, at + END, u64(number(file, at + END) + (1 << 50)))


@damage(ALL, r"repeats a packet")
def packet_twice(folder: Path) -> None:
    file = streams(folder)[0]
    offset, size = packets(file)[-1]
    append(file, file.read_bytes()[offset : offset + size])


@damage(ALL, r"repeats .*; move it away", code=0)
def stream_twice(folder: Path) -> None:
    file = streams(folder)[0]
    shutil.copy(file, file.with_name(file.name + ".copy"))


@damage(PART, r"a packet of another stream")
def packet_of_another_stream(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + INSTANCE, u64(77))


@damage(PART, r"an undeclared stream class")
def stream_of_undeclared_class(folder: Path) -> None:
    file = streams(folder)[0]
    for offset, _ in packets(file):
        overwrite(file, offset + STREAM_ID, struct.pack("<I", 99))


@damage(ALL, "")
def packet_of_impossible_processor(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + CPU, struct.pack("<I", 0xFFFFFFF0))


@damage(ALL, "")
def packet_that_lost_everything(folder: Path) -> None:
    """LTTng's counters are known to be wrong: a hint and no more."""
    file = streams(folder)[0]
    overwrite(file, middle(file) + DISCARDED, u64((1 << 63) + 5))


@damage(ALL, "")
def packet_number_out_of_order(folder: Path) -> None:
    file = streams(folder)[0]
    overwrite(file, middle(file) + SEQUENCE, u64(1))


# ----------------------------------------------------------------------- what lies beside them


@damage(ALL, r"notes.txt: does not belong to the trace", code=0)
def foreign_text(folder: Path) -> None:
    (folder / "notes.txt").write_text("to be looked at again")


@damage(ALL, r"stranger: belongs to another trace")
def foreign_stream(folder: Path) -> None:
    shutil.copy(streams(folder)[0], folder / "stranger")
    for offset, _ in packets(folder / "stranger"):
        overwrite(folder / "stranger", offset + UUID, bytes(16))


@damage(ALL, "")
def foreign_folder(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "notes.txt").write_text("x")


@damage(ALL, "")
def foreign_pipe(folder: Path) -> None:
    """Whoever opens it waits for ever."""
    os.mkfifo(folder / "pipe")


@damage(ALL, "")
def link_to_nothing(folder: Path) -> None:
    (folder / "gone").symlink_to(folder / "nowhere")


@damage(ALL, "")
def index_missing(folder: Path) -> None:
    shutil.rmtree(folder / "index")


@damage(ALL, r"index.*does not fit", code=0)
def index_of_noise(folder: Path) -> None:
    for index in (folder / "index").iterdir():
        index.write_bytes(random.Random(3).randbytes(500))


@damage(ALL, r"index.*does not fit", code=0)
def index_cut(folder: Path) -> None:
    for index in (folder / "index").iterdir():
        cut(index, -30)


@damage(ALL, r"index.*does not fit", code=0)
def index_points_elsewhere(folder: Path) -> None:
    """Its offsets lie outside the stream."""
    for index in (folder / "index").iterdir():
        content = bytearray(index.read_bytes())
        if len(content) > 24:
            content[16:24] = struct.pack(">Q", 1 << 40)
            index.write_bytes(content)


@damage(PART, r"metadata is empty")
def one_of_two_traces(folder: Path) -> None:
    """A second recording in the same folder was cut off before its metadata was written."""
    other = folder.parent / "second"
    shutil.copytree(folder, other)
    cut(other / "metadata", 0)


def make(good: Path, out: Path, damage: Damage) -> Path:
    """A copy of the trace with one damage; returns it."""
    copy = out / damage.name
    shutil.copytree(good, copy)
    damage.apply(find_folder(copy))
    return copy


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    good, out = map(Path, arguments)
    out.mkdir(parents=True, exist_ok=True)
    for item in DAMAGES:
        make(good, out, item)
        print(f"{item.name:32} events: {item.events:5} exit code {item.code} {item.says}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
