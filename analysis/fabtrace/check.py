# SPDX-License-Identifier: BSD-3-Clause
"""Is this folder a sound trace? Asked before Babeltrace sees it.

Babeltrace 2.0 aborts its process on an empty `metadata`, loops for ever on a truncated one, drops a
stream silently if it is missing or belongs to another trace, and gives up on a whole trace for one
packet that was cut. So the files are checked here: metadata complete, each stream file a sequence
of whole packets of this trace, no stream missing that the index knows, no foreign file.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fabtrace.errors import FabtraceError

METADATA_MAGIC = 0x75D11D57
STREAM_MAGIC = 0xC1FC1FC1
INDEX_MAGIC = 0xC1F1DCC1
RECORD_SEPARATOR = b"\x1e"  # opens each fragment of CTF 2's JSON metadata

# Metadata packet header: magic, uuid, checksum, content and packet size in bits, compression,
# encryption, checksum scheme, major, minor.
METADATA_HEADER = struct.Struct("<I16sIIIBBBBB")
# Stream packet as LTTng lays it out: magic, uuid, stream id, stream instance id | begin, end,
# content and packet size in bits.
STREAM_HEADER = struct.Struct("<I16sIQQQQQ")
STREAM_FIELDS = (
    "magic uuid stream_id stream_instance_id timestamp_begin timestamp_end content_size packet_size"
).split()
INDEX_HEADER = struct.Struct(">IIII")  # magic, major, minor, bytes an entry

COPY_AGAIN = "copy or record the trace again"


@dataclass(frozen=True)
class TraceFolder:
    """A folder that holds one CTF trace, with the sizes of its stream files in bytes."""

    path: Path
    metadata: str
    streams: dict[Path, int]


def find_traces(path: Path, ctf2: bool = False) -> list[TraceFolder]:
    """Check a trace and return its folders with `metadata`; raises a FabtraceError if it is none.

    `ctf2`: whether the Babeltrace in use reads CTF 2.
    """
    folders = find_metadata_folders(path)
    return [check_folder(folder, ctf2) for folder in folders]


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


def check_folder(folder: Path, ctf2: bool) -> TraceFolder:
    """Check one folder with `metadata`."""
    metadata = read_metadata(folder / "metadata", ctf2)
    streams = {
        file: file.stat().st_size
        for file in sorted(folder.iterdir())
        if file.is_file() and file.name != "metadata"
    }
    uuid = metadata_uuid(metadata)
    packets = {}
    if uuid is not None and laid_out_as_lttng_does(metadata):
        packets = {file: walk_packets(file, size, uuid) for file, size in streams.items()}
        check_index(folder, packets)
    return TraceFolder(folder, metadata, streams)


# --------------------------------------------------------------------------------- metadata


def read_metadata(path: Path, ctf2: bool = False) -> str:
    """The TSDL text of a metadata file (empty for CTF 2), after a check that it is complete."""
    content = _read(path)
    if not content:
        raise FabtraceError(
            f"{path} is empty: the consumer daemon did not get to write it, "
            f"so the trace cannot be read; record again"
        )
    if len(content) >= 4 and struct.unpack_from("<I", content)[0] == METADATA_MAGIC:
        content = unpack_metadata(path, content)
    if content.startswith(RECORD_SEPARATOR):
        if not ctf2:
            raise FabtraceError(
                f"{path} is CTF 2, which needs Babeltrace 2.1 or newer; install that, or record "
                f"with `lttng create --trace-format=ctf-1.8`"
            )
        return ""
    if not content.lstrip().startswith(b"/* CTF 1"):
        raise FabtraceError(f"{path} is no CTF metadata: it neither has packets nor `/* CTF 1.8`")
    text = content.decode("utf-8", errors="replace")
    check_text_complete(path, text)
    return text


def unpack_metadata(path: Path, content: bytes) -> bytes:
    """The text in a packetised metadata file."""
    text = bytearray()
    offset = 0
    while offset < len(content):
        if offset + METADATA_HEADER.size > len(content):
            raise _cut(path, offset)
        magic, _, _, content_bits, packet_bits, *_ = METADATA_HEADER.unpack_from(content, offset)
        if magic != METADATA_MAGIC:
            raise FabtraceError(f"{path} is damaged at byte {offset}: no packet; {COPY_AGAIN}")
        used, size = content_bits // 8, packet_bits // 8
        if not METADATA_HEADER.size <= used <= size:
            raise FabtraceError(f"{path} is damaged at byte {offset}: packet size; {COPY_AGAIN}")
        if offset + size > len(content):
            raise _cut(path, offset)
        text += content[offset + METADATA_HEADER.size : offset + used]
        offset += size
    return bytes(text)


def check_text_complete(path: Path, text: str) -> None:
    """Metadata that stops in the middle makes Babeltrace loop: look for all that must be there."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"|/\*.*?\*/', "", text, flags=re.DOTALL).strip("\0 \t\r\n")
    blocks = {name for name in ("trace", "stream", "clock") if re.search(rf"\b{name}\s*{{", bare)}
    whole = bare.count("{") == bare.count("}") and bare.endswith(";") and '"' not in bare
    if not whole or "trace" not in blocks:
        raise FabtraceError(f"{path} is truncated: its text stops in the middle; {COPY_AGAIN}")
    if "stream" not in blocks:
        raise FabtraceError(
            f"{path} declares no stream: the trace was cut off before any event came; record again"
        )


def metadata_uuid(text: str) -> bytes | None:
    """The trace's UUID, which each packet repeats."""
    found = re.search(r'\btrace\s*{[^{}]*?\buuid\s*=\s*"([0-9a-fA-F-]{36})"', text)
    return bytes.fromhex(found[1].replace("-", "")) if found else None


def laid_out_as_lttng_does(text: str) -> bool:
    """Whether STREAM_HEADER describes the packets (other tracers may choose other layouts)."""
    header = re.search(r"packet\.header\s*:=\s*struct\s*{(.*?)}", text, re.DOTALL)
    context = re.search(r"struct packet_context\s*{(.*?)}", text, re.DOTALL)
    if header is None or context is None or "byte_order = le" not in text:
        return False
    names = re.findall(r"(\w+)(?:\[\d+\])?;", header[1] + context[1])
    return names[: len(STREAM_FIELDS)] == STREAM_FIELDS


# ---------------------------------------------------------------------------------- streams


def walk_packets(path: Path, size: int, uuid: bytes) -> int:
    """Go from packet to packet of a stream file; returns how many there are."""
    packets = 0
    offset = 0
    with _open(path) as file:
        while offset < size:
            file.seek(offset)
            head = file.read(STREAM_HEADER.size)
            if offset == 0 and not head.startswith(struct.pack("<I", STREAM_MAGIC)):
                raise FabtraceError(f"{path} does not belong to the trace; move it away")
            if len(head) < STREAM_HEADER.size:
                raise _cut(path, offset)
            magic, packet_uuid, _, _, _, _, content_bits, packet_bits = STREAM_HEADER.unpack(head)
            if magic != STREAM_MAGIC:
                raise FabtraceError(f"{path} is damaged at byte {offset}: no packet; {COPY_AGAIN}")
            if packet_uuid != uuid:
                raise FabtraceError(
                    f"{path} belongs to another trace than {path.parent / 'metadata'}; move it away"
                )
            length = packet_bits // 8
            if not STREAM_HEADER.size * 8 <= content_bits <= packet_bits or packet_bits % 8:
                raise FabtraceError(
                    f"{path} is damaged at byte {offset}: packet size; {COPY_AGAIN}"
                )
            if offset + length > size:
                raise _cut(path, offset)
            offset += length
            packets += 1
    return packets


def check_index(folder: Path, packets: dict[Path, int]) -> None:
    """LTTng's index knows which streams there were and how many packets each had."""
    for index in sorted((folder / "index").glob("*.idx")):
        content = _read(index)
        if len(content) < INDEX_HEADER.size:
            continue
        magic, _, _, entry = INDEX_HEADER.unpack_from(content)
        if magic != INDEX_MAGIC or entry == 0:
            continue
        known = (len(content) - INDEX_HEADER.size) // entry
        stream = folder / index.stem
        if known and stream not in packets:
            raise FabtraceError(
                f"{stream} is missing: the index says it had {known} packets; {COPY_AGAIN}"
            )
        if known > packets.get(stream, 0):
            raise FabtraceError(
                f"{stream} has {packets[stream]} of {known} packets: it is truncated; {COPY_AGAIN}"
            )


def _cut(path: Path, offset: int) -> FabtraceError:
    return FabtraceError(f"{path} is truncated in the packet at byte {offset}; {COPY_AGAIN}")


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise FabtraceError(f"{path}: {error.strerror}") from None


def _read(path: Path) -> bytes:
    with _open(path) as file:
        return file.read()
